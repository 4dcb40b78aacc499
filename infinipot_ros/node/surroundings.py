# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What may be wrong around a node that itself runs well."""

from __future__ import annotations

import time

from rclpy.node import Node

# one that was killed is still announced for some 20 s
RIVAL_AFTER_S = 30.0


class Surroundings:
    """Look for simulated time that does not begin, and for another node in this one's place."""

    def __init__(self, node: Node, service: str) -> None:
        """Look at nothing yet; no other node should have the service."""
        self._node = node
        self._service = node.resolve_service_name(service)
        self._rival_since: float | None = None

    def problem(self) -> str:
        """Say what is wrong and what to do; '' if nothing is. To be asked once a second."""
        if self._node.get_parameter('use_sim_time').value and \
                not self._node.get_clock().now().nanoseconds:
            return ('use_sim_time is true and nothing comes on /clock, so this node does not know '
                    'the time; start the simulator, play the bag with --clock, or set '
                    'use_sim_time to false')
        rival = self._rival()
        if not rival:
            self._rival_since = None
            return ''
        now = time.monotonic()
        self._rival_since = now if self._rival_since is None else self._rival_since
        if now - self._rival_since < RIVAL_AFTER_S:
            return ''
        return (f'another node {rival} too, and a question may reach either; end it, or start it '
                'with a namespace of its own')

    def _rival(self) -> str:
        """Say in what another node is the same as this one."""
        node = self._node
        own = (node.get_name(), node.get_namespace())
        if node.get_node_names_and_namespaces().count(own) > 1:
            return f'is called {node.get_fully_qualified_name()}'
        count = getattr(node, 'count_services', None)  # Humble has none
        if count is not None and count(self._service) > 1:
            return f'serves {self._service}'
        return ''
