# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The errors of infinipot_ros: each says what was seen, what is allowed, and what to change."""


class InfinipotError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigError(InfinipotError):
    """A parameter or an argument has a value that is not allowed."""


class ImageFormatError(InfinipotError):
    """A picture has a shape, type or encoding that cannot be used."""


class ModelLoadError(InfinipotError):
    """A model is missing, incomplete, of an unsupported kind, or does not fit the device."""


class BudgetError(InfinipotError):
    """A memory budget is too small; the message names the least one that works."""


class CheckpointError(InfinipotError):
    """A checkpoint is torn, of another model or version, or cannot be written."""


class BusyError(InfinipotError):
    """The one model thread has as much waiting work as it may hold."""


class Cancelled(InfinipotError):
    """Work was stopped because its caller no longer wants it."""


class NumericError(InfinipotError):
    """A model returned NaN or infinite numbers; nothing of that call was kept."""
