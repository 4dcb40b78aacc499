# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Slow, plain, double-precision answers that the policies' tests compare with."""

import math
import random

from infinipot_ros.memory.policies import LayerView
import torch


def survivors(seed, heads=2, frames=6, grid=(3, 4), size=5, keep=0.6, whole=1, **settings):
    """Build a view whose heads kept different tokens; the newest `whole` frames are complete."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    cells = grid[0] * grid[1]
    everything = [(t, p) for t in range(frames) for p in range(cells)]
    past = [c for c in everything if c[0] < frames - whole]
    stay = max(1, round(keep * len(past))) if past else 0
    kept = []
    for _ in range(heads):
        mine = sorted(rng.sample(past, stay)) + [c for c in everything if c[0] >= frames - whole]
        kept.append(mine)
    gaps = 10 + 3 * torch.arange(frames)
    frame = torch.stack([torch.stack([gaps[t] for t, _ in head]) for head in kept])
    patch = torch.tensor([[p for _, p in head] for head in kept])
    keys = torch.randn(*frame.shape, size, dtype=torch.float64)
    values = torch.randn(*frame.shape, size, dtype=torch.float64)
    return LayerView(keys, values, frame, patch, grid, **settings)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return dot / norms if norms > 0 else 0.0


def recent_ids(view):
    return sorted({int(t) for t in view.frame.flatten()})[-view.recent_frames:]


def tar_by_hand(view):
    """Eq. 4, token by token, over the recent tokens that are there."""
    recent = recent_ids(view)
    keys = view.keys.double().tolist()
    scores = []
    for h in range(view.num_heads):
        frames, patches = view.frame[h].tolist(), view.patch[h].tolist()
        row = []
        for n in range(view.num_tokens):
            if frames[n] in recent:
                row.append(math.inf)
                continue
            cosines = [
                cosine(keys[h][n], keys[h][m])
                for m in range(view.num_tokens)
                if frames[m] in recent and patches[m] == patches[n]
            ]
            row.append(-sum(cosines) / len(cosines) if cosines else 0.0)
        scores.append(row)
    return torch.tensor(scores, dtype=torch.float64)


def norms_by_hand(view):
    values = view.values.double().tolist()
    return [[math.sqrt(sum(x * x for x in token)) for token in head] for head in values]


def van_by_hand(view, kernel):
    """Mean norm over the cells of the same frame that the head still holds."""
    norms = norms_by_hand(view)
    columns = view.grid[1]
    reach = kernel // 2
    scores = []
    for h in range(view.num_heads):
        frames, patches = view.frame[h].tolist(), view.patch[h].tolist()
        row = []
        for n in range(view.num_tokens):
            i, j = divmod(patches[n], columns)
            near = [
                norms[h][m]
                for m in range(view.num_tokens)
                if frames[m] == frames[n]
                and abs(patches[m] // columns - i) <= reach
                and abs(patches[m] % columns - j) <= reach
            ]
            row.append(sum(near) / len(near))
        scores.append(row)
    return torch.tensor(scores, dtype=torch.float64)


def best(scores, count, allowed):
    """Return the `count` highest of `allowed`; the earlier token wins a tie."""
    return set(sorted(allowed, key=lambda n: (-scores[n], n))[:count])


def infinipot_v_by_hand(view, budget, kernel):
    """Algorithm 1 with recent frames inside TaR's share; recent frames have to fit the budget."""
    tar, van = tar_by_hand(view), van_by_hand(view, kernel)
    recent = recent_ids(view)
    kept = []
    for h in range(view.num_heads):
        everything = set(range(view.num_tokens))
        whole = {n for n in everything if int(view.frame[h, n]) in recent}
        share = int(view.alpha * budget + 1e-9)
        from_tar = best(tar[h].tolist(), max(0, share - len(whole)), everything - whole)
        chosen = whole | from_tar
        from_van = best(van[h].tolist(), budget - len(chosen), everything - chosen)
        kept.append(sorted(chosen | from_van))
    return torch.tensor(kept)
