# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Vision-language models: one adapter per family, the only place that knows Hugging Face names."""

from infinipot_ros.models.loading import load_model

__all__ = ['load_model']
