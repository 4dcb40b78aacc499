# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a memory, checked when they are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
import math
from types import MappingProxyType

from infinipot_ros.errors import ConfigError

#: More than any machine has, and little enough to be counted in bytes.
#: No grid has as many rows, and no coefficient of variation is as large.
WIDEST_KERNEL = 1000
LARGEST_THRESHOLD = 1e9
MOST_MIB = 2**40


@dataclass(frozen=True)
class MemoryConfig:
    """
    Settings of one memory; the paper's letters are given with its parameters.

    budget_mib: everything the memory holds, weights and a forward pass's working memory apart,
        and what a policy that offloads (`rekv`) keeps in host memory.
    policy: a name of `POLICIES`.
    alpha: share of the kept tokens that TaR chooses (InfiniPot-V, alpha).
    recent_ratio: share of the frames a full memory holds that is kept whole (r = recent_ratio f).
    keep_ratio: what a compression leaves, |C| / |M|.
    instant_frames: newest frames kept as features and encoded apart (DSCache, l_I); 0 turns it
        off.
    max_memory_tokens: cap on |M|; 0 is what the model was trained to read.
    max_question_tokens, max_new_tokens: room for the text of one question and its answer.
    cameras, camera_shares: names, and how the tokens are divided (empty: evenly).
    frame_size_px: (height, width) that every frame is resized to; None is the model's own.
    thumbnail_px: longest side of the small pictures kept as evidence; 0 keeps none.
    max_evidence: frames named in an answer.
    evidence_layers: layers whose attention counts as evidence; empty is all of them.
    hold_rotated_keys: rotate all keys once an answer (faster) instead of once a token (smaller).
    decouple: encode the instant frames over the sinks alone (DSCache); False: over the past as
        well.
    sinks_in_cumulative, sinks_in_instant: whether those caches are built over the attention sinks
        (DSCache's Table 5); the answer always sees the sinks.
    newest_scale: side of the newest frame at a question against `frame_size_px`; 1 is off.
    question_policy: policy by which each question chooses what it reads of the past; '' is all of
        it.
    question_tokens: how many tokens of a camera's past such a question reads, or one fetches from
        host memory.
    temperature: 0 decodes greedily; above, answers are drawn at random, from `seed` on.
    sample_fps: frames a second that the camera will give, for models whose positions count
        seconds; 0 is unknown.
    policy_options: further settings of one policy; for every policy 'seed' (that of its draws,
        else `seed`), 'van_kernel' and 'cv_thresholds' (None: VaN's kernel by depth, whatever was
        measured on the model).

    """

    budget_mib: float
    policy: str = 'infinipot_v'
    alpha: float = 0.5
    recent_ratio: float = 0.125
    keep_ratio: float = 0.75
    instant_frames: int = 4
    max_memory_tokens: int = 0
    max_question_tokens: int = 256
    max_new_tokens: int = 64
    cameras: tuple[str, ...] = ('camera',)
    camera_shares: tuple[float, ...] = ()
    frame_size_px: tuple[int, int] | None = None
    thumbnail_px: int = 64
    max_evidence: int = 5
    evidence_layers: tuple[int, ...] = ()
    hold_rotated_keys: bool = True
    decouple: bool = True
    sinks_in_cumulative: bool = True
    sinks_in_instant: bool = True
    newest_scale: int = 1
    question_policy: str = ''
    question_tokens: int = 0
    temperature: float = 0.0
    seed: int = 0
    sample_fps: float = 0.0
    policy_options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Raise ConfigError naming the first setting of a wrong kind, or out of its range."""
        self._check_kinds()
        _in_range('alpha', self.alpha, 0.0, 1.0)
        _in_range('recent_ratio', self.recent_ratio, 0.0, 0.5)
        _in_range('keep_ratio', self.keep_ratio, 0.1, 0.95)
        _whole_in_range('instant_frames', self.instant_frames, 0, 64)
        _whole_in_range('max_memory_tokens', self.max_memory_tokens, 0, 10_000_000)
        _whole_in_range('max_question_tokens', self.max_question_tokens, 1, 32_768)
        _whole_in_range('max_new_tokens', self.max_new_tokens, 1, 32_768)
        _whole_in_range('thumbnail_px', self.thumbnail_px, 0, 1024)
        _whole_in_range('max_evidence', self.max_evidence, 0, 1000)
        _whole_in_range('newest_scale', self.newest_scale, 1, 4)
        _whole_in_range('question_tokens', self.question_tokens, 0, 10_000_000)
        _in_range('temperature', self.temperature, 0.0, 10.0)
        _in_range('sample_fps', self.sample_fps, 0.0, 1000.0)
        if self.recent_ratio >= self.keep_ratio:
            raise ConfigError(
                f'recent_ratio is {self.recent_ratio:g} and keep_ratio {self.keep_ratio:g}: the '
                'recent frames have to fit in what is kept, so give a smaller recent_ratio'
            )
        if self.newest_scale > 1 and self.instant_frames == 0:
            raise ConfigError('newest_scale above 1 needs instant_frames of at least 1')
        if self.question_policy and not self.question_tokens:
            raise ConfigError('question_policy needs question_tokens of at least 1')
        if not _is_number(self.budget_mib) or not 0 < self.budget_mib <= MOST_MIB:
            raise ConfigError(f'budget_mib is {self.budget_mib!r}: give a positive number of MiB')
        names = self.cameras
        if not names or any(not name for name in names) or len(set(names)) != len(names):
            raise ConfigError(
                f'cameras is {list(names)}: give at least one name, each once, none of them empty'
            )
        shares = self.camera_shares
        if shares and (
            len(shares) != len(names) or not all(_is_number(s) and s > 0 for s in shares)
        ):
            raise ConfigError(
                f'camera_shares is {list(shares)} for {len(names)} cameras: give one positive '
                'number a camera, or none for even shares'
            )
        size = self.frame_size_px
        if size is not None and not (
            _is_list(size)
            and len(size) == 2
            and all(_is_whole(side) and 1 <= side <= 8192 for side in size)
        ):
            raise ConfigError(
                f'frame_size_px is {size!r}: give (height, width), whole numbers from 1 to 8192'
            )

        self._check_policy_options()

    def _check_kinds(self) -> None:
        for name in ('policy', 'question_policy'):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(f'{name} is {getattr(self, name)!r}: give the name of a policy')
        for name in ('hold_rotated_keys', 'decouple', 'sinks_in_cumulative', 'sinks_in_instant'):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f'{name} is {getattr(self, name)!r}: give True or False')
        for name, what, belongs in (
            ('cameras', 'names', lambda value: isinstance(value, str)),
            ('camera_shares', 'numbers', _is_number),
            ('evidence_layers', 'whole numbers', _is_whole),
        ):
            values = getattr(self, name)
            if not _is_list(values) or not all(map(belongs, values)):
                raise ConfigError(f'{name} is {values!r}: give a tuple of {what}')
        options = self.policy_options
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise ConfigError(f'policy_options is {options!r}: give a dict of values by name')

    def _check_policy_options(self) -> None:
        options = self.policy_options
        seeds = {'seed': self.seed, "policy_options['seed']": options.get('seed', 0)}
        for name, seed in seeds.items():
            if not isinstance(seed, int) or isinstance(seed, bool):
                raise ConfigError(f'{name} is {seed!r}: give a whole number')
        kernel = options.get('van_kernel')
        if kernel is not None and not (
            isinstance(kernel, int) and 0 < kernel < WIDEST_KERNEL and kernel % 2
        ):
            raise ConfigError(
                f"policy_options['van_kernel'] is {kernel!r}: give an odd number below "
                f'{WIDEST_KERNEL}, or leave it out'
            )
        taus = options.get('cv_thresholds')
        if taus is not None and not (
            isinstance(taus, tuple | list)
            and len(taus) == 3
            and all(_is_number(tau) and abs(tau) < LARGEST_THRESHOLD for tau in taus)
            and taus[0] <= taus[1] <= taus[2]
        ):
            raise ConfigError(
                f"policy_options['cv_thresholds'] is {taus!r}: give three rising numbers, as "
                "'infinipot calibrate' prints them"
            )

    def shares(self) -> list[float]:
        """Return the share of the tokens of every camera, summing to 1."""
        shares = self.camera_shares or (1.0,) * len(self.cameras)
        return [share / sum(shares) for share in shares]


def _is_number(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, tuple | list)


def _whole_in_range(name: str, value: object, low: int, high: int) -> None:
    if not _is_whole(value) or not low <= value <= high:  # type: ignore[operator]
        raise ConfigError(f'{name} is {value!r}: give a whole number from {low} to {high}')


def _in_range(name: str, value: object, low: float, high: float) -> None:
    if not _is_number(value) or not low <= value <= high:  # type: ignore[operator]
        raise ConfigError(f'{name} is {value!r}: give a number from {low:g} to {high:g}')
