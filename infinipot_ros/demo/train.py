# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
Train the demo model from nothing: ``python -m infinipot_ros.demo.train --output DIR``.

Two processes with one thread each and one gradient all-reduce, float32. Three stages: single
patches (what is where), single frames, then clips as a compressed memory presents them. No loss
looks at a key, a value norm or a policy's choice.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
import json
import math
import os
from pathlib import Path
import socket
import time

from infinipot_ros.demo.architecture import build_model, save_model
from infinipot_ros.demo.clips import Clip, draw_clip, IGNORED, to_patches
from infinipot_ros.demo.packing import Packer
from infinipot_ros.demo.questions import SIDES
from infinipot_ros.demo.things import COLOURS, SHAPES
from infinipot_ros.demo.vision import encode_frames
import numpy as np
from safetensors import safe_open
from safetensors.torch import save_file
import torch
from torch import nn
import torch.distributed as dist
import torch.nn.functional as F
from transformers import Qwen2VLForConditionalGeneration


@dataclass(frozen=True)
class Schedule:
    """Steps of each stage, frames per process and step, and learning rates."""

    patch_steps: int = 300
    frame_steps: int = 600
    clip_steps: int = 2200
    frames_per_step: int = 96
    muon_lr: float = 2e-3
    adam_lr: float = 2e-3
    seed: int = 1

    @property
    def steps(self) -> int:
        """Return the steps of all stages together."""
        return self.patch_steps + self.frame_steps + self.clip_steps

    def learning_rate_scale(self, step: int) -> float:
        """Return 1 up to the middle of the clips, then a cosine down to 2 %, after a warm-up."""
        start = self.patch_steps + self.frame_steps + self.clip_steps // 2
        if step < start:
            return min(1.0, (step + 1) / 40)
        progress = (step - start) / max(self.steps - start, 1)
        return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


