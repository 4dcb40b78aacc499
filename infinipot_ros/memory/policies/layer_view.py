# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What a policy sees of one layer's cache when something has to go."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from infinipot_ros.errors import ConfigError
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerView:
    """
    Show one layer of one camera's cumulative cache; H KV heads, N tokens, head size D.

    Tokens stand in time order in every head (`frame` never falls along N), and a head holds a
    patch of a frame at most once. Heads may hold different tokens.

    Raises `ConfigError` where shapes, order or ranges are wrong.
    """

    #: [H, N, D] keys without rotary positions.
    keys: Tensor
    #: [H, N, D] values.
    values: Tensor
    #: [H, N] int64, id of the frame that a token comes from; ids grow with time, gaps are fine.
    frame: Tensor
    #: [H, N] int64, row * columns + column of the token in its frame.
    patch: Tensor
    #: (rows, columns) of a frame.
    grid: tuple[int, int]
    #: This layer's index, counted from 0.
    layer: int = 0
    #: Layers of the model.
    num_layers: int = 1
    #: r: the newest frames that TaR compares with and keeps whole.
    recent_frames: int = 1
    #: alpha: the share of the budget that goes to TaR, recent frames included.
    alpha: float = 0.5
    #: VaN's pooling kernel (odd; 1 = none), or None to derive it (see `van.kernels_of`).
    van_kernel: int | None = None

    # What only some policies use. `fresh`, `attention`, `rotated_keys` and `question` cost work: a
    # memory computes them only for a policy whose `required` or `optional` names them.

    #: (tau1, tau2, tau3), rising: g(CV)'s measured thresholds for this model.
    cv_thresholds: tuple[float, float, float] | None = None
    #: [H, N] bool, tokens that no compression has judged before; None means all of them.
    fresh: Tensor | None = None
    #: [H, N] attention that each token drew from the observing queries (summed over them).
    attention: Tensor | None = None
    #: [H, N, D] keys with the positions they were read with (the published code's TaR).
    rotated_keys: Tensor | None = None
    #: [Q, n, D] un-rotated queries of a question's n tokens (retrieval); Q a multiple of H.
    question: Tensor | None = None
    #: What a policy remembers from one compression of this layer to the next. It may put new
    #: tensors there, and changes none in place, so that a shallow copy undoes a failed frame.
    state: MutableMapping[str, Tensor] = field(default_factory=dict)
    #: `policy_options` of the configuration.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Seed of policies that draw at random.
    seed: int = 0
    #: Layers in this view, more than one only for a policy with the trait `many_layers`: H then
    #: counts the heads of them all, those of `layer` first, all with the same recent tokens.
    layers: int = 1

    def __post_init__(self) -> None:
        """Check shapes, settings, ranges and order."""
        self._check_tensors()
        self._check_settings()
        lowest, highest = self.patch.aminmax()
        outside = (lowest < 0) | (highest >= self.tokens_per_frame)
        falling = (self.frame[:, 1:] < self.frame[:, :-1]).any()
        # One look at both results: each costs a wait on an accelerator.
        if bool(outside | falling):
            if bool(outside):
                raise ConfigError(
                    f'patch has values outside 0..{self.tokens_per_frame - 1}, '
                    f'which the grid {self.grid} allows'
                )
            raise ConfigError('frame falls along a head: tokens must stand in time order')

    def _check_tensors(self) -> None:
        if self.keys.dim() != 3 or 0 in self.keys.shape or not self.keys.is_floating_point():
            raise ConfigError(
                f'keys must be a floating [heads, tokens, head size] without empty axes, '
                f'not {self.keys.dtype} {list(self.keys.shape)}'
            )
        shape = tuple(self.keys.shape)
        expected: list[tuple[str, Tensor | None, tuple[int, ...]]] = [
            ('values', self.values, shape),
            ('frame', self.frame, shape[:2]),
            ('patch', self.patch, shape[:2]),
            ('fresh', self.fresh, shape[:2]),
            ('attention', self.attention, shape[:2]),
            ('rotated_keys', self.rotated_keys, shape),
        ]
        for name, tensor, wanted in expected:
            if tensor is None:
                continue
            if tuple(tensor.shape) != wanted:
                raise ConfigError(
                    f'{name} has shape {list(tensor.shape)}, and keys ask for {list(wanted)}'
                )
            if tensor.device != self.keys.device:
                raise ConfigError(f'{name} is on {tensor.device}, keys are on {self.keys.device}')
        for name, tensor in (('frame', self.frame), ('patch', self.patch)):
            if tensor.dtype != torch.int64:
                raise ConfigError(f'{name} must be int64, not {tensor.dtype}')
        if self.fresh is not None and self.fresh.dtype != torch.bool:
            raise ConfigError(f'fresh must be bool, not {self.fresh.dtype}')

    def _check_settings(self) -> None:
        if len(self.grid) != 2 or min(self.grid) < 1:
            raise ConfigError(f'grid must be (rows, columns), each at least 1, not {self.grid}')
        if not 0 <= self.layer < self.num_layers:
            raise ConfigError(f'layer must be in 0..{self.num_layers - 1}, not {self.layer}')
        if self.layers < 1 or self.num_heads % self.layers:
            raise ConfigError(f'{self.num_heads} heads are not those of {self.layers} layers')
        if self.recent_frames < 1:
            raise ConfigError(f'recent_frames must be at least 1, not {self.recent_frames}')
        if not 0.0 <= self.alpha <= 1.0:
            raise ConfigError(f'alpha must be in 0..1, not {self.alpha}')
        if self.van_kernel is not None and (self.van_kernel < 1 or self.van_kernel % 2 == 0):
            raise ConfigError(f'van_kernel must be odd and positive, or None: {self.van_kernel}')
        taus = self.cv_thresholds
        if taus is not None and (len(taus) != 3 or not taus[0] <= taus[1] <= taus[2]):
            raise ConfigError(f'cv_thresholds must be three rising numbers, not {taus}')

    @property
    def num_heads(self) -> int:
        """Return H."""
        return self.keys.shape[0]

    @property
    def num_tokens(self) -> int:
        """Return N, the tokens in each head."""
        return self.keys.shape[1]

    @property
    def tokens_per_frame(self) -> int:
        """Return P = rows * columns, the tokens of a whole frame."""
        return self.grid[0] * self.grid[1]

    @cached_property
    def frame_ids(self) -> Tensor:
        """Return the ids of the frames that any head still holds, rising: [F] int64."""
        # Heads are in time order, so dropping neighbours first leaves few ids to sort.
        ids: Tensor = torch.unique(torch.unique_consecutive(self.frame))
        return ids

    @cached_property
    def recent_ids(self) -> Tensor:
        """Return the last `recent_frames` of `frame_ids`, or all where they are fewer."""
        # Whatever a head holds of its newest frames is among its last tokens.
        last = self.frame[:, -self.recent_frames * self.tokens_per_frame:]
        ids: Tensor = torch.unique(torch.unique_consecutive(last))
        return ids[-self.recent_frames:]

    @cached_property
    def recent(self) -> Tensor:
        """Return which tokens belong to the newest `recent_frames` frames: [H, N] bool."""
        return self.frame >= self.recent_ids[0]

    @cached_property
    def newest(self) -> Tensor:
        """Return which tokens belong to the newest frame: [H, N] bool."""
        return self.frame == self.frame[:, -1].max()

    def fitted(self, budget: int) -> LayerView:
        """
        Return this view with as many recent frames as `budget` can hold, at least one.

        More recent frames than fit would push out everything older, and part of themselves:
        the oldest of them become ordinary past frames.
        """
        if self.recent_frames * self.tokens_per_frame <= budget:
            return self
        ids = self.recent_ids
        frames = len(ids)
        while frames > 1 and int((self.frame >= ids[-frames]).sum(-1).max()) > budget:
            frames -= 1
        return self if frames == self.recent_frames else replace(self, recent_frames=frames)
