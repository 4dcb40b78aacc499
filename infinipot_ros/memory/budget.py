# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""From MiB to tokens: what every part of a memory costs, and how many tokens are left."""

from dataclasses import dataclass
import math

from infinipot_ros.errors import BudgetError
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.frame_table import NAMES_BYTES, ROW
from infinipot_ros.memory.model import ModelShape
from infinipot_ros.memory.positions import PositionScheme

MIB = 1024 * 1024
LEAST_FRAMES = 8
THUMBNAIL_SHARE = 0.1
MOST_THUMBNAILS = 256
FILTER_NUMBERS_BYTES = 64


@dataclass(frozen=True)
class Sizes:
    """
    What a memory's parts are made of, apart from the number of tokens.

    `suffix_tokens` is what a model's template puts around an empty question; `picture_px` the
    (height, width) at which frames are encoded; `window_queries` the tokens whose queries a policy
    wants kept; `has_filter` whether it compares a frame's embeddings with an
    earlier frame's, which is held for that; `state_bytes` what it remembers for each head;
    `fetched_tokens` the room of one camera for what a question fetches from host memory;
    `least_tokens` those of a camera of which its policy can compress, where 8 frames are too few.
    """

    shape: ModelShape
    scheme: PositionScheme
    config: MemoryConfig
    sink_tokens: int
    suffix_tokens: int
    frames_per_step: int
    picture_px: tuple[int, int]
    newest_grid: tuple[int, int]
    newest_picture_px: tuple[int, int]
    window_queries: int = 0
    has_filter: bool = False
    state_bytes: int = 0
    fetched_tokens: int = 0
    least_tokens: int = 0

    @property
    def tokens_per_frame(self) -> int:
        """P: tokens of one frame."""
        return self.scheme.grid[0] * self.scheme.grid[1]

    @property
    def text_tokens(self) -> int:
        """Room for one question and its answer."""
        config = self.config
        return self.suffix_tokens + config.max_question_tokens + config.max_new_tokens

    @property
    def scratch_tokens(self) -> int:
        """Room for the text, or for a new frame (or the sinks) on its way into a cache."""
        return max(self.text_tokens, self.tokens_per_frame, self.sink_tokens)

    @property
    def instant_frames(self) -> int:
        """Frames in one camera's instant cache, half a pair counted as one."""
        return self.config.instant_frames + (1 if self.frames_per_step > 1 else 0)

    @property
    def instant_tokens(self) -> int:
        """Tokens of one camera's instant cache, whose newest frame may be larger."""
        if not self.instant_frames:
            return 0
        rows, columns = self.newest_grid
        return (self.instant_frames - 1) * self.tokens_per_frame + rows * columns

    @property
    def picture_bytes(self) -> int:
        """Bytes of the pictures one camera holds: half a pair, and the newest for a question."""
        held = self.picture_px[0] * self.picture_px[1] * 3 if self.frames_per_step > 1 else 0
        if self.config.newest_scale > 1:
            held += self.newest_picture_px[0] * self.newest_picture_px[1] * 3
        return held

    @property
    def filter_bytes(self) -> int:
        """Bytes that one camera's token filter may hold: a frame's embeddings, and numbers."""
        if not self.has_filter:
            return 0
        frame = self.tokens_per_frame * self.shape.hidden * self.shape.dtype.itemsize
        return frame + FILTER_NUMBERS_BYTES

    @property
    def thumbnail_px(self) -> tuple[int, int]:
        """Height and width of a thumbnail with the picture's proportions."""
        height, width = self.picture_px
        side, longest = self.config.thumbnail_px, max(height, width)
        return (max(1, side * height // longest), max(1, side * width // longest))


@dataclass(frozen=True)
class BudgetPlan:
    """How a budget is spent: tokens of each camera's cumulative cache and bytes of each part."""

    budget_bytes: int
    camera_tokens: tuple[int, ...]
    workspace_tokens: int
    positions: int
    table_rows: int
    thumbnails: int
    bytes_by_part: dict[str, int]

    @property
    def total_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(self.bytes_by_part.values())


def kv_bytes(shape: ModelShape) -> int:
    """Return the bytes of one token's keys and values over all layers."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * shape.dtype.itemsize


def plan_for(sizes: Sizes, camera_tokens: tuple[int, ...], thumbnails: int) -> BudgetPlan:
    """Price a memory whose cameras hold so many tokens."""
    shape, config = sizes.shape, sizes.config
    cameras, tokens, fetched = len(camera_tokens), sum(camera_tokens), sizes.fetched_tokens
    per_token, element = kv_bytes(shape), shape.dtype.itemsize
    scratch = sizes.scratch_tokens
    # A pass reads a camera's cumulative cache, or what was fetched in its stead.
    segments = [max(count, fetched) + sizes.instant_tokens for count in camera_tokens]
    workspace = sizes.sink_tokens + sum(segments) + scratch
    positions = 1 + sizes.scheme.last_position(
        sizes.sink_tokens, segments, scratch, sizes.newest_grid
    )
    table_rows = tokens + cameras * (config.instant_frames + 2)
    height, width = sizes.thumbnail_px
    evidence_layers = len(config.evidence_layers) or shape.layers
    held_layers = shape.layers if config.hold_rotated_keys else 1
    head_row = shape.head_dim * element
    label_bytes = shape.layers * shape.kv_heads * 8
    parts = {
        'sinks': cameras * sizes.sink_tokens * per_token,
        'cumulative': tokens * per_token,
        'provenance': tokens * label_bytes,
        'fetched': cameras * fetched * (per_token + label_bytes),
        'instant': cameras * sizes.instant_tokens * per_token,
        'features': cameras
        * (config.instant_frames + 1)
        * sizes.tokens_per_frame
        * shape.hidden
        * element,
        'pictures': cameras * sizes.picture_bytes,
        'text': scratch * per_token,
        'workspace': workspace * (held_layers + 1) * shape.kv_heads * head_row,
        'evidence': workspace * evidence_layers * shape.kv_heads * 8,
        'rotation': positions * head_row,
        'window': cameras * sizes.window_queries * shape.layers * shape.query_heads * head_row,
        'filter': cameras * sizes.filter_bytes,
        'policy_state': cameras * shape.layers * shape.kv_heads * sizes.state_bytes,
        'frame_table': table_rows * ROW.itemsize + NAMES_BYTES,
        'thumbnails': thumbnails * height * width * 3,
    }
    return BudgetPlan(
        budget_bytes=int(config.budget_mib * MIB),
        camera_tokens=camera_tokens,
        workspace_tokens=workspace,
        positions=positions,
        table_rows=table_rows,
        thumbnails=thumbnails,
        bytes_by_part=parts,
    )


def plan_budget(sizes: Sizes) -> BudgetPlan:
    """
    Return the plan with the most tokens that `budget_mib` and the model allow.

    Raises BudgetError naming the least budget that works when fewer than 8 frames a camera fit (or
    fewer than keep_ratio needs to leave one), or the setting to change when the model itself reads
    fewer.
    """
    config, shares = sizes.config, sizes.config.shares()
    frame = sizes.tokens_per_frame
    budget = int(config.budget_mib * MIB)
    eight = LEAST_FRAMES * frame
    kept = f', keep_ratio {config.keep_ratio:g}' if sizes.least_tokens > eight else ''
    least = tuple(max(eight, sizes.least_tokens) for _ in shares)
    most = most_tokens(sizes)
    if kept and len(shares) * eight <= most < sum(least):
        tokens = most // len(shares)
        raise BudgetError(
            f'keep_ratio is {config.keep_ratio:g}: of {tokens} tokens a camera, all that '
            f'{_cap(sizes, most)} allows, a compression would leave '
            f'{int(config.keep_ratio * tokens)}, less than a frame of {frame}; raise keep_ratio'
        )
    if sum(least) > most:
        tokens = len(shares) * eight
        need = f'{LEAST_FRAMES} frames of {len(shares)} camera(s) take {tokens} tokens'
        if most == config.max_memory_tokens:
            raise BudgetError(f'max_memory_tokens is {most}, and {need}: raise it, or set 0')
        raise BudgetError(
            f'the model reads {sizes.shape.max_context_tokens} tokens, which leaves '
            f'{max(0, most)} for the past, and {need}: lower instant_frames '
            f'({config.instant_frames}), max_question_tokens ({config.max_question_tokens}), '
            f'max_new_tokens ({config.max_new_tokens}), frame_size_px or the number of cameras'
        )
    _check_fetched(sizes)
    smallest = plan_for(sizes, least, 0).total_bytes
    if smallest > budget:
        fetched = f', question_tokens {sizes.fetched_tokens}' if sizes.fetched_tokens else ''
        raise BudgetError(
            f'budget_mib is {config.budget_mib:g} and the least that works with this model, '
            f'{len(shares)} camera(s) of {frame} tokens a frame and instant_frames '
            f'{config.instant_frames}{fetched}{kept} is '
            f'{math.ceil(smallest / MIB * 100) / 100:.2f}'
        )

    def spread(tokens: int) -> tuple[int, ...]:
        return tuple(
            max(small, int(tokens * share)) for small, share in zip(least, shares, strict=True)
        )

    def fits(tokens: int) -> bool:
        counts = spread(tokens)
        return sum(counts) <= most and plan_for(sizes, counts, thumbnails).total_bytes <= budget

    thumbnails = _thumbnails(sizes, budget)
    while thumbnails and not fits(0):
        thumbnails //= 2
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return plan_for(sizes, spread(low), thumbnails)


def most_tokens(sizes: Sizes) -> int:
    """Return how many tokens of the past the model can read beside all the rest."""
    most = _room_of_model(sizes)
    if sizes.config.max_memory_tokens:
        most = min(most, sizes.config.max_memory_tokens)
    return most


def _cap(sizes: Sizes, most: int) -> str:
    return 'max_memory_tokens' if most == sizes.config.max_memory_tokens else 'the model'


def _room_of_model(sizes: Sizes) -> int:
    cameras = len(sizes.config.cameras)
    rest = sizes.sink_tokens + cameras * sizes.instant_tokens + sizes.text_tokens
    return sizes.shape.max_context_tokens - rest


def _check_fetched(sizes: Sizes) -> None:
    cameras, room = len(sizes.config.cameras), _room_of_model(sizes)
    if cameras * sizes.fetched_tokens > room:
        raise BudgetError(
            f'question_tokens is {sizes.fetched_tokens} and the model reads '
            f'{sizes.shape.max_context_tokens} tokens, which leaves {room // cameras} for what a '
            f'question fetches for each of {cameras} camera(s): lower it'
        )


def _thumbnails(sizes: Sizes, budget: int) -> int:
    if not sizes.config.thumbnail_px:
        return 0
    height, width = sizes.thumbnail_px
    return min(MOST_THUMBNAILS, int(budget * THUMBNAIL_SHARE) // (height * width * 3))
