# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A robot's node and a client of it, in one process, over real DDS in a domain of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import threading
import time
from typing import Any

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray
from infinipot_ros.demo.world import Drive
from infinipot_ros.msg import MemoryStatus
from infinipot_ros.node import video_memory_node
from infinipot_ros.node.composition import compose, spin
from infinipot_ros.node.video_memory_node import VideoMemoryNode
from infinipot_ros.srv import MemoryFile, VideoQA
from lifecycle_msgs.srv import ChangeState, GetState
import numpy as np
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import DescribeParameters, SetParametersAtomically
import rclpy
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
from std_srvs.srv import Trigger

WAIT_S = 100.0
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS  # of drives past the cameras
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
RELIABLE = QoSProfile(depth=400, reliability=ReliabilityPolicy.RELIABLE)
TRANSITIONS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4}
DEFAULTS = {'budget_mib': 2.0, 'sample_fps': 10.0, 'frame_queue': 400, 'qa.max_new_tokens': 8}
DRIVE = Drive(7, num_frames=200)
PICTURE = DRIVE.frame(0).rgb
END_WAITS_S = video_memory_node.SAVE_TIMEOUT_S, video_memory_node.STOP_TIMEOUT_S
# for a process that will be killed, which may leave shared memory that makes others abort
NO_SHARED_MEMORY = {'FASTDDS_BUILTIN_TRANSPORTS': 'UDPv4'}
# on a busy machine too, a memory is saved, and an engine has ended before the next test begins
video_memory_node.SAVE_TIMEOUT_S = video_memory_node.STOP_TIMEOUT_S = WAIT_S


def exact(topic: str) -> dict[str, Any]:
    """Return parameters for tests that count messages: none is lost, however busy the machine."""
    prefix = f'qos_overrides.{topic}.subscription'
    return {f'{prefix}.reliability': 'reliable', f'{prefix}.depth': 400}


def until(true: Callable[[], Any], what: str, within_s: float = WAIT_S) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + within_s
    while True:
        value = true()
        if value:
            return value
        assert time.monotonic() < end, f'not within {within_s:g} s: {what}'
        time.sleep(0.01)


def until_seen(node: VideoMemoryNode, frames: int) -> Any:
    """Wait until a memory in this process has taken in so many frames; return its status."""
    until(lambda: node.engine.status and node.engine.status.frames_seen >= frames,
          f'{frames} frames seen, {node.engine.status}')
    return node.engine.status


