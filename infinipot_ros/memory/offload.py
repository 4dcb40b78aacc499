# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A store in host memory that keeps the keys and values of every frame (ReKV).

It grows with the stream and is no part of a memory's budget, which is that of the device.
"""

from collections.abc import Iterator, Mapping, Sequence

from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import ModelShape
import torch
from torch import Tensor

#: A block has at most so many frames, and its keys so many bytes (but holds one frame at least):
#: pinned memory comes in powers of two, so that a block just below one wastes little.
BLOCK_FRAMES = 16
BLOCK_BYTES = 64 * 1024 * 1024


class _Block:
    """Room for some frames: keys, values [frames, L, H, P, D], mean keys [frames, L, H, D]."""

    def __init__(self, shape: ModelShape, frames: int, tokens_per_frame: int) -> None:
        """Allocate, in pinned memory where frames come from a CUDA device."""
        pinned = shape.device.type == 'cuda'
        heads = (frames, shape.layers, shape.kv_heads)
        rows = (*heads, tokens_per_frame, shape.head_dim)
        wide = torch.promote_types(shape.dtype, torch.float32)
        self.keys = torch.empty(rows, dtype=shape.dtype, pin_memory=pinned)
        self.values = torch.empty(rows, dtype=shape.dtype, pin_memory=pinned)
        self.means = torch.empty((*heads, shape.head_dim), dtype=wide)

    @property
    def nbytes(self) -> int:
        tensors = (self.keys, self.values, self.means)
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


class HostStore:
    """
    Un-rotated K and V of whole frames of one camera, in host memory, in the order of arrival.

    A frame's token p is its patch p, so that its number is all its provenance. Its mean key in
    every layer and head is kept beside it: ranking frames reads those alone. Blocks are added, and
    never moved. `write` fills free space, and only `commit` makes a frame part of the store, so
    that a frame which fails leaves the store as it was.
    """

    def __init__(self, shape: ModelShape, tokens_per_frame: int) -> None:
        """Allocate nothing until the first frame."""
        self.shape = shape
        self.tokens_per_frame = tokens_per_frame
        row = shape.kv_heads * shape.head_dim * shape.dtype.itemsize
        frame = shape.layers * tokens_per_frame * row
        self.block_frames = max(1, min(BLOCK_FRAMES, BLOCK_BYTES // frame))
        self.frames: list[int] = []
        self._blocks: list[_Block] = []

    @property
    def nbytes(self) -> int:
        """Bytes of storage held, used or not."""
        return sum(block.nbytes for block in self._blocks)

    @property
    def tokens(self) -> int:
        """Tokens stored, in each layer and head."""
        return len(self.frames) * self.tokens_per_frame

    def write(self, source: LayerCache, start: int) -> None:
        """Copy a frame's rows of every layer, from `start` on in `source`, into free space."""
        block, slot = self._free_slot()
        rows = slice(start, start + self.tokens_per_frame)
        keys = torch.stack([layer[:, rows] for layer in source.keys])
        values = torch.stack([layer[:, rows] for layer in source.values])
        block.keys[slot].copy_(keys, non_blocking=True)
        block.values[slot].copy_(values, non_blocking=True)
        # This copy waits, and with it those before: a frame is here once it is committed.
        block.means[slot].copy_(keys.to(block.means.dtype).mean(2))

    def commit(self, frame: int) -> None:
        """Make the frame that was written part of the store."""
        self.frames.append(frame)

    def _free_slot(self) -> tuple[_Block, int]:
        place, slot = divmod(len(self.frames), self.block_frames)
        if place == len(self._blocks):
            block = _Block(self.shape, self.block_frames, self.tokens_per_frame)
            self._blocks.append(block)
        return self._blocks[place], slot

    def crop(self, count: int) -> None:
        """Forget all but the first `count` frames, and give back the blocks without any."""
        if not 0 <= count <= len(self.frames):
            raise ValueError(f'cannot crop {len(self.frames)} stored frames to {count}')
        del self.frames[count:]
        del self._blocks[-(-count // self.block_frames):]

    def clear(self) -> None:
        """Forget everything, and give all blocks back."""
        self.crop(0)

    def means(self, layer: int) -> Tensor:
        """Return the mean key of every frame in one layer, [frames, H, D] in host memory."""
        parts = [block.means[:used, layer] for block, used in self._used()]
        return torch.cat(parts)

    def fetch(
        self, layer: int, places: Sequence[int], counts: Sequence[int], room: LayerCache
    ) -> None:
        """
        Copy the first `counts` tokens of the frames at `places` to the start of a room's layer.

        The room's labels are set as well; what it has stored is not touched, so it holds nothing.
        """
        at = 0
        for place, count in zip(places, counts, strict=True):
            block, slot = self._blocks[place // self.block_frames], place % self.block_frames
            rows = slice(at, at + count)
            for tensors, kept in ((room.keys, block.keys), (room.values, block.values)):
                tensors[layer][:, rows].copy_(kept[slot, layer, :, :count], non_blocking=True)
            at += count
        device = room.frame.device
        sizes = torch.tensor(counts)
        frames = torch.tensor([self.frames[place] for place in places]).repeat_interleave(sizes)
        patches = torch.cat([torch.arange(count) for count in counts])
        room.frame[layer, :, :at] = frames.to(device, torch.int32)
        room.patch[layer, :, :at] = patches.to(device, torch.int32)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Return all that is stored, by name, without copying it."""
        yield 'frames', torch.tensor(self.frames, dtype=torch.int64)
        for index, (block, used) in enumerate(self._used()):
            yield f'keys{index}', block.keys[:used]
            yield f'values{index}', block.values[:used]
            yield f'means{index}', block.means[:used]

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """
        Take what `tensors` returned, whatever the size of its blocks was.

        Raises ValueError where that is no store of this shape.
        """
        self.clear()
        numbers = tensors['frames'].tolist()
        index = 0
        while f'keys{index}' in tensors:
            kept = [tensors[f'{name}{index}'] for name in ('keys', 'values', 'means')]
            for keys, values, means in zip(*kept, strict=True):
                block, slot = self._free_slot()
                if keys.shape != values.shape or keys.shape != block.keys.shape[1:]:
                    raise ValueError(f'a frame in the store has keys {list(keys.shape)}')
                block.keys[slot].copy_(keys)
                block.values[slot].copy_(values)
                block.means[slot].copy_(means)
                self.commit(-1)
            index += 1
        if len(numbers) != len(self.frames):
            raise ValueError(f'the store has keys of {len(self.frames)} frames of {len(numbers)}')
        self.frames = numbers

    def _used(self) -> Iterator[tuple[_Block, int]]:
        """Return the blocks with frames in them, and how many."""
        for place, block in enumerate(self._blocks):
            used = len(self.frames) - place * self.block_frames
            if used > 0:
                yield block, min(used, self.block_frames)
