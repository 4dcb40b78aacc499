# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When a cumulative cache is full: ask the policy what stays, layer by layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.policies import get_policy, LayerView
from infinipot_ros.memory.policies.registry import Policy, TokenFilter
from torch import Tensor

Observe = Callable[[CameraMemory, Policy, int], list[dict[str, Tensor]]]


@dataclass(frozen=True)
class Choice:
    """What stays: per layer the rows [H, C], ascending, and the policy's new state."""

    rows: list[Tensor]
    state: list[dict[str, Tensor]]


class Compression:
    """The policy of one memory and the sizes it works with (InfiniPot-V, Algorithm 1)."""

    def __init__(self, config: MemoryConfig, grid: tuple[int, int], num_layers: int) -> None:
        """Look the policies up. Raises ConfigError when there is none of a name."""
        self.policy = get_policy(config.policy)
        self.config = config
        self.grid = grid
        self.num_layers = num_layers
        asks = 'question' in self.policy.required or (
            'attention' in self.policy.required and not self.policy.evicts
        )
        name = config.question_policy or (config.policy if asks else '')
        if name and not config.question_tokens:
            raise ConfigError(f'policy {name} chooses at each question: set question_tokens')
        self.question_policy = get_policy(name) if name else None

    @property
    def tokens_per_frame(self) -> int:
        """P: tokens of one frame."""
        return self.grid[0] * self.grid[1]

    def new_filter(self) -> TokenFilter | None:
        """Return what thins out one camera's embeddings, or None."""
        if self.policy.token_filter is None:
            return None
        similarity = self.config.policy_options.get('similarity')
        if similarity is None:
            return self.policy.token_filter()
        return self.policy.token_filter(similarity)

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

    def recent_frames(self, camera: CameraMemory) -> int:
        """Return r = max(1, round(recent_ratio f)), f = |M| / P."""
        frames = self.usable(camera) / self.tokens_per_frame
        return max(1, round(self.config.recent_ratio * frames))

    def needed(self, camera: CameraMemory) -> bool:
        """Return whether one more frame does not fit."""
        return camera.past.stored_tokens + self.tokens_per_frame > self.usable(camera)

    def view(
        self, camera: CameraMemory, layer: int, state: dict[str, Tensor], **observed: Any
    ) -> LayerView:
        """Return one layer of a camera's cumulative cache as policies see it."""
        past, options = camera.past, self.config.policy_options
        first, last = past.prefix, past.prefix + past.stored_tokens
        frame = past.frames[layer].long()
        known: dict[str, Any] = {
            key: options[key] for key in ('van_kernel', 'cv_thresholds') if key in options
        }
        return LayerView(
            keys=past.keys[layer][:, first:last],
            values=past.values[layer][:, first:last],
            frame=frame,
            patch=past.patches[layer].long(),
            grid=self.grid,
            layer=layer,
            num_layers=self.num_layers,
            recent_frames=self.recent_frames(camera),
            alpha=self.config.alpha,
            fresh=frame > camera.judged_until,
            state=state,
            options=options,
            seed=self.config.seed,
            **known,
            **observed,
        )

    def choose(self, camera: CameraMemory, target: int, observe: Observe) -> Choice:
        """
        Return which `target` tokens of each head and layer stay; changes nothing.

        Raises BudgetError where the policy never evicts.
        """
        if not self.policy.evicts:
            raise BudgetError(
                f'policy {self.policy.name} never evicts and its {camera.past.capacity} tokens '
                'are full: raise budget_mib, or choose a policy that evicts'
            )
        rows: list[Tensor] = []
        states: list[dict[str, Tensor]] = []
        for layer, observed in enumerate(
            observe(camera, self.policy, self.recent_frames(camera))
        ):
            state = dict(camera.policy_state[layer])
            rows.append(self.policy(self.view(camera, layer, state, **observed), target))
            states.append(state)
        return Choice(rows, states)
