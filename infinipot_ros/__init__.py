# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Give a ROS 2 robot a visual memory that never outgrows its budget."""

from pkgutil import extend_path

# `ros2 service call` and `ros2 interface show` import this file: nothing heavy belongs here.
__version__ = '0.1.0'

# The source tree has no generated messages: find them in the install tree beside it.
__path__ = extend_path(__path__, __name__)
