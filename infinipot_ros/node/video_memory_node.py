# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The managed node `infinipot`: cameras in, answers out.

configure loads the model and allocates the memory, activate starts cameras, questions and
descriptions, deactivate stops them and keeps the memory, cleanup frees it. A transition that
fails says why in the log, in /diagnostics and in every answer, and can be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
import time
from typing import Any, NoReturn, TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray
from infinipot_ros.errors import Cancelled, CheckpointError, ConfigError, InfinipotError
from infinipot_ros.node.checkpoints import Checkpoints, folder
from infinipot_ros.node.descriptions import Descriptions
from infinipot_ros.node.diagnostics import Condition, diagnose, overrun
from infinipot_ros.node.engine_thread import EngineThread
from infinipot_ros.node.guarding import describe, kind_of, Throttle
from infinipot_ros.node.inputs import Inputs
from infinipot_ros.node.log_bridge import engine_logs_to
from infinipot_ros.node.managed_node import ManagedNode
from infinipot_ros.node.memory_factory import acquire_model, check_budget, make_memory
from infinipot_ros.node.memory_services import MemoryServices
from infinipot_ros.node.model_pool import Lease
from infinipot_ros.node.outputs import Outputs
from infinipot_ros.node.own_checkpoint import OwnCheckpoint
from infinipot_ros.node.parameters import Parameters
from infinipot_ros.node.question_service import QuestionService
from infinipot_ros.node.surroundings import Surroundings
from infinipot_ros.node.work import Frame, Hooks
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup

if TYPE_CHECKING:
    from infinipot_ros.memory import Answer, FrameReceipt

LOAD_TIMEOUT_S, FREE_TIMEOUT_S = 3600.0, 30.0
SAVE_TIMEOUT_S, STOP_TIMEOUT_S = 2.0, 0.8
# read when configuring, and free to be set at any other time
READ_ONCE = {'budget_mib', 'checkpoint.directory', 'checkpoint.restore', 'checkpoint.period_s'}
# how recent a dropped frame is for the log to speak of it
OVERRUN_S = 2.0


