# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
From the node's parameters to a model and a memory. Nothing here imports ROS.

torch and transformers take seconds to import, so they are imported where they are needed, in the
engine thread: the node is there before they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TYPE_CHECKING

from infinipot_ros.errors import ConfigError
from infinipot_ros.node.model_pool import Lease, MODELS

if TYPE_CHECKING:
    from infinipot_ros.memory import MemoryConfig, VideoMemory


def acquire_model(values: Mapping[str, Any]) -> Lease:
    """
    Load the model that the parameters name, or share it if another node has.

    :raises ModelLoadError: what is missing and what to do.
    :raises ConfigError: no memory can be made with the other parameters, whatever the model.
    """
    memory_config(values)  # before minutes of loading
    device = _device(values['device'])
    dtype = values['dtype']
    if dtype == 'auto' and device == 'cpu':
        dtype = 'float32'
    calibration = _calibration(values['model'], values['calibration'])
    key = (values['model'], device, dtype, values['quantization'], calibration)

    def load() -> Any:
        from infinipot_ros.models import load_model
        return load_model(values['model'], device=device, dtype=dtype,
                          quantization=values['quantization'], calibration=calibration)

    return MODELS.acquire(key, load)


def memory_config(values: Mapping[str, Any]) -> MemoryConfig:
    """
    Return the settings of the memory that the parameters ask for.

    :raises ConfigError: the policy is none that a robot can use; those that can are named.
    """
    from infinipot_ros.memory import MemoryConfig
    from infinipot_ros.memory.policies import get_robot_policy
    get_robot_policy(values['policy'])
    height, width = values['frame_height'], values['frame_width']
    return MemoryConfig(
        budget_mib=values['budget_mib'], policy=values['policy'], alpha=values['alpha'],
        recent_ratio=values['recent_ratio'], keep_ratio=values['keep_ratio'],
        instant_frames=values['instant_frames'], max_memory_tokens=values['max_memory_tokens'],
        max_question_tokens=values['qa.max_question_tokens'],
        max_new_tokens=values['qa.max_new_tokens'], max_evidence=values['qa.evidence'],
        cameras=values['cameras'],
        camera_shares=tuple(values[f'{name}.share'] for name in values['cameras']),
        frame_size_px=(height, width) if height else None)


def make_memory(model: Any, values: Mapping[str, Any]) -> VideoMemory:
    """
    Allocate a memory.

    :raises BudgetError: the budget is too small; the least one is named.
    """
    from infinipot_ros.memory import VideoMemory
    return VideoMemory(model, memory_config(values))


def check_budget(memory: VideoMemory, budget_mib: float) -> None:
    """
    Say whether a memory could go on with another budget, without touching it.

    :raises BudgetError: below the least that works, or above what was allocated.
    """
    memory.check_budget(budget_mib)


def _calibration(model: str, name: str) -> str:
    """Return the whole path of a calibration, so that one is not two however it is named."""
    from infinipot_ros.models.calibration import find_calibration
    from infinipot_ros.models.loading import demo_folder
    folder = demo_folder() if model == 'demo' else Path(model).expanduser()
    path = find_calibration(name, folder)
    return name if path is None else str(path.resolve())


def _device(name: str) -> str:
    import torch
    if name == 'auto':
        return 'cuda' if torch.cuda.is_available() else 'cpu'
    if name.startswith('cuda') and not torch.cuda.is_available():
        raise ConfigError(f"device is '{name}', but torch sees no GPU here; set device to 'cpu' "
                          "or 'auto', or install the torch build for this machine's CUDA")
    return name
