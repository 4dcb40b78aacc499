# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
A managed node whose transitions may take long and may fail.

rclpy runs the lifecycle services in the group of all others, loses the text of what a transition
raises, and ends the executor on a transition that the state does not allow. Not so here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.guarding import describe, guard_service, guarded
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.callback_groups import (
    CallbackGroup,
    MutuallyExclusiveCallbackGroup,
    ReentrantCallbackGroup,
)
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer

_TRANSITIONS = {
    Transition.TRANSITION_CONFIGURE: 'configure', Transition.TRANSITION_CLEANUP: 'cleanup',
    Transition.TRANSITION_ACTIVATE: 'activate', Transition.TRANSITION_DEACTIVATE: 'deactivate',
    **dict.fromkeys((Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,
                     Transition.TRANSITION_INACTIVE_SHUTDOWN,
                     Transition.TRANSITION_ACTIVE_SHUTDOWN), 'shutdown')}
# the states of rcl in which a transition is under way
_UNDER_WAY = {'configuring': 'configure', 'activating': 'activate', 'deactivating': 'deactivate',
              'cleaningup': 'clean up', 'shuttingdown': 'shut down',
              'errorprocessing': 'recover'}
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class ManagedNode(LifecycleNode):
    """
    Name the work of each transition; the rest is here.

    `close` may be called without a transition, and sets `closed`.
    """

    def __init__(self, node_name: str, **options: Any) -> None:
        """Create the node, unconfigured; options are those of rclpy.node.Node."""
        super().__init__(node_name, **options)
        self.closed = False
        self._reason = ''
        # reentrant, so that the state can be asked for while a model loads
        group = ReentrantCallbackGroup()
        for service in self.services:
            if service.srv_type.__module__.startswith('lifecycle_msgs.'):
                service.callback_group = group
                group.add_entity(service)
                if service.srv_type is ChangeState:
                    service.callback = self._or_why_not(service.callback)
                service.callback = self._keeping_the_state_machine(service.callback)
                guard_service(service, self.get_logger(), _not_possible)

    @property
    def state(self) -> str:
        """Return the lifecycle state as rcl has it: the next one once a transition is over."""
        if self.closed:
            return 'finalized'
        with self._state_machine:
            return str(self._state_machine.current_state[1])

    @property
    def under_way(self) -> str:
        """Return the transition that runs now, '' if none does."""
        return _UNDER_WAY.get(self.state, '')

    @property
    def reason(self) -> str:
        """Say why the last transition failed, '' if it did not or another is under way."""
        return '' if self.under_way else self._reason

    def configure(self) -> None:
        """Get everything that activating needs."""

    def activate(self) -> None:
        """Start."""

    def deactivate(self) -> None:
        """Stop, and keep what there is."""

    def clean_up(self) -> None:
        """Free what configuring got."""

    def close(self) -> None:
        """End, from whatever state."""
        self.closed = True

    def destroy_node(self) -> None:
        """Leave the graph with the lifecycle services too; rclpy leaves those until collected."""
        self.closed = True
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the transition, for rclpy."""
        return self._transition('configure', 'inactive', self.configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the transition, for rclpy."""
        return self._transition('activate', 'active', self.activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the transition, for rclpy."""
        return self._transition('deactivate', 'inactive', self.deactivate)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the transition, for rclpy."""
        return self._transition('clean up', 'unconfigured', self.clean_up)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the transition, for rclpy."""
        return self._transition('shut down', 'finalized', self.close)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything, and be unconfigured again."""
        return self._transition('recover', 'unconfigured', self.clean_up)

    def steady_timer(self, period_s: float, callback: Callable[[], None],
                     group: CallbackGroup) -> Timer:
        """Create a timer that neither simulated time nor a clock set back stops."""
        return self.create_timer(period_s, guarded(callback, self.get_logger()),
                                 callback_group=group,
                                 clock=Clock(clock_type=ClockType.STEADY_TIME))

    def start_by_itself(self) -> None:
        """Configure and activate, as soon as the node is spun."""
        timer: list[Timer] = []

        def start() -> None:
            timer[0].cancel()
            if self.trigger_configure() == SUCCESS:
                self.trigger_activate()

        timer.append(self.steady_timer(0.001, self._keeping_the_state_machine(start),
                                       MutuallyExclusiveCallbackGroup()))

    def _keeping_the_state_machine(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that destroying the node waits for; rclpy would use what is freed."""
        def keeping(*arguments: Any) -> Any:
            with self._state_machine:
                return call(*arguments)
        return keeping

    def _or_why_not(self, change: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callback of ~/change_state with a reason in the place of rcl's or rclpy's."""
        def change_or_say(request: ChangeState.Request, response: ChangeState.Response) -> Any:
            wanted, label = request.transition.id, request.transition.label
            possible = [(number, name) for number, name, *_ in
                        self._state_machine.available_transitions]
            if not any(label == name if label else wanted == number for number, name in possible):
                name = label or _TRANSITIONS.get(wanted, f'transition {wanted}')
                now = f'about to {self.under_way}' if self.under_way else self.state
                raise ConfigError(f"'{name}' is not possible, the node is {now}")
            return change(request, response)
        return change_or_say

    def _transition(self, verb: str, goal: str,
                    work: Callable[[], None]) -> TransitionCallbackReturn:
        """Do the work of a transition; whatever it raises is the reason why it failed."""
        try:
            work()
        except Exception as error:  # rclpy would lose the text
            self._reason = f'could not {verb}: {describe(error)}'
            self.get_logger().error(self._reason)
            return FAILURE
        self._reason = ''
        self.get_logger().info(f'now {goal}')
        return SUCCESS


def _not_possible(response: Any, text: str) -> None:
    """Leave the response at its default: no success."""
