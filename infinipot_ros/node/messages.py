# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Build the messages of this package from what the memory hands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from geometry_msgs.msg import Pose as PoseMessage
from infinipot_ros.msg import Evidence as EvidenceMessage
from infinipot_ros.msg import MemoryStatus as MemoryStatusMessage
from infinipot_ros.msg import SceneDescription
from infinipot_ros.node.compressed_images import rgb_to_jpeg
from infinipot_ros.node.images import Rgb
from infinipot_ros.node.sampling import SECOND_NS
from infinipot_ros.srv import VideoQA
import numpy as np
from sensor_msgs.msg import CompressedImage, PointCloud2, PointField
from std_msgs.msg import Header

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer, Evidence, MemoryStatus, Pose
    from infinipot_ros.memory.records import KeptFrame

STATUS = {name: getattr(VideoQA.Response, name) for name in (
    'ANSWERED', 'EMPTY_MEMORY', 'BAD_REQUEST', 'BUSY', 'TIMEOUT', 'CANCELLED', 'FAILED',
    'NOT_ACTIVE')}


def to_time(stamp_ns: int) -> Time:
    """Return a stamp as a message; what does not fit one is cut off at its ends."""
    stamp_ns = min(max(0, stamp_ns), (2**31 - 1) * SECOND_NS)
    return Time(sec=stamp_ns // SECOND_NS, nanosec=stamp_ns % SECOND_NS)


def to_ns(stamp: Time) -> int:
    """Return a stamp in nanoseconds."""
    return int(stamp.sec) * SECOND_NS + int(stamp.nanosec)


def fill_answer(response: VideoQA.Response, answer: Answer, latency_s: float) -> VideoQA.Response:
    """Fill the response of /video_qa in from an answer."""
    fill_refusal(response, answer.status.name, answer.message, latency_s)
    response.answer = clean(answer.text)
    response.confidence = float(answer.confidence)
    response.evidence = [evidence_message(evidence) for evidence in answer.evidence]
    response.frames_seen = answer.frames_seen
    response.newest_frame = to_time(answer.newest_stamp_ns)
    return response


def fill_refusal(response: VideoQA.Response, status: str, message: str,
                 latency_s: float) -> VideoQA.Response:
    """Fill the response in with a status and why; the message may be empty when ANSWERED."""
    response.status = STATUS[status]
    ended = '' if status == 'ANSWERED' else f'the question ended with {status}'
    response.message = clean(message) or ended
    whole_s = int(latency_s)
    response.latency = Duration(sec=whole_s, nanosec=int((latency_s - whole_s) * SECOND_NS))
    return response


def evidence_message(evidence: Evidence) -> EvidenceMessage:
    """Return one frame that an answer rests on."""
    header = Header(stamp=to_time(evidence.stamp_ns), frame_id=evidence.frame_id)
    message = EvidenceMessage(header=header, camera=evidence.camera,
                              relevance=float(evidence.relevance))
    if evidence.pose is not None:
        message.has_pose = True
        message.pose = pose_message(evidence.pose, evidence.stamp_ns)
    return message


def pose_message(pose: Pose, stamp_ns: int) -> PoseStamped:
    """Return a pose with its stamp."""
    x, y, z = pose.position
    qx, qy, qz, qw = pose.orientation
    return PoseStamped(
        header=Header(stamp=to_time(stamp_ns), frame_id=pose.frame_id),
        pose=PoseMessage(position=Point(x=x, y=y, z=z),
                         orientation=Quaternion(x=qx, y=qy, z=qz, w=qw)))


def status_message(status: MemoryStatus, now_ns: int) -> MemoryStatusMessage:
    """Return the state of the memory."""
    return MemoryStatusMessage(
        header=Header(stamp=to_time(now_ns)),
        budget_bytes=status.budget_bytes, held_bytes=status.held_bytes,
        capacity_tokens=status.capacity_tokens, held_tokens=status.held_tokens,
        frames_seen=status.frames_seen, frames_kept=status.frames_kept,
        oldest_stamp=to_time(status.oldest_stamp_ns), newest_stamp=to_time(status.newest_stamp_ns),
        compressions=status.compressions, policy=status.policy, model=status.model)


def description_message(answer: Answer, frame_id: str, cameras: Sequence[str],
                        novelty: float) -> SceneDescription:
    """Return what is seen now, in words."""
    return SceneDescription(
        header=Header(stamp=to_time(answer.newest_stamp_ns), frame_id=frame_id),
        cameras=list(cameras), description=clean(answer.text), novelty=float(novelty))


def jpeg_message(rgb: Rgb, stamp_ns: int, frame_id: str) -> CompressedImage:
    """Return a picture as a JPEG."""
    return CompressedImage(header=Header(stamp=to_time(stamp_ns), frame_id=frame_id),
                           format='jpeg', data=rgb_to_jpeg(rgb))


def map_message(frames: Sequence[KeptFrame], now_ns: int) -> PointCloud2 | None:
    """Return where the kept frames were seen from, in the newest one's map; None without poses."""
    posed = [frame for frame in frames if frame.pose is not None]
    if not posed or posed[-1].pose is None:
        return None
    frame_id = posed[-1].pose.frame_id
    points = np.array([(*frame.pose.position, frame.kept_tokens) for frame in posed
                       if frame.pose is not None and frame.pose.frame_id == frame_id], '<f4')
    fields = [PointField(name=name, offset=4 * index, datatype=PointField.FLOAT32, count=1)
              for index, name in enumerate(('x', 'y', 'z', 'intensity'))]
    return PointCloud2(
        header=Header(stamp=to_time(now_ns), frame_id=frame_id), height=1, width=len(points),
        fields=fields, is_bigendian=False, point_step=16, row_step=16 * len(points),
        data=points.tobytes(), is_dense=True)


def clean(text: str) -> str:
    """Return a text that DDS can carry: no NUL, no half of a surrogate pair."""
    return text.replace('\0', '').encode('utf-8', 'replace').decode('utf-8')
