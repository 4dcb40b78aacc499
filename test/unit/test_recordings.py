# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Recordings: every picture in order with its time, and a wrong file is told what is wrong."""
from array import array
from itertools import islice
from pathlib import Path
import sys

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.compressed_images import rgb_to_jpeg
from infinipot_ros.node.recordings import Bag, open_recording, shrink, VideoFile
import numpy as np
import pytest

CLIP = Path(__file__).parents[1] / 'data' / 'vtest_clip.mp4'
STEP_NS = 100_000_000


def grey(value: int, height: int = 12, width: int = 16) -> np.ndarray:
    """Return a picture of one colour."""
    return np.full((height, width, 3), value, np.uint8)


def write_bag(
        folder: Path, topics: dict[str, list[np.ndarray | None]], mcap: bool = False) -> None:
    """Write pictures, 100 ms apart; None is a message that cannot be decoded."""
    rosbag2 = pytest.importorskip('rosbags.rosbag2')
    typesys = pytest.importorskip('rosbags.typesys')
    store = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    t = store.types
    plugin = rosbag2.StoragePlugin.MCAP if mcap else rosbag2.StoragePlugin.SQLITE3
    with rosbag2.Writer(folder, version=9, storage_plugin=plugin) as writer:
        for topic, pictures in topics.items():
            kind = ('sensor_msgs/msg/CompressedImage' if topic.endswith('/compressed')
                    else 'sensor_msgs/msg/Image')
            connection = writer.add_connection(topic, kind, typestore=store)
            for number, picture in enumerate(pictures):
                stamp_ns = 5_000_000_000 + number * STEP_NS
                header = t['std_msgs/msg/Header'](
                    t['builtin_interfaces/msg/Time'](*divmod(stamp_ns, 10**9)), 'lens')
                data = b'' if picture is None else picture.tobytes()
                if topic.endswith('/compressed'):
                    jpeg = b'' if picture is None else rgb_to_jpeg(picture)
                    message = t[kind](header, 'jpeg', np.frombuffer(jpeg, np.uint8))
                else:
                    message = t[kind](header, 12, 16, 'rgb8', 0, 48, np.frombuffer(data, np.uint8))
                writer.write(connection, stamp_ns + 7, store.serialize_cdr(message, kind))


def test_a_video_file_is_read_whole() -> None:
    """The clip has 180 pictures, 100 ms apart, of people on a grey road."""
    recording = open_recording(CLIP)
    assert isinstance(recording, VideoFile)
    pictures = list(recording.pictures())
    assert len(pictures) == 180
    assert [p.stamp_ns for p in pictures] == [i * STEP_NS for i in range(180)]
    assert pictures[0].rgb.shape == (288, 384, 3)
    grass = pictures[0].rgb[200:280, 20:120].reshape(-1, 3).mean(axis=0)
    assert grass[1] > grass[0] + 10 and grass[1] > grass[2] + 10, 'grass is green in RGB order'
    assert len(list(recording.pictures())) == 180, 'it can be read again'


@pytest.mark.parametrize('mcap', [False, True])
def test_a_bag_is_read_with_the_stamps_of_its_headers(tmp_path: Path, mcap: bool) -> None:
    """Both storages, raw and compressed; what cannot be decoded is counted, not shown."""
    folder = tmp_path / 'bag'
    write_bag(folder, {'/a/image_raw': [grey(10), None, grey(30)],
                       '/b/image_raw/compressed': [grey(40), None]}, mcap)
    recording = open_recording(folder, '/a/image_raw')
    assert isinstance(recording, Bag)
    pictures = list(recording.pictures())
    assert [(int(p.rgb.max()), p.stamp_ns, p.frame_id) for p in pictures] == [
        (10, 5_000_000_000, 'lens'), (30, 5_200_000_000, 'lens')]
    assert recording.skipped == 1
    compressed = open_recording(folder, '/b/image_raw/compressed')
    assert [round(float(p.rgb.mean())) for p in compressed.pictures()] == [40]
    assert compressed.skipped == 1


def test_the_only_image_topic_of_a_bag_need_not_be_named(tmp_path: Path) -> None:
    """Nor need the folder: one of its files will do."""
    write_bag(tmp_path / 'bag', {'/a': [grey(10)]}, mcap=True)
    (file,) = (tmp_path / 'bag').glob('*.mcap')
    assert len(list(open_recording(tmp_path / 'bag').pictures())) == 1
    assert len(list(open_recording(file).pictures())) == 1


def test_a_bag_with_several_topics_lists_them(tmp_path: Path) -> None:
    """The message is enough to type the right topic."""
    write_bag(tmp_path / 'bag', {'/b': [grey(1)], '/a': [grey(1)]})
    with pytest.raises(ConfigError, match=r'topic: .*not exactly one image topic.*: /a, /b$'):
        open_recording(tmp_path / 'bag')
    with pytest.raises(ConfigError, match=r"no pictures on '/c'; its image topics are: /a, /b$"):
        open_recording(tmp_path / 'bag', '/c')


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    """Missing, empty, text, an empty folder, a torn bag file, a topic for a video."""
    (tmp_path / 'empty.mp4').touch()
    (tmp_path / 'text.mp4').write_text('hello')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'torn.db3').write_bytes(b'SQLite format 3')
    (tmp_path / 'torn.mcap').write_bytes(b'\x89MCAP0\r\n')
    with pytest.raises(ConfigError, match=r"video: there is no file or folder '.*gone.mp4'"):
        open_recording(tmp_path / 'gone.mp4')
    for name in ('empty.mp4', 'text.mp4'):
        with pytest.raises(ConfigError, match='video: OpenCV finds no picture in'):
            open_recording(tmp_path / name)
    for name in ('folder', 'torn.db3', 'torn.mcap'):
        with pytest.raises(ConfigError, match=r'video: .* cannot be read as a rosbag2 bag'):
            open_recording(tmp_path / name)
    with pytest.raises(ConfigError, match=r'topic: .*is a video file'):
        open_recording(CLIP, '/image')


def test_a_missing_rosbags_says_how_to_get_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional."""
    monkeypatch.setitem(sys.modules, 'rosbags.highlevel', None)
    with pytest.raises(ConfigError, match='pip install rosbags'):
        open_recording(tmp_path)


def test_shrink_keeps_the_shape() -> None:
    """The longer side gets the limit; smaller pictures and 0 change nothing."""
    picture = next(islice(VideoFile(CLIP).pictures(), 1)).rgb
    assert shrink(picture, 96).shape == (72, 96, 3)
    assert shrink(picture, 0) is picture
    assert shrink(picture, 384) is picture
    assert shrink(np.zeros((1, 4000, 3), np.uint8), 100).shape == (1, 100, 3)
    assert array('B', shrink(grey(9), 8).tobytes()) == array('B', [9] * 6 * 8 * 3)
