# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""cv_bridge is used where it is right and nowhere else, whatever it does at import."""

from __future__ import annotations

from pathlib import Path
import sys
from types import SimpleNamespace

from infinipot_ros.errors import ImageFormatError
from infinipot_ros.node.cv_bridge_check import image_reader, right_encodings
from infinipot_ros.node.images import DEFAULT_RULES, image_to_rgb
import numpy as np
import pytest

# right on 8-bit colours, but blind to step when it is asked for rgb8, as old releases were
FLAWED = """
import numpy as np
class CvBridge:
    calls = 0
    def imgmsg_to_cv2(self, message, wanted):
        CvBridge.calls += 1
        raw = np.frombuffer(message.data, np.uint8)
        if message.encoding == 'bgr8':
            rows = raw.reshape(message.height, message.step)[:, :3 * message.width]
            return rows.reshape(message.height, message.width, 3)[..., ::-1]
        if message.encoding == 'rgb8':
            return raw[:message.height * message.width * 3].reshape(message.height, -1, 3)
        raise TypeError('no such encoding')
"""
CRASHING, FAILING = 'import os; os.abort()', 'raise ImportError("numpy.core")'


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Install a cv_bridge with the given source on the path of this process and its children."""
    def write(source: str) -> None:
        (tmp_path / 'cv_bridge.py').write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv('PYTHONPATH', ':'.join(path for path in sys.path if path))
    yield write
    sys.modules.pop('cv_bridge', None)


@pytest.mark.parametrize('source', [CRASHING, FAILING])
def test_a_cv_bridge_that_dies_is_not_used(install, source: str) -> None:  # type: ignore
    install(source)
    assert right_encodings() == ()
    assert image_reader(()) is image_to_rgb


def test_only_encodings_that_agree_are_read_with_it(install) -> None:  # type: ignore
    install(FLAWED)
    assert right_encodings() == ('bgr8',)
    read = image_reader(('bgr8',))
    pixels = np.random.default_rng(1).integers(0, 256, (9, 8, 3), np.uint8)
    for encoding in ('bgr8', 'rgb8'):
        message = SimpleNamespace(width=8, height=9, encoding=encoding, step=24, is_bigendian=0,
                                  data=pixels.tobytes())
        assert np.array_equal(read(message, DEFAULT_RULES), image_to_rgb(message))
    assert sys.modules['cv_bridge'].CvBridge.calls == 1
    message.encoding, message.data = 'bgr8', message.data + b'x'
    with pytest.raises(ImageFormatError, match='expected'):
        read(message, DEFAULT_RULES)
