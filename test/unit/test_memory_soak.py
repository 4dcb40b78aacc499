# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A long stream: bytes, tensors alive and process memory stay flat.

INFINIPOT_SOAK_FRAMES sets the number of frames (100000 takes some minutes).
"""

import gc
import os
from pathlib import Path

from infinipot_ros.memory import MemoryConfig, VideoMemory
from infinipot_ros.memory.model import ModelShape, RotaryTable
import numpy as np
import torch

FRAMES = int(os.environ.get('INFINIPOT_SOAK_FRAMES', '1200'))


class TwoLayers:
    """The least that the memory's protocol asks for: random embeddings, two attention layers."""

    name, fingerprint, eos_ids, frames_per_step = 'two layers', 'none', frozenset(), 1
    default_frame_size_px, cv_thresholds = (2, 2), None
    shape = ModelShape(layers=2, query_heads=2, kv_heads=1, head_dim=4, hidden=8,
                       dtype=torch.float32, device=torch.device('cpu'), max_context_tokens=4096,
                       max_rank=16)

    def __init__(self):
        self.draw = torch.Generator().manual_seed(0)

    def rank_step(self, _):
        return 1.0

    def grid(self, _):
        return 2, 2

    def picture_size_px(self, _):
        return 2, 2

    def prepare(self, rgb, _):
        return rgb

    def encode(self, *_):
        return torch.randn(4, 8, generator=self.draw)

    def prefix_ids(self):
        return [1, 2]

    def suffix_ids(self, question, history=()):
        return [3, *range(4, 4 + len(question)), 5]

    def nothing_understood(self, text):
        return ''

    def unknown_words(self, text):
        return []

    def question_tokens(self, text):
        return len(text)

    def embed(self, ids):
        return torch.tensor([[float(i)] * 8 for i in ids])

    def backbone(self, embeddings, stream):
        states = embeddings
        for layer in range(2):
            query = states.view(1, -1, 2, 4).transpose(1, 2)
            key = value = states[None, None, :, :4]
            found = stream.attend(layer, query, key, value, 0.5)
            states = states + found.transpose(1, 2).reshape(states.shape)
        return torch.tanh(states)

    def logits(self, states):
        return states

    def rotary_table(self, positions):
        angles = torch.arange(positions)[:, None] * torch.tensor([1.0, 0.1])
        return RotaryTable(angles.cos(), angles.sin(), (0, 1))

    def text(self, ids):
        return ' '.join(map(str, ids))


def resident_kib():
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('RssAnon'):  # pages of files come and go with the machine's memory
            return int(line.split()[1])
    return 0


def tensors_alive():
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def test_nothing_grows_with_the_stream():
    memory = VideoMemory(TwoLayers(), MemoryConfig(
        budget_mib=0.2, max_memory_tokens=64, max_question_tokens=8, max_new_tokens=4,
        thumbnail_px=2))
    picture = np.zeros((2, 2, 3), np.uint8)
    held, alive, resident = [], [], []
    for index in range(FRAMES):
        memory.add_frame(picture, stamp=float(index), frame_id=f'frame {index % 3}')
        if index % 50 == 0:
            memory.ask('what?')
        if index % (FRAMES // 6) == FRAMES // 6 - 1:
            status = memory.status()
            assert status.held_bytes <= status.budget_bytes
            held.append(status.bytes_by_part)
            alive.append(tensors_alive())
            resident.append(resident_kib())
    assert memory.status().compressions > FRAMES // 8
    assert all(parts == held[0] for parts in held)
    # The first sixth is warm-up.
    assert max(alive[1:]) <= alive[1] + 8
    assert resident[-1] - resident[1] < 4096
    print(f'{FRAMES} frames: {alive[1:]} tensors, {resident[1:]} KiB resident')


def test_the_counts_would_notice_a_leak():
    before = tensors_alive()
    kept = [torch.zeros(1) for _ in range(20)]
    assert tensors_alive() >= before + len(kept)
