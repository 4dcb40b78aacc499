# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Keep the tests apart from robots nearby and from chance; have messages check their fields."""

import os
import signal

from hypothesis import HealthCheck, settings
from infinipot_ros.demo.processes import free_domain
import pytest

# Robots nearby, and another run on this machine, are none of the tests' business.
os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
os.environ['ROS_DOMAIN_ID'] = str(free_domain())
# Shells start background jobs with SIGINT ignored, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')
# The same examples in every run, however slow the machine.
settings.register_profile('same', derandomize=True, deadline=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile('same')


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests between processes over DDS a second try; the summary names who needed it."""
    for item in items:
        if item.path.parent.name in ('integration', 'launch'):
            item.add_marker(pytest.mark.flaky(reruns=1))
