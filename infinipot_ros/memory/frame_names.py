# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The frame ids that the rows of a frame table refer to by number, in room that never grows."""

from collections.abc import Sequence
import logging

import numpy as np
import numpy.typing as npt

#: Bytes of the longest frame id, in UTF-8; what is beyond is cut off.
LONGEST = 256
#: Bytes that the ids may take together, each counted with what Python needs around it.
ROOM = 2560
_AROUND = 64
logger = logging.getLogger(__name__)


class FrameNames:
    """
    Number the names that rows use; number 0 is no name.

    Where a new one finds no room, those that no row uses are forgotten and their numbers given
    again; then those that were last used longest ago, and the rows that used them lose the name,
    and the pose in it.
    """

    def __init__(self, names: Sequence[str] = ('',)) -> None:
        """Take names as they are numbered, each cut to the longest."""
        self._names = [_cut(name) for name in names]
        self._told = False

    def __getitem__(self, number: int) -> str:
        """Return a name by its number."""
        return self._names[number]

    def listed(self) -> list[str]:
        """Return the names in the order of their numbers; '' stands for a free number."""
        return list(self._names)

    def number(self, name: str, rows: npt.NDArray[np.void]) -> int:
        """Return the number of a name, a new one if need be; `rows` are those in use."""
        name = _cut(name)
        if name not in self._names:
            self.fit(rows, _bytes(name))
            if '' not in self._names[1:]:
                self._names.append('')
            self._names[self._names.index('', 1)] = name
        return self._names.index(name)

    def fit(self, rows: npt.NDArray[np.void], more: int = 0) -> None:
        """Forget as many names as it takes to have room for `more` bytes, those in use last."""
        room = ROOM - more - sum(_bytes(name) for name in self._names)
        if room >= 0:
            return
        posed = rows['pose_frame'] >= 0
        last = np.full(len(self._names), -1)
        places = np.arange(len(rows))
        np.maximum.at(last, rows['frame_id'], places)
        np.maximum.at(last, rows['pose_frame'][posed], places[posed])
        for number in (int(number) for number in np.argsort(last, kind='stable')):
            if last[number] >= 0 and room >= 0:
                return
            if number == 0 or not self._names[number]:
                continue
            room += _bytes(self._names[number])
            if last[number] >= 0:
                self._tell()
                rows['frame_id'][rows['frame_id'] == number] = 0
                rows['pose_frame'][rows['pose_frame'] == number] = -1
            self._names[number] = ''

    def _tell(self) -> None:
        """Say once that frames lose their names: with an id of its own each frame would say so."""
        if not self._told:
            logger.warning(
                'the frame ids of what is remembered take more than %d bytes: frames whose id was '
                'last used longest ago lose it from now on',
                ROOM,
            )
        self._told = True


def _cut(name: str) -> str:
    return name.encode('utf-8', 'replace')[:LONGEST].decode('utf-8', 'ignore')


def _bytes(name: str) -> int:
    return len(name.encode()) + _AROUND if name else 0
