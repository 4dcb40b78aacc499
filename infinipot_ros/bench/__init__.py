# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is remembered, how fast and in how much memory: `infinipot bench`."""
