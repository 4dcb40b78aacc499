# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the frames that still have kept tokens: stamp, camera, pose, thumbnail."""

from typing import Any

from infinipot_ros.memory.cache_kernels import TableRows
from infinipot_ros.memory.frame_names import FrameNames, ROOM
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import RgbImage
from infinipot_ros.memory.records import KeptFrame, Pose
import numpy as np
import numpy.typing as npt
from PIL import Image
import torch

ROW = np.dtype(
    [
        ('frame', np.int64),
        ('stamp_ns', np.int64),
        ('camera', np.int16),
        ('frame_id', np.int16),
        ('pose_frame', np.int16),
        ('went_back', np.bool_),
        ('pose', np.float64, 7),
        ('kept', np.float32),
        ('thumbnail', np.int32),
    ]
)
# The same, as NumPy copies it fastest: without a look at its parts.
_OPAQUE = np.dtype((np.void, ROW.itemsize))
#: Bytes of a table apart from its rows: the names they refer to.
NAMES_BYTES = ROOM


class FrameTable:
    """
    Rows of fixed number, sorted by frame number, with room for some thumbnails.

    When a new frame finds no free thumbnail, the frame with the fewest kept tokens gives up its
    own; when rows run out, such a frame gives up its row. A table that `grows` gets more rows
    instead: where every frame is kept in host memory, each has to be found there by its time.
    """

    def __init__(
        self,
        capacity: int,
        thumbnails: int,
        thumbnail_px: tuple[int, int],
        grows: bool = False,
    ) -> None:
        """Allocate rows and thumbnails (height, width of each)."""
        self._capacity, self._grows = capacity, grows
        height, width = thumbnail_px
        self._thumbnails = np.zeros((thumbnails, height, width, 3), np.uint8)
        self._use(np.zeros(capacity, ROW))
        self._count = 0
        self._free = list(range(thumbnails))
        self._names = FrameNames()

    def _use(self, rows: npt.NDArray[np.void]) -> None:
        self._rows, self._located = rows, TableRows(rows, len(self._thumbnails))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows there were room for at first, and of the names that they may use."""
        return self._capacity * ROW.itemsize + NAMES_BYTES

    @property
    def grown_nbytes(self) -> int:
        """Bytes of the rows that came later."""
        return self._rows.nbytes - self._capacity * ROW.itemsize

    @property
    def thumbnail_nbytes(self) -> int:
        """Bytes of the thumbnails."""
        return self._thumbnails.nbytes

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """Return the rows in use, as a view."""
        return self._rows[: self._count]

    def __len__(self) -> int:
        """Return the number of rows in use."""
        return self._count

    def add(
        self,
        frame: int,
        stamp_ns: int,
        camera: int,
        frame_id: str,
        pose: Pose | None,
        kept: float,
        went_back: bool,
        small: RgbImage | None,
    ) -> None:
        """Add the row of a new frame with its `small` picture; frame numbers only grow."""
        self.reserve()
        if self._count == len(self._rows):
            self._drop_least()
        row = self._rows[self._count]
        self._count += 1
        row['frame'], row['camera'], row['kept'] = frame, camera, kept
        row['thumbnail'] = self._slot()
        self._describe(row, stamp_ns, frame_id, pose, went_back, small)

    def reserve(self) -> None:
        """See that one more row fits, if the table grows; adding it then cannot fail."""
        if self._grows and self._count == len(self._rows):
            rows = np.zeros(2 * self._count, ROW)
            rows[: self._count] = self.rows
            self._use(rows)

    def replace(
        self,
        frame: int,
        stamp_ns: int,
        frame_id: str,
        pose: Pose | None,
        went_back: bool,
        small: RgbImage | None,
    ) -> None:
        """Give a frame's row the stamp, pose and picture of a later one."""
        index = self.find(frame)
        if index is not None:
            row = self._rows[index]
            self._describe(row, stamp_ns, frame_id, pose, went_back or row['went_back'], small)

    def _describe(
        self,
        row: Any,
        stamp_ns: int,
        frame_id: str,
        pose: Pose | None,
        went_back: bool,
        small: RgbImage | None,
    ) -> None:
        row['stamp_ns'], row['frame_id'], row['pose_frame'] = stamp_ns, 0, -1
        row['frame_id'] = self._names.number(frame_id, self.rows)
        if pose is not None:
            row['pose_frame'] = self._names.number(pose.frame_id, self.rows)
        row['pose'] = 0.0 if pose is None else (*pose.position, *pose.orientation)
        row['went_back'] = went_back
        if small is not None and row['thumbnail'] >= 0:
            self._thumbnails[row['thumbnail']] = small

    def small(self, rgb: RgbImage) -> RgbImage | None:
        """Return a picture at the size of a thumbnail, or None where none are kept."""
        if not len(self._thumbnails):
            return None
        height, width = self._thumbnails.shape[1:3]
        return np.asarray(Image.fromarray(rgb).resize((width, height), Image.Resampling.BOX))

    def _slot(self) -> int:
        """Return a free thumbnail, taken from the frame with the fewest kept tokens if need be."""
        if not len(self._thumbnails):
            return -1
        if not self._free:
            rows = self.rows[:-1]
            owners = np.flatnonzero(rows['thumbnail'] >= 0)
            least = rows[owners[np.argmin(rows['kept'][owners])]]
            self._free.append(int(least['thumbnail']))
            least['thumbnail'] = -1
        return self._free.pop()

    def _drop_least(self) -> None:
        keep = np.ones(self._count, bool)
        keep[int(np.argmin(self.rows['kept']))] = False
        self._keep(keep)

    def _keep(self, keep: npt.NDArray[np.bool_]) -> None:
        freed = self.rows['thumbnail'][~keep].tolist()
        self._free.extend(slot for slot in freed if slot >= 0)
        rows = self.rows.view(_OPAQUE)
        kept = rows[keep]
        self._count = len(kept)
        rows[: self._count] = kept

    def retain(self, camera: int, past: LayerCache, whole_from: int, whole: int) -> None:
        """
        Note how many tokens of one camera's frames its cache holds, in the mean of all heads.

        Of frames from `whole_from` on it is `whole`. Rows of which nothing is left go.
        """
        if past.kernels is not None:
            located = self._located
            located.count = self._count
            past.kernels.retain(past.stored_tokens, located, camera, whole_from, whole)
            self._count = located.count
            self._free.extend(located.freed)
            return
        rows, frames = self.rows, self.rows['frame'].copy()
        heads = past.shape.layers * past.shape.kv_heads
        kept = past.count_tokens(torch.from_numpy(frames)).numpy() / heads
        kept[frames >= whole_from] = whole
        rows['kept'] = np.where(rows['camera'] == camera, kept, rows['kept'])
        self._keep(rows['kept'] > 0)

    def resize(self, capacity: int, thumbnails: int) -> None:
        """Change the number of rows and of thumbnails, keeping those with the most tokens."""
        self._capacity = capacity
        if self._grows:
            capacity = max(capacity, self._count)
        order = np.argsort(-self.rows['kept'], kind='stable')
        keep = np.zeros(self._count, bool)
        keep[order[:capacity]] = True
        self._keep(keep)
        rows = np.zeros(capacity, ROW)
        rows[: self._count] = self.rows
        height, width = self._thumbnails.shape[1:3]
        pictures = np.zeros((thumbnails, height, width, 3), np.uint8)
        owners = np.argsort(-self.rows['kept'], kind='stable')
        owners = owners[self.rows['thumbnail'][owners] >= 0]
        rows['thumbnail'][: self._count] = -1
        for slot, owner in enumerate(owners[:thumbnails]):
            pictures[slot] = self._thumbnails[self.rows['thumbnail'][owner]]
            rows['thumbnail'][owner] = slot
        self._free = list(range(min(len(owners), thumbnails), thumbnails))
        self._thumbnails = pictures
        self._use(rows)

    @property
    def names(self) -> list[str]:
        """Return the frame ids that rows refer to by number."""
        return self._names.listed()

    def dump(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint8]]:
        """Return the rows, their thumbnails numbered from 0, and those thumbnails."""
        rows = self.rows.copy()
        owners = np.flatnonzero(rows['thumbnail'] >= 0)
        pictures = self._thumbnails[rows['thumbnail'][owners]]
        rows['thumbnail'][owners] = np.arange(len(owners))
        return rows, pictures

    def load(
        self, raw: npt.NDArray[np.uint8], pictures: npt.NDArray[np.uint8], names: list[str]
    ) -> None:
        """
        Take dumped rows as bytes, and their thumbnails where they have this table's size.

        Raises ValueError where the bytes are no rows.
        """
        found = raw.view(ROW)
        saved = FrameTable(len(found), len(pictures), pictures.shape[1:3])
        saved._rows[:], saved._count = found, len(found)
        saved._thumbnails = pictures
        same_size = pictures.shape[1:] == self._thumbnails.shape[1:]
        if self._grows and len(found) > len(self._rows):
            self._use(np.zeros(len(found), ROW))
        saved.resize(len(self._rows), len(self._thumbnails) if same_size else 0)
        self._rows[: saved._count] = saved.rows
        self._count = saved._count
        self._names = FrameNames(names)
        self._names.fit(self.rows)
        if same_size:
            self._thumbnails[:] = saved._thumbnails
            self._free = saved._free

    def clear(self) -> None:
        """Forget all rows."""
        self._keep(np.zeros(self._count, bool))
        if self.grown_nbytes:
            self._use(self._rows[: self._capacity].copy())
        self._names = FrameNames()

    def find(self, frame: int) -> int | None:
        """Return the index of a frame's row, or None."""
        place = int(np.searchsorted(self.rows['frame'], frame))
        if place < self._count and self.rows['frame'][place] == frame:
            return place
        return None

    def describe(self, index: int, cameras: tuple[str, ...]) -> KeptFrame:
        """Return a row in words."""
        row = self.rows[index]
        pose = None
        if row['pose_frame'] >= 0:
            x, y, z, qx, qy, qz, qw = (float(value) for value in row['pose'])
            pose = Pose(self._names[row['pose_frame']], (x, y, z), (qx, qy, qz, qw))
        return KeptFrame(
            frame=int(row['frame']),
            stamp_ns=int(row['stamp_ns']),
            camera=cameras[row['camera']],
            frame_id=self._names[row['frame_id']],
            pose=pose,
            kept_tokens=float(row['kept']),
            stamp_went_back=bool(row['went_back']),
        )

    def thumbnail(self, index: int) -> npt.NDArray[np.uint8] | None:
        """Return a copy of a row's thumbnail [height, width, 3], or None where it has none."""
        slot = int(self.rows['thumbnail'][index])
        return None if slot < 0 else self._thumbnails[slot].copy()
