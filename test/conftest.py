# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Keep the tests over ROS 2 apart from robots nearby, and have messages check their fields."""

import os
import signal

# Before the first import of rclpy, for a run that scripts/test did not start.
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
# Shells start background jobs with SIGINT ignored, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault('ROS_PYTHON_CHECK_FIELDS', '1')
