# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ablations of the two papers by name: which methods each compares, on which streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinipot_ros.bench.methods import Method
from infinipot_ros.bench.slot_coordinates import MODULE as SLOTS

FRAME_TOKENS = 16
_PAST = ('colour, past', 'shape, past', 'did: yes, past', 'did: no', 'did: no, recombined')
_NOW = ('see now', 'where now', 'is there now', 'colour, recent', 'colour, past',
        'did: yes, past', 'did: no')
# DSCache's window of 32 frames: 28 in the cumulative cache and 4 in the instant cache.
_WINDOW_TOKENS = 28 * FRAME_TOKENS


@dataclass(frozen=True)
class Ablation:
    """Methods to compare on some settings of the demo world at one budget."""

    summary: str
    methods: Sequence[Method]
    settings: Sequence[str]
    budget: str
    metrics: Sequence[str]


def _methods(policy: str, field: str, values: Sequence[Any], letter: str) -> list[Method]:
    return [Method(f'{policy}, {letter} {value:g}', policy, {field: value}) for value in values]


def _table4() -> list[Method]:
    return [Method(name, name) for name in (
        'uniform_frames', 'tar_reverse', 'tar_frame', 'tar', 'van_reverse', 'van', 'van_pool',
        'infinipot_v')]


def _coordinates() -> list[Method]:
    unpooled = {'policy_options': {'van_kernel': 1}}
    return [
        Method('infinipot_v', 'infinipot_v'),
        Method('infinipot_v, by slot', f'{SLOTS}:infinipot_v_by_slot'),
        Method('infinipot_v, unpooled', 'infinipot_v', unpooled),
        Method('infinipot_v, unpooled, by slot', f'{SLOTS}:infinipot_v_by_slot', unpooled),
        Method('infinipot_v_published', 'infinipot_v_published'),
        Method('infinipot_v_published, unpooled', 'infinipot_v_published', unpooled),
        Method('tar', 'tar'),
        Method('tar, by slot', f'{SLOTS}:tar_by_slot')]


def _sinks() -> list[Method]:
    return [Method(f'sinks in cumulative {_yes(past)}, in instant {_yes(now)}', 'sliding_window',
                   {'instant_frames': 4, 'sinks_in_cumulative': past, 'sinks_in_instant': now})
            for past in (False, True) for now in (False, True)]


def _combination() -> list[Method]:
    read = {'question_tokens': 8 * FRAME_TOKENS}
    ways: Sequence[tuple[str, str, Mapping[str, Any]]] = (
        ('first in, first out', 'sliding_window', {}),
        # Out of the cumulative cache, as in the table; out of all frames, as ReKV itself.
        ('ReKV, 8 frames', 'sliding_window', {'question_policy': 'rekv', **read}),
        ('ReKV, 8 frames from host memory', 'rekv', read),
        ('InfiniPot-V', 'infinipot_v', {}), ('TaR', 'tar', {}))
    return [Method(f'{name}{" + DSCache" if frames else ""}', policy,
                   {'instant_frames': frames, **settings})
            for name, policy, settings in ways for frames in (0, 4)]


def _lengths() -> list[Method]:
    pairs = [*((past, 4) for past in (4, 12, 20, 28, 36)),
             *((past, 0) for past in (8, 16, 24, 32)),
             *((28, now) for now in (1, 2, 8)),
             *((32 - now, now) for now in (8, 16, 24, 28))]
    return [Method(f'l_U {past:2}, l_I {now:2}', 'sliding_window', {'instant_frames': now},
                   tokens=past * FRAME_TOKENS) for past, now in dict.fromkeys(pairs)]


def _yes(switch: bool) -> str:
    return 'yes' if switch else 'no'


ABLATIONS: dict[str, Ablation] = {
    'table4': Ablation(
        "TaR, TaR by frame, reverse; VaN, pooled, reverse; both (InfiniPot-V's Table 4)",
        _table4(), ('still', 'calm', 'vivid'), '128', _PAST),
    'coordinates': Ablation(
        'true coordinates against slots, apart from what else the published code does',
        _coordinates(), ('still', 'calm'), '128', _PAST),
    'alpha': Ablation(
        'the share alpha of the budget that TaR gets (InfiniPot-V, Table A1)',
        _methods('infinipot_v', 'alpha', (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 'alpha'),
        ('still', 'calm'), '128', _PAST),
    'recent': Ablation(
        'r as a share of the frames that fit (InfiniPot-V, Table A2 top)',
        _methods('tar', 'recent_ratio', (0.125, 0.25, 0.5), 'r / f'),
        ('still', 'calm'), '128', _PAST),
    'keep_ratio': Ablation(
        'what a compression leaves, |C| / |M| (InfiniPot-V, Table A2 bottom)',
        _methods('infinipot_v', 'keep_ratio', (0.75, 0.5, 0.25), '|C| / |M|'),
        ('still', 'calm'), '128', _PAST),
    'dscache_sinks': Ablation(
        "attention sinks in the two constructions (DSCache's Table 5)",
        _sinks(), ('calm', 'still'), str(_WINDOW_TOKENS), _NOW),
    'dscache_combination': Ablation(
        "the instant cache with other caches of the past (DSCache's Table 6)",
        _combination(), ('calm', 'still'), str(_WINDOW_TOKENS), _NOW),
    'dscache_lengths': Ablation(
        "lengths l_U and l_I, apart and at a fixed sum of 32 frames (DSCache's Figure 3)",
        _lengths(), ('calm',), str(_WINDOW_TOKENS), _NOW),
}