class Trainer:
    """One process of the training."""

    def __init__(self, schedule: Schedule, rank: int, world: int, output: Path) -> None:
        """Build the model, the optimisers and the log; every process builds the same model."""
        self._schedule = schedule
        self._rank, self._world, self._output = rank, world, output
        self._model, self._tokenizer = build_model(schedule.seed)
        self._packer = Packer(self._tokenizer)
        self._optimisers = _optimisers(self._model, schedule)
        self._rates = [group['lr'] for o in self._optimisers for group in o.param_groups]
        self._words = {name: torch.tensor(self._tokenizer.convert_tokens_to_ids(list(names)))
                       for name, names in (('colour', [*COLOURS, 'nothing']),
                                           ('shape', [*SHAPES, 'nothing']), ('side', SIDES))}
        self._log = _Log(output / 'training_log.jsonl') if rank == 0 else None
        self._step = 0

    def run(self, checkpoint_every: int = 200) -> None:
        """Train through all stages, resuming from a checkpoint if there is one."""
        self._resume()
        for step in range(self._step, self._schedule.steps):
            rng = np.random.default_rng([self._schedule.seed, step, self._rank])
            self._set_rates(step)
            loss = self._loss(step, rng)
            for optimiser in self._optimisers:
                optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self._reduce_gradients()
            nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            for optimiser in self._optimisers:
                optimiser.step()
            self._step = step + 1
            if self._log is not None and self._step % 20 == 0:
                self._log.write(self._step)
            if self._rank == 0 and self._step % checkpoint_every == 0:
                self._save()
        if self._rank == 0:
            self._save()

    def _loss(self, step: int, rng: np.random.Generator) -> torch.Tensor:
        schedule = self._schedule
        if step < schedule.patch_steps:
            clips = [draw_clip(rng, 1, 0) for _ in range(schedule.frames_per_step)]
            loss, _ = self._patch_loss(clips)
            return loss
        clips = list(self._draw_clips(step - schedule.patch_steps, rng))
        patch_loss, visual = self._patch_loss(clips)
        answer_loss = self._answer_loss(clips, visual, rng)
        return answer_loss + (0.5 if step < schedule.patch_steps + schedule.frame_steps
                              else 0.2) * patch_loss

    def _draw_clips(self, step: int, rng: np.random.Generator) -> Iterator[Clip]:
        """Draw one step's clips: 1 to 3 frames at first, later up to 32."""
        frames = self._schedule.frames_per_step
        if step < self._schedule.frame_steps:
            length, questions, see_share = int(rng.integers(1, 4)), 4, 0.33
        else:
            progress = (step - self._schedule.frame_steps) / self._schedule.clip_steps
            # All processes draw the same length, so that none waits for another.
            shared = np.random.default_rng([self._schedule.seed, step, 99])
            length = int(shared.integers(2, 11) if progress < 0.25 else shared.integers(4, 25)
                         if progress < 0.7 else shared.integers(8, 33))
            questions, see_share = 14, None
        for _ in range(max(1, frames // length)):
            yield draw_clip(rng, length, questions, see_share)

    def _patch_loss(self, clips: list[Clip]) -> tuple[torch.Tensor, torch.Tensor]:
        """Name what each patch shows, with the word embeddings as the classifier."""
        frames = np.concatenate([clip.frames for clip in clips])
        visual = encode_frames(self._model.model.visual, torch.from_numpy(to_patches(frames)))
        flat = visual.reshape(-1, visual.shape[-1])
        table = self._model.get_input_embeddings().weight
        loss = flat.new_zeros(())
        for name in ('colour', 'shape', 'side'):
            labels = torch.from_numpy(np.concatenate([getattr(c, name) for c in clips])).view(-1)
            logits = flat @ table[self._words[name]].T
            weight = torch.ones(logits.shape[1])
            if name != 'side':
                weight[-1] = 0.15
            loss = loss + F.cross_entropy(logits, labels, weight, ignore_index=IGNORED)
            if self._log is not None:
                shown = (labels != IGNORED) & (labels != len(COLOURS))
                right = logits.argmax(1) == labels
                self._log.add(f'patch/{name}', loss=None, right=right[shown].float().tolist())
        return loss, flat

    def _answer_loss(
        self, clips: list[Clip], visual: torch.Tensor, rng: np.random.Generator,
    ) -> torch.Tensor:
        batch = self._packer.pack(clips, rng)
        language = self._model.model.language_model
        text = self._model.get_input_embeddings()(batch.token_ids)
        is_frame = batch.frame_slot >= 0
        embeds = text.masked_scatter(is_frame[..., None], visual[batch.frame_slot[is_frame]])
        hidden = language(inputs_embeds=embeds, position_ids=batch.positions,
                          attention_mask={'full_attention': batch.mask},
                          use_cache=False).last_hidden_state
        wanted = batch.targets != IGNORED
        logits = self._model.lm_head(hidden[wanted])
        losses = F.cross_entropy(logits, batch.targets[wanted], reduction='none')
        if self._log is not None:
            right = logits.argmax(1) == batch.targets[wanted]
            self._log_families(clips, batch.owner, wanted, losses.detach(), right)
        return losses.mean()

    def _log_families(
        self, clips: list[Clip], owner: torch.Tensor, wanted: torch.Tensor,
        losses: torch.Tensor, right: torch.Tensor,
    ) -> None:
        assert self._log is not None
        clip_of = wanted.nonzero()[:, 0].tolist()
        questions = owner[wanted].tolist()
        grouped: dict[tuple[int, int], list[int]] = defaultdict(list)
        for k, key in enumerate(zip(clip_of, questions)):
            grouped[key].append(k)
        for (clip, question), at in grouped.items():
            asked = clips[clip].questions[question]
            kind = asked.kind if asked.family in ('did', 'now') else ''
            self._log.add(f'{asked.family}/{kind}'.rstrip('/'), float(losses[at].sum()),
                          [float(right[at].all())])

    def _set_rates(self, step: int) -> None:
        scale = self._schedule.learning_rate_scale(step)
        groups = [group for o in self._optimisers for group in o.param_groups]
        for group, rate in zip(groups, self._rates):
            group['lr'] = rate * scale

    def _reduce_gradients(self) -> None:
        if self._world == 1:
            return
        for parameter in self._model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self._model.parameters()]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients if gradient is not None])
        dist.all_reduce(flat)
        flat /= self._world
        at = 0
        for gradient in gradients:
            assert gradient is not None
            gradient.copy_(flat[at:at + gradient.numel()].view_as(gradient))
            at += gradient.numel()

    def _save(self) -> None:
        save_model(self._model, self._tokenizer, self._output / 'model')
        state = {f'model.{name}': value for name, value in self._model.state_dict().items()
                 if name != 'lm_head.weight'}
        for name, value in self._optimiser_state():
            state[name] = value
        save_file(state, self._output / 'state.tmp', {'step': str(self._step)})
        os.replace(self._output / 'state.tmp', self._output / 'state.safetensors')

    def _resume(self) -> None:
        path = self._output / 'state.safetensors'
        if not path.exists():
            return
        with safe_open(path, 'pt') as file:
            self._step = int(file.metadata()['step'])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        model = {name.removeprefix('model.'): value for name, value in state.items()
                 if name.startswith('model.')}
        self._model.load_state_dict(model, strict=False)
        for k, optimiser in enumerate(self._optimisers):
            saved = optimiser.state_dict()
            for name, value in state.items():
                if name.startswith(f'optimiser{k}.'):
                    _, parameter, entry = name.split('.')
                    saved['state'].setdefault(int(parameter), {})[entry] = value
            optimiser.load_state_dict(saved)

    def _optimiser_state(self) -> Iterator[tuple[str, torch.Tensor]]:
        for k, optimiser in enumerate(self._optimisers):
            for parameter, entries in optimiser.state_dict()['state'].items():
                for entry, value in entries.items():
                    yield f'optimiser{k}.{parameter}.{entry}', value.contiguous()