class VideoMemoryNode(ManagedNode):
    """Keep the visual memory of one robot."""

    def __init__(self, node_name: str = 'infinipot', **options: Any) -> None:
        """Create the node, unconfigured; options are those of rclpy.node.Node."""
        super().__init__(node_name, **options)
        logger = self.get_logger()
        self._report = Throttle(logger, 'error')
        self._warn = Throttle(logger, 'warning', 30.0)
        self._surroundings = Surroundings(self, 'video_qa')
        self._last_error, self._last_error_at = '', 0.0
        self._lease: Lease | None = None
        self.engine = EngineThread(
            Hooks(newest=lambda: self.inputs.newest(), on_frame=self._on_frame,
                  on_answer=lambda question, answer: self.outputs.on_answer(question.text, answer),
                  on_description=self._on_description, on_error=self._on_engine_error),
            name=f'{node_name} engine')
        self.parameters = Parameters(self, self._apply, self._refusal)
        for name in self.parameters.unknown_overrides():
            logger.warning(f"there is no parameter '{name}'; it is ignored. "
                           'docs/parameters.md lists all')
        self._apply(self.parameters.values())
        self.descriptions = Descriptions(self.parameters, self.engine.queue.describe)
        self.inputs = Inputs(self, self.engine, self.parameters, self._on_jump)
        self.outputs = Outputs(self, self.engine)
        self.checkpoints = Checkpoints(
            self, self.engine, lambda: str(self.parameters['checkpoint.directory']))
        self.own_checkpoint = OwnCheckpoint(self.checkpoints, self.engine, self.parameters,
                                            logger, self._on_engine_error)
        self.questions = QuestionService(self, self.engine, self.parameters, self._not_active)
        MemoryServices(self, self.engine, self.checkpoints, self._forget)
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        group = MutuallyExclusiveCallbackGroup()
        self.steady_timer(1.0, self._every_second, group)
        self.steady_timer(0.1, self._describe_in_time, group)
        self.engine.start()
        if self.parameters['autostart']:
            self.start_by_itself()

    # Transitions

    def configure(self) -> None:
        """Load the model and allocate the memory."""
        self.parameters.fix(True)  # before any is read
        try:
            problem = self.parameters.problem()
            if problem:
                raise ConfigError(problem)
            self.parameters.declare_cameras()
            self.inputs.prepare()
            self.engine.call(self._load, LOAD_TIMEOUT_S)
        except BaseException:
            self.parameters.fix(False)
            raise
        status = self.engine.status
        if status is not None:
            self.get_logger().info(
                f'{status.model}, policy {status.policy}: {status.budget_bytes / 2**20:.2f} MiB '
                f'hold {status.capacity_tokens} tokens, {status.tokens_per_frame} a frame; '
                f'compressions in {status.compressed_in}')

    def activate(self) -> None:
        """Start cameras, questions and descriptions."""
        self.inputs.open()
        service = self.resolve_service_name('video_qa')
        self.get_logger().info(f'questions are answered at {service}')
        self.own_checkpoint.restart()
        self.descriptions.restart()

    def deactivate(self) -> None:
        """Stop them, and keep the memory."""
        self.inputs.close()
        self.engine.queue.cancel_questions('the node has been deactivated')
        self.engine.queue.drop_frames('deactivated')

    def clean_up(self) -> None:
        """Save the memory if that is wanted, and free it and the model."""
        self.deactivate()
        self.own_checkpoint.save(FREE_TIMEOUT_S)
        self.engine.call(self._free, FREE_TIMEOUT_S)
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        self.checkpoints.release()
        self.parameters.fix(False)

    def close(self) -> None:
        """Save the memory if that is wanted and end the engine, within seconds."""
        if self.closed:
            return
        self.inputs.close()
        self.engine.queue.cancel_questions('the node is shutting down')
        self.own_checkpoint.save(SAVE_TIMEOUT_S)
        super().close()
        if self.engine.stop(STOP_TIMEOUT_S):
            self.checkpoints.release()
            if self._lease is not None:
                self._lease.release()

    def destroy_node(self) -> None:
        """Close, then destroy."""
        self.close()
        super().destroy_node()

    def _load(self) -> None:
        """Load model and memory, in the engine thread."""
        values = self.parameters.values()
        self.own_checkpoint.claim()
        lease: Lease | None = None
        try:
            with engine_logs_to(self.get_logger()):
                lease = acquire_model(values)
                if self.closed:  # while it loaded, so that no one else gives the model back
                    raise Cancelled('the node is shutting down')
                self.engine.set_memory(make_memory(lease.model, values), lease.lock)
        except BaseException:
            self.checkpoints.release()
            if lease is not None:
                lease.release()
            raise
        self._lease = lease
        self.checkpoints.most_mib = values['budget_mib']
        self.own_checkpoint.restore()

    def _free(self) -> None:
        self.engine.set_memory(None)
        self._forget()

    # What others ask

    def _not_active(self) -> str:
        if self.state == 'active':
            return ''
        under_way = self.under_way
        if under_way in ('configure', 'activate'):
            return (f'the node is about to {under_way}, which takes as long as its model takes to '
                    'load; ask again in a moment')
        if under_way:
            return f'the node is about to {under_way}'
        if self.reason:
            return f'the node is {self.state}; it {self.reason}'
        if self.state == 'finalized':
            return 'the node has been shut down; start it again'
        first = 'configure, then ' if self.state == 'unconfigured' else ''
        return (f'the node is {self.state}; activate it (ros2 lifecycle set '
                f'{self.get_fully_qualified_name()} {first}activate)')

    def _apply(self, changed: Mapping[str, Any]) -> None:
        """Put changed parameters into effect; the fixed ones are read when configuring."""
        engine = self.engine
        engine.queue.max_questions = changed.get('qa.queue', engine.queue.max_questions)
        engine.queue.max_frames = changed.get('frame_queue', engine.queue.max_frames)
        engine.describe_prompt = changed.get('describe.prompt', engine.describe_prompt)
        if 'budget_mib' in changed and engine.memory is not None:
            engine.post(lambda: self._set_budget(changed['budget_mib']))

    def _set_budget(self, budget_mib: float) -> None:
        """Change the budget, in the engine thread; unless the memory has been freed since."""
        memory = self.engine.memory
        if memory is None:
            return
        try:
            memory.set_budget(budget_mib)
        except Exception as error:
            raise InfinipotError(f'budget_mib is still {memory.config.budget_mib:g}, and not '
                                 f'{budget_mib:g}: {describe(error)}') from error

    def _refusal(self, changed: Mapping[str, Any]) -> str:
        """Say why values that are allowed in general are not allowed now."""
        memory = self.engine.memory
        if memory is None and self.parameters.fixed:  # what is read once has been read
            for name in READ_ONCE & changed.keys():
                return (f'{name} cannot be set while the node is about to configure or clean up; '
                        'wait until it has')
        try:
            if changed.get('checkpoint.directory'):
                folder(changed['checkpoint.directory'])
        except CheckpointError as error:
            return describe(error)
        if 'budget_mib' not in changed or memory is None:
            return ''
        try:
            check_budget(memory, changed['budget_mib'])
        except InfinipotError as error:
            raised = changed['budget_mib'] > memory.config.budget_mib
            return describe(error) + ('; to have more, clean up and configure again' if raised
                                      else '')
        return ''

    # What happens

    def _on_frame(self, frame: Frame, receipt: FrameReceipt) -> None:
        self.outputs.on_frame(frame, receipt)
        self.descriptions.on_novelty(receipt.novelty)

    def _describe_in_time(self) -> None:
        received = self.inputs.received()
        if self.state == 'active' and received:
            self.descriptions.in_time((received, self.engine.counts['frames']))

    def _on_description(self, answer: Answer) -> None:
        self.descriptions.restart()
        self.outputs.on_description(answer, self.parameters['cameras'])

    def _on_jump(self, camera: str) -> None:
        if self.parameters['on_time_jump'] == 'clear':
            self.engine.post(self._clear_after_jump)

    def _clear_after_jump(self) -> None:
        if self.engine.memory is not None:
            self.engine.memory.reset()
        self._forget()

    def _on_engine_error(self, what: str, error: Exception) -> None:
        self._last_error, self._last_error_at = f'{what}: {describe(error)}', time.monotonic()
        self._report(kind_of(self._last_error), self._last_error)

    def _forget(self) -> None:
        """Forget what belonged to a memory that is gone; in the engine thread."""
        self.engine.forget_pictures()
        self.outputs.forget()
        self.questions.forget()

    def _trouble(self) -> str:
        """Say why the node is not what it should be; '' if it is."""
        if not (self.closed or self.engine.alive()):
            return 'the model thread has ended; restart the node'
        return self.reason or self.own_checkpoint.refused

    def _every_second(self) -> None:
        self.outputs.publish_status()
        if self.engine.memory is not None and not self.closed:
            self.outputs.refresh()
        warning = self._surroundings.problem()
        if warning:
            self._warn(warning[:20], warning)
        if time.monotonic() - self.engine.queue.last_overrun < OVERRUN_S:
            self._warn('overrun', overrun(self.engine))
        condition = Condition(
            name=self.get_fully_qualified_name().strip('/'), state=self.state,
            model=self.parameters['model'], reason=self._trouble(),
            warning=warning, last_error=(self._last_error, time.monotonic() - self._last_error_at))
        self._diagnostics.publish(diagnose(self.get_clock().now().nanoseconds, condition,
                                           self.engine, self.inputs.cameras))
        self.inputs.warn()
        if self.state == 'active':
            self.own_checkpoint.save_in_time()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the node until it is told to stop, and end the process with status 0."""
    from infinipot_ros.node.composition import run
    run(arguments)


if __name__ == '__main__':
    main()
