# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When a cumulative cache is full: ask the policy what stays, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from infinipot_ros.errors import BudgetError
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.policies import get_policy, LayerView

Extras = Callable[[CameraMemory, int], dict[str, Any]]


@dataclass(frozen=True)
class Choice:
    """What stays: per layer the rows [H, C], ascending, and the policy's new state."""

    rows: list[Tensor]
    state: list[dict[str, Tensor]]


class Compression:
    """The policy of one memory and the sizes it works with (InfiniPot-V, Algorithm 1)."""

    def __init__(
        self, config: MemoryConfig, grid: tuple[int, int], num_layers: int, extras: Extras
    ) -> None:
        """Look the policy up; `extras` gives what it needs beyond keys and values.

        Raises ConfigError when there is no such policy.
        """
        self.policy = get_policy(config.policy)
        self.config = config
        self.grid = grid
        self.num_layers = num_layers
        self._extras = extras

    @property
    def tokens_per_frame(self) -> int:
        """P: tokens of one frame."""
        return self.grid[0] * self.grid[1]

    def usable(self, camera: CameraMemory) -> int:
        """Return |M|: the tokens a camera's cumulative cache may hold."""
        frames = self.policy.max_frames
        capacity = camera.past.capacity
        return capacity if frames is None else min(capacity, frames * self.tokens_per_frame)

    def target(self, usable: int) -> int:
        """Return |C|: what is left of `usable` tokens when the next frame needs room."""
        room = usable - self.tokens_per_frame
        if self.policy.frees_one_frame:
            return room
        return min(room, int(self.config.keep_ratio * usable))

    def recent_frames(self, usable: int) -> int:
        """Return r = max(1, round(recent_ratio f)), f = |M| / P."""
        frames = usable / self.tokens_per_frame
        return max(1, round(self.config.recent_ratio * frames))

    def needed(self, camera: CameraMemory) -> bool:
        """Return whether one more frame does not fit."""
        return camera.past.stored_tokens + self.tokens_per_frame > self.usable(camera)

    def choose(self, camera: CameraMemory, target: int) -> Choice:
        """Return which `target` tokens of each head and layer stay; changes nothing.

        Raises BudgetError where the policy never evicts.
        """
        past = camera.past
        if not self.policy.evicts:
            raise BudgetError(
                f'policy {self.policy.name} never evicts and its {past.capacity} tokens are full: '
                'raise budget_mib, or choose a policy that evicts'
            )
        recent = self.recent_frames(self.usable(camera))
        first, last = past.prefix, past.prefix + past.stored_tokens
        frames, patches = past.frames.long(), past.patches.long()
        rows: list[Tensor] = []
        states: list[dict[str, Tensor]] = []
        for layer in range(self.num_layers):
            state = dict(camera.policy_state[layer])
            view = LayerView(
                keys=past.keys[layer][:, first:last],
                values=past.values[layer][:, first:last],
                frame=frames[layer],
                patch=patches[layer],
                grid=self.grid,
                layer=layer,
                num_layers=self.num_layers,
                recent_frames=recent,
                alpha=self.config.alpha,
                state=state,
                options=self.config.policy_options,
                **self._extras(camera, layer),
            )
            rows.append(self.policy(view, target))
            states.append(state)
        return Choice(rows, states)
