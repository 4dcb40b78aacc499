# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The policies by name, and what a memory has to know about one before it runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import importlib
import operator
from typing import Any, Protocol

from infinipot_ros.errors import ConfigError
from infinipot_ros.memory.cache_kernels import Asked, CacheKernels
from infinipot_ros.memory.policies.layer_view import LayerView
import torch
from torch import Tensor

Select = Callable[[LayerView, int], Tensor]
Kernel = Callable[[CacheKernels, Asked], Tensor | None]
RankFrames = Callable[[Tensor, Tensor], Tensor]


class TokenFilter(Protocol):
    """
    Decide, frame after frame, which patches go on to the language model.

    The memory copies it before each frame, and takes the copy back when the frame fails. Before
    it goes on with a saved state, a copy has to take a frame of the size that all will have.
    """

    def keep(self, embeddings: Tensor) -> Tensor:
        """
        Take a frame's embeddings [P, C]; return which patches go on, [P] bool, at least one.

        The tensor is a view of the memory's buffer: clone what is needed later.
        """

    def state(self) -> dict[str, Tensor]:
        """Return all that later frames depend on: one frame's embeddings at most, and numbers."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on where `state` was asked for; raise ConfigError for what it never returns."""


@dataclass(frozen=True)
class Policy:
    """
    Hold one policy; call it as `policy(view, budget) -> [H, budget] int64`, rising.

    `select` decides; calling the policy also checks the budget, the fields that it needs and
    the indices that come back, so a mistake in a new policy cannot damage a memory.
    """

    name: str
    select: Select
    #: One line for tables and messages.
    summary: str
    #: Of LayerView's costly fields: those that it cannot do without, those that it can use.
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: False: only for benchmarks, a node refuses it (it needs the question, or has no cap).
    on_robot: bool = True
    #: False: nothing is ever evicted while the stream runs.
    evicts: bool = True
    #: True: one view may hold several small layers (`LayerView.layers`), so that one call serves
    #: them all; entries of `LayerView.state` are then [H, ...].
    many_layers: bool = False
    #: Frames that it holds at most, whatever the budget would allow; None: the budget decides.
    max_frames: int | None = None
    #: True: frees room for just the next frame, instead of going down to the keep ratio.
    frees_one_frame: bool = False
    #: Whose attention `LayerView.attention` has to hold: the newest tokens', or this prompt's.
    observe_tokens: int = 0
    observe_prompt: str = ''
    #: Bytes of `LayerView.state` that it keeps for each head of a layer; the budget pays for them.
    state_bytes: int = 0
    #: Offloads: every frame goes to a store in host memory, the device holds a local window that
    #: frames are read over, and at each question this scores the stored frames, layer by layer:
    #: mean keys [F, H, D], queries [Q, n, D] -> [F]. The best are fetched.
    ranks_frames: RankFrames | None = None
    #: What chooses the same as `select`, up to rounding, for all layers of a cache at once:
    #: -> rows [L, H, budget], or None where it cannot. It sees neither `state` nor `fresh`.
    kernel: Kernel | None = None
    #: Makes what thins out a frame's embeddings before the language model, one for each camera.
    token_filter: Callable[..., TokenFilter] | None = None

    def __call__(self, view: LayerView, budget: int) -> Tensor:
        """
        Return the tokens that stay, [H, budget] int64, rising.

        Raises `ConfigError` unless budget is in 1..N and the policy's fields are there.
        """
        try:
            budget = operator.index(budget)
        except TypeError:
            raise ConfigError(f'budget must be a whole number of tokens, not {budget!r}') from None
        if not 1 <= budget <= view.num_tokens:
            raise ConfigError(
                f'budget must be in 1..{view.num_tokens}, the tokens of the view, not {budget}'
            )
        for name in self.required:
            if getattr(view, name) is None:
                raise ConfigError(f'policy {self.name} needs LayerView.{name}, which is None')
        kept = self.select(view, budget)
        self._check(kept, view, budget)
        return kept

    def _check(self, kept: Tensor, view: LayerView, budget: int) -> None:
        shape = (view.num_heads, budget)
        if tuple(kept.shape) != shape or kept.dtype != torch.int64:
            raise ConfigError(
                f'policy {self.name} returned {kept.dtype} {list(kept.shape)}, '
                f'and has to return torch.int64 {list(shape)}'
            )
        low, high = kept[:, 0].min() < 0, kept[:, -1].max() >= view.num_tokens
        if bool(low | high | (kept[:, 1:] <= kept[:, :-1]).any()):
            raise ConfigError(
                f'policy {self.name} has to return rising indices in 0..{view.num_tokens - 1}, '
                f'each once'
            )


_OF_ONES_OWN = 'one of your own as package.module:name'


class _Policies(dict[str, Policy]):
    """A dict that names the policies there are when asked for one that is not."""

    def __missing__(self, name: str) -> Policy:
        raise ConfigError(f'no policy {name!r}; there are: {", ".join(sorted(self))}')


#: Every policy by name: `POLICIES['infinipot_v'](view, budget)`.
POLICIES: dict[str, Policy] = _Policies()


def register(name: str, summary: str, **traits: Any) -> Callable[[Select], Select]:
    """
    Register the decorated `select(view, budget)` as policy `name`; traits: see `Policy`.

    Raises `ConfigError` when the name is taken.
    """

    def add(select: Select) -> Select:
        if name in POLICIES:
            raise ConfigError(f'policy {name!r} is registered already')
        POLICIES[name] = Policy(name, select, summary, **traits)
        return select

    return add


def get_policy(name: str) -> Policy:
    """
    Return a policy by its name, or by `package.module:name` after importing that module.

    Raises `ConfigError` when there is no such module or policy.
    """
    module, colon, registered = name.rpartition(':')
    if not colon:
        return POLICIES[name]
    before = set(POLICIES)
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever is wrong with code that a user wrote
        # so that the module can be mended and tried again
        for name_of_half in set(POLICIES) - before:
            del POLICIES[name_of_half]
        raise ConfigError(
            f'policy {name!r}: cannot import the module {module!r}: '
            f'{type(error).__name__}: {error}'
            + ('; its folder has to be on PYTHONPATH' if isinstance(
                error, ModuleNotFoundError) and error.name == module.partition('.')[0] else '')
        ) from error
    if registered not in POLICIES:
        raise ConfigError(
            f'policy {name!r}: the module {module!r} registers no policy {registered!r}; give the '
            'name that it hands to register(...)'
        )
    return POLICIES[registered]


def get_robot_policy(name: str) -> Policy:
    """
    Return a policy as `get_policy` does, if it can run on a robot.

    Raises `ConfigError` naming those that can, where it is one for benchmarks only.
    """
    allowed = ', '.join(sorted(known for known, policy in POLICIES.items() if policy.on_robot))
    if ':' not in name and name not in POLICIES:
        raise ConfigError(f'no policy {name!r}; a robot can use: {allowed}, or {_OF_ONES_OWN}')
    try:
        policy = get_policy(name)
    except ConfigError as error:
        raise ConfigError(f'{error}; a robot can use: {allowed}, or {_OF_ONES_OWN}') from error
    if not policy.on_robot or policy.ranks_frames is not None:
        reason = '' if policy.evicts else '; it never forgets, so that it would outgrow any budget'
        if policy.ranks_frames is not None:
            reason = '; it never forgets, so that it would outgrow any host memory'
        raise ConfigError(
            f'policy {name!r} is for benchmarks only: {policy.summary}{reason}; a robot can use: '
            f'{allowed}'
        )
    return policy