def image(rgb: np.ndarray, stamp_ns: int, encoding: str = 'rgb8') -> Image:
    """Return a picture as a camera driver publishes it."""
    message = Image(height=rgb.shape[0], width=rgb.shape[1], encoding=encoding,
                    step=rgb.shape[1] * rgb.shape[2], data=np.ascontiguousarray(rgb).tobytes())
    message.header.frame_id = 'camera_optical_frame'
    message.header.stamp = Time(sec=stamp_ns // SECOND_NS, nanosec=stamp_ns % SECOND_NS)
    return message


def own_threads() -> int:
    """Count threads, but for those of executors, which grow until they have all of their own."""
    return sum(not thread.name.startswith('ThreadPool') for thread in threading.enumerate())


class World:
    """One context with executors in threads; nodes made in it are gone with it."""

    def __init__(self) -> None:
        """Begin a ROS context of our own."""
        self.context = rclpy.Context()
        self.context.init()
        self._executors: list[Any] = []
        self._threads: list[threading.Thread] = []
        self.nodes: list[Any] = []

    def run(self, executor: Any) -> None:
        """Spin an executor in a thread."""
        thread = threading.Thread(target=spin, args=(executor,), daemon=True)
        thread.start()
        self._executors.append(executor)
        self._threads.append(thread)

    def memory_nodes(self, *robots: dict[str, Any]) -> list[VideoMemoryNode]:
        """Start nodes, by parameters ('namespace' is that of the node), in one process."""
        executor = MultiThreadedExecutor(num_threads=32, context=self.context)
        wanted = []
        for parameters in robots:
            namespace = parameters.get('namespace', '')
            values = {**DEFAULTS, **exact(f'/{namespace}/image'.replace('//', '/')), **parameters}
            values.pop('namespace', None)
            wanted.append({
                'namespace': namespace, 'context': self.context, 'use_global_arguments': False,
                'parameter_overrides': [Parameter(name, value=value)
                                        for name, value in values.items()]})
        made = compose(executor, wanted)
        self.nodes += made
        self.run(executor)
        return made

    def client(self, namespace: str = '') -> Client:
        """Start a client of the node in a namespace."""
        node = rclpy.create_node('client', namespace=namespace, context=self.context,
                                 use_global_arguments=False)
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(node)
        self.run(executor)
        self.nodes.append(node)
        return Client(node)

    def robot(self, **parameters: Any) -> tuple[VideoMemoryNode, Client]:
        """Start a node and a client of it, and wait until it is active."""
        node = self.memory_nodes(parameters)[0]
        client = self.client()
        until(lambda: node.state == 'active', f'active, not {node.reason}')
        return node, client

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            if isinstance(node, VideoMemoryNode):
                node.close()
        for executor in self._executors:
            executor.shutdown()
            if isinstance(executor, MultiThreadedExecutor):
                executor._executor.shutdown(wait=False)  # rclpy leaves its threads behind
        for thread in self._threads:
            thread.join(WAIT_S)
        for node in self.nodes:
            node.destroy_node()
        self.context.try_shutdown()


class Client:
    """What a user's program does with the node."""

    def __init__(self, node: Any) -> None:
        """Listen to what the node says about itself."""
        self.node = node
        self.status: list[MemoryStatus] = []
        self.diagnostics: list[DiagnosticArray] = []
        self._clients: dict[str, Any] = {}
        node.create_subscription(MemoryStatus, 'infinipot/memory_status', self.status.append,
                                 LATCHED)
        node.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 10)

    def call(self, kind: Any, name: str, request: Any, within_s: float = WAIT_S) -> Any:
        """Call a service."""
        return self.begin(kind, name, request)(within_s)

    def begin(self, kind: Any, name: str, request: Any) -> Callable[..., Any]:
        """Call a service; the returned function waits for the response."""
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = self.node.create_client(kind, name)
        assert client.wait_for_service(WAIT_S), f'there is no service {name}'
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda unused: done.set())

        def wait(within_s: float = WAIT_S) -> Any:
            assert done.wait(within_s), f'no response from {name} within {within_s:g} s'
            return future.result()
        return wait

    def serves(self, name: str) -> bool:
        """Say whether someone still serves what was called before."""
        return bool(self._clients[name].service_is_ready())

    def call_again(self, kind: Any, name: str, request: Any) -> Any:
        """
        Call a service of another process, which may be called twice, until there is a response.

        A server that is just being discovered may answer before it knows its client.
        """
        for _ in range(10):
            wait = self.begin(kind, name, request)
            try:
                return wait(10.0)
            except AssertionError:
                continue
        raise AssertionError(f'no response from {name}')

    def ask(self, question: str, **fields: Any) -> VideoQA.Response:
        """Ask a question."""
        return self.call(VideoQA, 'video_qa', VideoQA.Request(question=question, **fields))

    def reset(self) -> Trigger.Response:
        """Forget everything."""
        return self.call(Trigger, 'infinipot/reset_memory', Trigger.Request())

    def file(self, verb: str, path: str = '') -> MemoryFile.Response:
        """Save or load."""
        return self.call(MemoryFile, f'infinipot/{verb}_memory', MemoryFile.Request(path=path))

    def state(self) -> str:
        """Return the lifecycle state."""
        response = self.call_again(GetState, 'infinipot/get_state', GetState.Request())
        return str(response.current_state.label)

    def begin_change(self, transition: str) -> Callable[..., ChangeState.Response]:
        """Begin a lifecycle transition; the returned function waits for its response."""
        request = ChangeState.Request()
        request.transition.id = TRANSITIONS[transition]
        return self.begin(ChangeState, 'infinipot/change_state', request)

    def change(self, transition: str) -> bool:
        """Make a lifecycle transition; return its success."""
        return bool(self.begin_change(transition)().success)

    def set(self, **values: Any) -> str:  # noqa: A003
        """Set parameters ('__' is a dot), all or none; return why not, '' if they are set."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name.replace('__', '.'), value=value).to_parameter_msg()
            for name, value in values.items()])
        result = self.call(SetParametersAtomically, 'infinipot/set_parameters_atomically',
                           request).result
        assert result.successful or result.reason
        return '' if result.successful else str(result.reason)

    def describe(self, name: str) -> Any:
        """Return the descriptor of a parameter."""
        return self.call(DescribeParameters, 'infinipot/describe_parameters',
                         DescribeParameters.Request(names=[name])).descriptors[0]

    def camera(self, topic: str = 'image', qos: QoSProfile = RELIABLE, kind: Any = Image) -> Any:
        """Publish images; wait until someone listens."""
        publisher = self.node.create_publisher(kind, topic, qos)
        until(publisher.get_subscription_count, f'someone listens to {topic}')
        return publisher

    def log(self) -> list[Log]:
        """Return what all nodes log: a list that grows, and begins with what was before."""
        lines: list[Log] = []
        self.node.create_subscription(Log, '/rosout', lines.append, QoSProfile(
            depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        return lines

    def until_status(self, frames: int) -> MemoryStatus:
        """Wait until the node publishes that its memory has seen so many frames."""
        until(lambda: self.status and self.status[-1].frames_seen >= frames,
              f'{frames} frames seen, {self.status[-1:]}')
        return self.status[-1]

    def drive_until_status(self, frames: int) -> MemoryStatus:
        """Publish until the node says that it has seen so many frames; some may be lost."""
        camera, newest_ns = self.camera(), START_NS

        def seen() -> bool:
            nonlocal newest_ns
            newest_ns = drive_past(camera, range(10), newest_ns + SECOND_NS // 10, pause_s=0.02)
            return bool(self.status and self.status[-1].frames_seen >= frames)
        until(seen, f'{frames} frames seen, {self.status[-1:]}')
        return self.status[-1]

    def task(self, words: str) -> Any:
        """Return the newest diagnostic entry whose name ends like this."""
        for array in reversed(self.diagnostics):
            for entry in array.status:
                if entry.name.endswith(words):
                    return entry
        return None

    def _on_diagnostics(self, array: DiagnosticArray) -> None:
        prefix = self.node.get_namespace().strip('/')
        own = f'{prefix}/infinipot:' if prefix else 'infinipot:'
        if all(entry.name.startswith(own) for entry in array.status):
            self.diagnostics.append(array)


def drive_past(publisher: Any, frames: Sequence[int], start_ns: int, fps: float = 10.0,
               pause_s: float = 0.0) -> int:
    """Publish frames of the demo world; return the stamp of the last."""
    stamp_ns = start_ns
    for count, index in enumerate(frames):
        stamp_ns = start_ns + int(count * SECOND_NS / fps)
        publisher.publish(image(DRIVE.frame(index).rgb, stamp_ns))
        time.sleep(pause_s)
    return stamp_ns
