# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""When a cumulative cache is full: ask the policy what stays, layer by layer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory.cache_kernels import Asked
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.policies import get_policy, LayerView
from infinipot_ros.memory.policies.registry import Policy, TokenFilter
from infinipot_ros.memory.policies.rows import BLOCK_ELEMENTS
import torch
from torch import Tensor

#: What an offloading policy leaves on the device, for the next frames to be read over.
LOCAL_WINDOW = 'rekv_no_offload'

Observe = Callable[[CameraMemory, Policy, int], list[dict[str, Tensor]]]


@dataclass(frozen=True)
class Choice:
    """What stays: rows [L, H, C] of the cache, ascending, and the policy's new state per layer."""

    rows: Tensor
    state: list[dict[str, Tensor]]


class Compression:
    """The policy of one memory and the sizes it works with (InfiniPot-V, Algorithm 1)."""

    def __init__(self, config: MemoryConfig, grid: tuple[int, int], num_layers: int) -> None:
        """Look the policies up. Raises ConfigError when there is none of a name."""
        chosen = get_policy(config.policy)
        #: What fetches frames from host memory at a question; `policy` then keeps a window.
        self.fetching = None if chosen.ranks_frames is None else chosen
        self.policy = chosen if self.fetching is None else get_policy(LOCAL_WINDOW)
        self.config = config
        self.grid = grid
        self.num_layers = num_layers
        asks = (
            self.fetching is not None
            or 'question' in chosen.required
            or ('attention' in chosen.required and not chosen.evicts)
        )
        name = config.question_policy or (config.policy if asks else '')
        if name and not config.question_tokens:
            raise ConfigError(f'policy {name} chooses at each question: set question_tokens')
        if self.fetching is not None and name not in ('', config.policy):
            raise ConfigError(
                f'policy {config.policy} itself fetches what a question reads: leave '
                f'question_policy empty, not {name!r}'
            )
        #: What chooses, at a question, among what is on the device.
        self.question_policy = get_policy(name) if name and self.fetching is None else None

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
        if isinstance(similarity, bool) or not isinstance(similarity, int | float):
            raise ConfigError(
                f"policy_options['similarity'] is {similarity!r}: give a cosine, from -1 to 1"
            )
        return self.policy.token_filter(similarity)

    def usable(self, capacity: int) -> int:
        """Return |M|: the tokens that a cumulative cache of some capacity may hold."""
        frames = self.policy.max_frames
        return capacity if frames is None else min(capacity, frames * self.tokens_per_frame)

    def target(self, usable: int) -> int:
        """Return |C|: what is left of `usable` tokens when the next frame needs room."""
        room = usable - self.tokens_per_frame
        if self.policy.frees_one_frame:
            return room
        return min(room, int(self.config.keep_ratio * usable))

    def least_tokens(self) -> int:
        """Return the least |M| of which a compression leaves a frame."""
        frame = self.tokens_per_frame
        least = frame
        if self.policy.evicts and not self.policy.frees_one_frame:
            least = max(least, int(frame / self.config.keep_ratio))
            while self.target(least) < frame:
                least += 1
        return least

    def recent_frames(self, camera: CameraMemory) -> int:
        """Return r = max(1, round(recent_ratio f)), f = |M| / P."""
        frames = self.usable(camera.past.capacity) / self.tokens_per_frame
        return max(1, round(self.config.recent_ratio * frames))

    def needed(self, camera: CameraMemory) -> bool:
        """Return whether one more frame does not fit."""
        past = camera.past
        return past.stored_tokens + self.tokens_per_frame > self.usable(past.capacity)

    def view(
        self,
        camera: CameraMemory,
        layer: int,
        state: dict[str, Tensor],
        layers: int = 1,
        /,
        **observed: Any,
    ) -> LayerView:
        """Return a layer (or several) of a camera's cumulative cache as policies see it."""
        past, options = camera.past, self.config.policy_options
        part = slice(layer, layer + layers)
        stored = slice(past.prefix, past.prefix + past.stored_tokens)
        keys = [rows[:, stored] for rows in past.keys[part]]
        values = [rows[:, stored] for rows in past.values[part]]
        frame = past.frames[part].flatten(0, 1).long()
        known: dict[str, Any] = {
            key: options[key] for key in ('van_kernel', 'cv_thresholds') if key in options
        }
        return LayerView(
            keys=keys[0] if layers == 1 else torch.cat(keys),
            values=values[0] if layers == 1 else torch.cat(values),
            frame=frame,
            patch=past.patches[part].flatten(0, 1).long(),
            grid=self.grid,
            layer=layer,
            num_layers=self.num_layers,
            layers=layers,
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

        Raises BudgetError where the policy never evicts, ConfigError where it breaks a rule.
        """
        if not self.policy.evicts:
            raise BudgetError(
                f'policy {self.policy.name} never evicts and its {camera.past.capacity} tokens '
                'are full: raise budget_mib, or choose a policy that evicts'
            )
        recent_frames = self.recent_frames(camera)
        if self.policy.kernel is not None and (kernels := camera.past.kernels) is not None:
            kept = self.policy.kernel(kernels, Asked(
                camera.past.stored_tokens, self.grid, recent_frames, target, self.config.alpha,
                self.config.policy_options))
            if kept is not None:
                if kept.shape[-1] != target:
                    raise ConfigError(
                        f'the kernel of policy {self.policy.name} keeps {kept.shape[-1]} tokens '
                        f'and has to keep {target}'
                    )
                return Choice(kept, camera.policy_state)
        observed = observe(camera, self.policy, recent_frames)
        at_once = self.layers_at_once(camera)
        rows: list[Tensor] = []
        states: list[dict[str, Tensor]] = []
        for first in range(0, self.num_layers, at_once):
            before = camera.policy_state[first:first + at_once]
            state = _joined(before)
            view = self.view(camera, first, state, len(before), **observed[first])
            rows.append(self.policy(view, target).view(len(before), -1, target))
            check_state(self.policy, state, view.num_heads, len(before))
            states.extend(_parted(state, len(before)))
        check_layers(self.policy, states, camera.past.shape.kv_heads)
        return Choice(torch.cat(rows), states)

    def done_in(self, camera: CameraMemory) -> str:
        """Say in words what compresses a camera's cache."""
        kernels = camera.past.kernels
        if kernels is None:
            return 'PyTorch'
        chooses = self.policy.kernel is not None and kernels.can_choose
        return 'C' if chooses else 'C, chosen in PyTorch'

    def layers_at_once(self, camera: CameraMemory) -> int:
        """
        Return how many layers the policy sees in one view: several where they are small.

        A view says what frames are recent in all of its heads, so that layers may share one only
        where every head of every layer holds the same tokens of them.
        """
        past = camera.past
        size = past.shape.kv_heads * past.stored_tokens * past.shape.head_dim
        at_once = min(self.num_layers, BLOCK_ELEMENTS // size)
        # What was observed is there for each layer alone.
        observed = {'attention', 'rotated_keys'} & {*self.policy.required, *self.policy.optional}
        if not self.policy.many_layers or observed or at_once < 2:
            return 1
        newest = past.frames[..., -self.recent_frames(camera) * self.tokens_per_frame:]
        return at_once if bool((newest == newest[0, 0]).all()) else 1


def check_state(
    policy: Policy, state: Mapping[Any, object], heads: int, layers: int = 1
) -> None:
    """Raise ConfigError where a policy remembers what it has not registered for so many heads."""
    held = 0
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ConfigError(
                f'policy {policy.name} put {type(value).__name__} into LayerView.state as '
                f'{name!r}: it may put tensors there, each by a name'
            )
        if layers > 1 and (value.dim() < 1 or value.shape[0] != heads):
            raise ConfigError(
                f'policy {policy.name} put {list(value.shape)} into LayerView.state as {name!r}: '
                f'with many_layers its first axis has to be the {heads} heads'
            )
        held += value.nbytes
    if held > heads * policy.state_bytes:
        raise ConfigError(
            f'policy {policy.name} put {-(-held // heads)} bytes a head into LayerView.state '
            f'({", ".join(state)}) and registered state_bytes={policy.state_bytes}: register what '
            'it keeps, so that the budget pays for it'
        )


def check_layers(policy: Policy, states: Sequence[Mapping[str, Tensor]], heads: int) -> None:
    """Raise ConfigError where layers that may share a view remember different kinds of things."""
    if not policy.many_layers:
        return
    kinds = [{name: (t.shape, t.dtype) for name, t in state.items()} for state in states]
    whole = all(t.dim() and t.shape[0] == heads for t in states[0].values())
    if not whole or any(kind != kinds[0] for kind in kinds):
        raise ConfigError(
            f'policy {policy.name} has different things in LayerView.state of different layers: '
            f'with many_layers each has to have the same, with the {heads} heads first'
        )


def _joined(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the state of several layers as one, heads after heads."""
    if len(states) == 1:
        return dict(states[0])
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


def _parted(state: dict[str, Tensor], layers: int) -> list[dict[str, Tensor]]:
    """Return what `_joined` joined, layer by layer."""
    # A slice would hold the whole of what it was cut from.
    state = {
        name: tensor.clone() if tensor.untyped_storage().nbytes() > tensor.nbytes else tensor
        for name, tensor in state.items()
    }
    if layers == 1:
        return [state]
    parts = {name: tensor.chunk(layers) for name, tensor in state.items()}
    return [{name: part[layer] for name, part in parts.items()} for layer in range(layers)]
