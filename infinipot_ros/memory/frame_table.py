# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the frames that still have kept tokens: stamp, camera, pose, thumbnail."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from infinipot_ros.memory.model import RgbImage
from infinipot_ros.memory.records import KeptFrame, Pose

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
MAX_NAMES = 1024


class FrameTable:
    """Rows of fixed number, sorted by frame number, with room for some thumbnails.

    When a new frame finds no free thumbnail, the frame with the fewest kept tokens gives up its own; when
    rows run out, such a frame gives up its row.
    """

    def __init__(self, capacity: int, thumbnails: int, thumbnail_px: tuple[int, int]) -> None:
        """Allocate rows and thumbnails (height, width of each)."""
        self._rows = np.zeros(capacity, ROW)
        self._count = 0
        height, width = thumbnail_px
        self._thumbnails = np.zeros((thumbnails, height, width, 3), np.uint8)
        self._free = list(range(thumbnails))
        self._names: list[str] = ['']

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self._rows.nbytes

    @property
    def thumbnail_nbytes(self) -> int:
        """Bytes of the thumbnails."""
        return self._thumbnails.nbytes

    @property
    def rows(self) -> npt.NDArray[np.void]:
        """The rows in use, as a view."""
        return self._rows[: self._count]

    def __len__(self) -> int:
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
        rgb: RgbImage,
    ) -> None:
        """Add the row of a new frame; frame numbers only grow."""
        if self._count == len(self._rows):
            self._drop_least()
        row = self._rows[self._count]
        self._count += 1
        row['frame'], row['stamp_ns'], row['camera'] = frame, stamp_ns, camera
        row['frame_id'] = self._name(frame_id)
        row['pose_frame'] = -1 if pose is None else self._name(pose.frame_id)
        row['pose'] = 0.0 if pose is None else (*pose.position, *pose.orientation)
        row['went_back'], row['kept'] = went_back, kept
        row['thumbnail'] = self._thumbnail(rgb)

    def _name(self, name: str) -> int:
        if name in self._names:
            return self._names.index(name)
        if len(self._names) == MAX_NAMES:
            return 0
        self._names.append(name)
        return len(self._names) - 1

    def _thumbnail(self, rgb: RgbImage) -> int:
        if not len(self._thumbnails):
            return -1
        if not self._free:
            rows = self.rows[:-1]
            owners = np.flatnonzero(rows['thumbnail'] >= 0)
            least = rows[owners[np.argmin(rows['kept'][owners])]]
            self._free.append(int(least['thumbnail']))
            least['thumbnail'] = -1
        slot = self._free.pop()
        height, width = self._thumbnails.shape[1:3]
        small = Image.fromarray(rgb).resize((width, height), Image.Resampling.BOX)
        self._thumbnails[slot] = np.asarray(small)
        return slot

    def _drop_least(self) -> None:
        keep = np.ones(self._count, bool)
        keep[int(np.argmin(self.rows['kept']))] = False
        self._keep(keep)

    def _keep(self, keep: npt.NDArray[np.bool_]) -> None:
        rows = self.rows
        freed = rows['thumbnail'][~keep]
        self._free.extend(int(slot) for slot in freed if slot >= 0)
        kept = rows[keep]
        self._count = len(kept)
        self._rows[: self._count] = kept

    def retain(self, camera: int, frames: npt.NDArray[np.int64], kept: npt.NDArray[np.float32]) -> None:
        """Keep, of one camera's rows, those of `frames` (ascending) and note their kept tokens."""
        rows = self.rows
        mine = rows['camera'] == camera
        place = np.searchsorted(frames, rows['frame'])
        place_in = np.minimum(place, max(len(frames) - 1, 0))
        found = (frames[place_in] == rows['frame']) if len(frames) else np.zeros(len(rows), bool)
        rows['kept'][mine & found] = kept[place_in[mine & found]]
        self._keep(~mine | found)

    def clear(self) -> None:
        """Forget all rows."""
        self._keep(np.zeros(self._count, bool))
        self._names = ['']

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