class _Log:
    """Mean loss and accuracy of every question family, printed and written as JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = time.monotonic()
        self._losses: dict[str, list[float]] = defaultdict(list)
        self._right: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, loss: float | None, right: list[float]) -> None:
        if loss is not None:
            self._losses[name].append(loss)
        self._right[name] += right

    def write(self, step: int) -> None:
        row: dict[str, object] = {'step': step,
                                  'minutes': round((time.monotonic() - self._start) / 60, 2)}
        for name, right in sorted(self._right.items()):
            losses = self._losses.get(name)
            row[name] = [round(float(np.mean(losses)), 3) if losses else None,
                         round(float(np.mean(right)), 3) if right else None, len(right)]
        with self._path.open('a') as file:
            file.write(json.dumps(row) + '\n')
        print(json.dumps(row), flush=True)
        self._losses.clear()
        self._right.clear()


def _optimisers(
    model: Qwen2VLForConditionalGeneration, schedule: Schedule,
) -> list[torch.optim.Optimizer]:
    """Muon for the hidden matrices, AdamW for embeddings, norms, biases and the patch kernel."""
    table = model.get_input_embeddings().weight
    matrices = [p for p in model.parameters() if p.ndim == 2 and p is not table]
    rest = [p for p in model.parameters() if p.ndim != 2 or p is table]
    return [torch.optim.Muon(matrices, lr=schedule.muon_lr, momentum=0.95, weight_decay=0.01,
                             adjust_lr_fn='match_rms_adamw'),
            torch.optim.AdamW(rest, lr=schedule.adam_lr, weight_decay=0.0)]


def _process(rank: int, world: int, port: int, schedule: Schedule, output: Path) -> None:
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank,
                                world_size=world)
    Trainer(schedule, rank, world, output).run()
    if world > 1:
        dist.destroy_process_group()


def main(arguments: list[str] | None = None) -> None:
    """Train, or go on from the last checkpoint in the output folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--output', type=Path, required=True, help='folder for model and log')
    parser.add_argument('--processes', type=int, default=2)
    for name, value in asdict(Schedule()).items():
        parser.add_argument('--' + name.replace('_', '-'), type=type(value), default=value)
    options = parser.parse_args(arguments)
    schedule = Schedule(**{name: getattr(options, name) for name in asdict(Schedule())})
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / 'schedule.json').write_text(json.dumps(asdict(schedule), indent=2) + '\n')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(
        _process, (options.processes, port, schedule, options.output), nprocs=options.processes)


if __name__ == '__main__':
    main()
