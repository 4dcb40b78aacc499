# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Declare the table of parameters on a node, check what is set, and hold the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import threading
from typing import Any

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.parameter_table import (
    camera_parameters,
    contradiction,
    NODE_PARAMETERS,
    Spec,
)
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    ParameterType,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

_TYPES = {'bool': ParameterType.PARAMETER_BOOL, 'int': ParameterType.PARAMETER_INTEGER,
          'double': ParameterType.PARAMETER_DOUBLE, 'string': ParameterType.PARAMETER_STRING,
          'string[]': ParameterType.PARAMETER_STRING_ARRAY}
# what rclpy itself declares
_OTHERS = ('use_sim_time', 'qos_overrides.', 'start_type_description_service')


class Parameters:
    """
    Hold the parameters of one node, always in an allowed state.

    A value from a file or the command line that is not allowed does not end the process: it is
    kept in `problems`, which configuring refuses, and goes when an allowed value is set.
    """

    def __init__(self, node: Node, on_change: Callable[[Mapping[str, Any]], None],
                 refusal: Callable[[Mapping[str, Any]], str]) -> None:
        """
        Declare everything.

        :param on_change: called with the values that have changed, after they are accepted.
        :param refusal: asked last before values are accepted; says why they are not, or ''.
        """
        self._node = node
        self._on_change = on_change
        self._refusal = refusal
        self._specs: dict[str, Spec] = {}
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()
        self.fixed = False
        self.problems: dict[str, str] = {}
        for spec in NODE_PARAMETERS:
            self._declare(spec)
        self.declare_cameras()
        node.add_on_set_parameters_callback(self._check)

    def __getitem__(self, name: str) -> Any:
        """Return a value in the type of the table."""
        return self._values[name]

    def values(self) -> dict[str, Any]:
        """Return all values."""
        return dict(self._values)

    def declare_cameras(self) -> None:
        """Declare the parameters of every camera that has none yet."""
        for spec in camera_parameters(self._values['cameras']):
            if spec.name not in self._specs:
                self._declare(spec)

    def fix(self, fixed: bool) -> None:
        """Make the fixed parameters read-only, or settable again."""
        with self._lock:
            self.fixed = fixed
        for name, spec in self._specs.items():
            if spec.fixed:
                self._node.describe_parameter(name).read_only = fixed

    def problem(self) -> str:
        """Say why the node cannot be configured with these values; '' if it can."""
        return '; '.join(self.problems.values()) or contradiction(self._values)

    def unknown_overrides(self) -> list[str]:
        """Return names that a file or the command line gives and no parameter has."""
        overrides: Mapping[str, Any] = self._node._parameter_overrides
        return sorted(name for name in overrides
                      if name not in self._specs and not name.startswith(_OTHERS))

    def _declare(self, spec: Spec) -> None:
        value: Any = spec.default
        override = self._node._parameter_overrides.get(spec.name)
        if override is not None:
            problem = spec.problem(override.value)
            if problem:
                self.problems[spec.name] = problem
            else:
                value = override.value
        self._specs[spec.name] = spec
        self._values[spec.name] = spec.typed(value)
        stored = self._values[spec.name]
        descriptor = _descriptor(spec)
        descriptor.read_only = self.fixed and spec.fixed
        self._node.declare_parameter(
            spec.name, list(stored) if spec.kind == 'string[]' else stored, descriptor,
            ignore_override=True)

    def _check(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        """Accept a set of values whole, or refuse it whole with the reason."""
        with self._lock:  # a value is accepted before the fixed ones are read, or not at all
            return self._check_alone(parameters)

    def _check_alone(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        ours = {p.name: p.value for p in parameters if p.name in self._specs}
        reason = ''
        for name, value in ours.items():
            reason = reason or self._specs[name].problem(value) or _unfit_policy(name, value)
        if not reason:
            changed = {name: self._specs[name].typed(value) for name, value in ours.items()}
            proposed = {**self._values, **changed}
            # a contradiction that was there before may be mended one value at a time
            if not contradiction(self._values):
                reason = contradiction(proposed)
            reason = reason or self._late(changed) or self._refusal(changed)
        if reason:
            return SetParametersResult(successful=False, reason=reason)
        self._values = proposed
        for name in ours:
            self.problems.pop(name, None)
        self._on_change(changed)
        return SetParametersResult(successful=True)

    def _late(self, changed: Mapping[str, Any]) -> str:
        # rclpy may have looked at read_only before it was set
        late = [name for name, value in changed.items()
                if self.fixed and self._specs[name].fixed and value != self._values[name]]
        return f'{late[0]} is read-only until the node is cleaned up' if late else ''


def _unfit_policy(name: str, value: object) -> str:
    # one of the user's own is only imported when configuring: here anyone could have code run
    if name != 'policy' or ':' in str(value):
        return ''
    from infinipot_ros.memory.policies import get_robot_policy
    try:
        get_robot_policy(str(value))
    except ConfigError as error:
        return str(error)
    return ''


def _descriptor(spec: Spec) -> ParameterDescriptor:
    descriptor = ParameterDescriptor(
        name=spec.name, type=_TYPES[spec.kind], description=spec.text,
        additional_constraints=spec.allowed(),
        # YAML and the command line write 2 for 2.0
        dynamic_typing=spec.kind == 'double')
    if spec.kind == 'double':
        descriptor.floating_point_range = [FloatingPointRange(
            from_value=float(spec.low or 0), to_value=float(spec.high or 0))]
    if spec.kind == 'int':
        descriptor.integer_range = [IntegerRange(
            from_value=int(spec.low or 0), to_value=int(spec.high or 0))]
    return descriptor
