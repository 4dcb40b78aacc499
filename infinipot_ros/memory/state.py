# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""All storage of one memory, allocated by its budget plan, and its size in bytes."""

from dataclasses import replace
import logging
from typing import cast

from infinipot_ros.errors import BudgetError, ConfigError
from infinipot_ros.memory.attention import Workspace
from infinipot_ros.memory.budget import BudgetPlan, kv_bytes, MIB, plan_budget, Sizes
from infinipot_ros.memory.camera_memory import CameraMemory
from infinipot_ros.memory.compression import Compression
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.construction import Construction
from infinipot_ros.memory.evidence import MassRecorder
from infinipot_ros.memory.frame_table import FrameTable
from infinipot_ros.memory.layer_cache import LayerCache
from infinipot_ros.memory.model import VisionLanguageModel
from infinipot_ros.memory.offload import HostStore
from infinipot_ros.memory.positions import PositionScheme, Rotation
import torch

logger = logging.getLogger(__name__)


def for_policies(config: MemoryConfig, model: VisionLanguageModel) -> MemoryConfig:
    """Return the settings as policies see them: thresholds of the model, a seed of their own."""
    options = dict(config.policy_options)
    if 'cv_thresholds' not in options and model.cv_thresholds is not None:
        options['cv_thresholds'] = model.cv_thresholds
    seed = options.get('seed', config.seed)
    return replace(config, policy_options=options, seed=cast(int, seed))


def van_pooling(config: MemoryConfig, model: VisionLanguageModel) -> str:
    """Say in words what chooses VaN's pooling kernel in a memory."""
    options = config.policy_options
    if options.get('van_kernel') is not None:
        return f'kernel {options["van_kernel"]}'
    given = 'cv_thresholds' in options
    taus = options['cv_thresholds'] if given else model.cv_thresholds
    if not isinstance(taus, tuple | list):
        return 'kernel by depth'
    numbers = ', '.join(f'{tau:.4g}' for tau in taus)
    return f'kernel by thresholds {numbers} of {"policy_options" if given else "the model"}'


class MemoryState:
    """The caches, tables and counters of one memory and the passes over them."""

    def __init__(self, model: VisionLanguageModel, config: MemoryConfig) -> None:
        """Allocate everything, and read the prompt's first part into the attention sinks."""
        shape = model.shape
        self.model = model
        self.config = config
        self.frame_size_px = config.frame_size_px or model.default_frame_size_px
        grid = model.grid(self.frame_size_px)
        self.compression = Compression(for_policies(config, model), grid, shape.layers)
        self.evidence_layers = config.evidence_layers or tuple(range(shape.layers))
        if any(not 0 <= layer < shape.layers for layer in self.evidence_layers):
            raise ConfigError(
                f'evidence_layers is {config.evidence_layers}: the model has the layers 0 to '
                f'{shape.layers - 1}'
            )
        self.sizes = self._sizes(grid)
        self.plan = self._plan(self.sizes)
        self.allocated_mib = config.budget_mib
        self.cameras = [
            CameraMemory(index, name, tokens, self.sizes, self.compression.new_filter())
            for index, (name, tokens) in enumerate(
                zip(config.cameras, self.plan.camera_tokens, strict=True)
            )
        ]
        self.build = Construction(
            model=model,
            sizes=self.sizes,
            rotation=Rotation(model.rotary_table(self.plan.positions)),
            workspace=Workspace(shape, self.plan.workspace_tokens, config.hold_rotated_keys),
            scratch=LayerCache(shape, self.sizes.scratch_tokens),
            frame_size_px=self.frame_size_px,
        )
        self.recorder = MassRecorder(self.evidence_layers, shape, self.plan.workspace_tokens)
        self.table = FrameTable(
            self.plan.table_rows,
            self.plan.thumbnails,
            self.sizes.thumbnail_px,
            grows=self.compression.fetching is not None,
        )
        self.next_frame = 0
        self.stamps_gone_back = 0
        with torch.inference_mode():
            self.build.build_sinks(self.cameras)
        self._tell_unused()

    def _sizes(self, grid: tuple[int, int]) -> Sizes:
        model, config = self.model, self.config
        height, width = self.frame_size_px
        step_s = model.frames_per_step / config.sample_fps if config.sample_fps else None
        sharp = (height * config.newest_scale, width * config.newest_scale)
        return Sizes(
            shape=model.shape,
            scheme=PositionScheme(
                grid, model.shape.max_rank, model.rank_step(step_s), model.shape.device
            ),
            config=config,
            sink_tokens=len(model.prefix_ids()),
            suffix_tokens=len(model.suffix_ids('')),
            frames_per_step=model.frames_per_step,
            picture_px=model.picture_size_px(self.frame_size_px),
            newest_grid=model.grid(sharp),
            newest_picture_px=model.picture_size_px(sharp),
            window_queries=self.compression.policy.observe_tokens,
            has_filter=self.compression.policy.token_filter is not None,
            state_bytes=self.compression.policy.state_bytes,
            least_tokens=self.compression.least_tokens(),
            fetched_tokens=0 if self.compression.fetching is None else config.question_tokens,
        )

    def _plan(self, sizes: Sizes) -> BudgetPlan:
        """Return the plan of a budget of which a compression leaves the newest frame whole."""
        plan, frame, compression = plan_budget(sizes), sizes.tokens_per_frame, self.compression
        usable = min(map(compression.usable, plan.camera_tokens))
        left = compression.target(usable)
        if left < frame and compression.policy.evicts:
            raise BudgetError(
                f'keep_ratio is {sizes.config.keep_ratio:g}: of the {usable} tokens that policy '
                f'{compression.policy.name} holds a compression would leave {left}, less than a '
                f'frame of {frame}; raise keep_ratio or choose another policy'
            )
        return plan

    def _tell_unused(self) -> None:
        unused = self.plan.budget_bytes - self.plan.total_bytes
        frame = self.sizes.tokens_per_frame
        if not self.config.max_memory_tokens and unused > frame * kv_bytes(self.model.shape):
            logger.warning(
                'budget_mib %g: %.2f MiB of it stay unused, because the model was trained to read '
                '%d tokens, which leaves %d for the past',
                self.config.budget_mib,
                unused / MIB,
                self.model.shape.max_context_tokens,
                sum(self.plan.camera_tokens),
            )

    def camera(self, name: str | None) -> CameraMemory:
        """Return a camera by name, or the first."""
        if name is None:
            return self.cameras[0]
        for camera in self.cameras:
            if camera.name == name:
                return camera
        raise ConfigError(f'no camera {name!r}; this memory has {", ".join(self.config.cameras)}')

    def bytes_by_part(self) -> dict[str, int]:
        """Return the bytes of the storage really held, by the names of the budget plan."""
        build, cameras, sizes = self.build, self.cameras, self.sizes
        labels = sum(c.past.frame.nbytes + c.past.patch.nbytes for c in cameras)
        sinks = sizes.sink_tokens * kv_bytes(sizes.shape) * len(cameras)
        return {
            'sinks': sinks,
            'cumulative': sum(camera.past.nbytes for camera in cameras) - labels - sinks,
            'provenance': labels,
            'fetched': sum(camera.fetched.nbytes for camera in cameras),
            'instant': sum(camera.instant.nbytes for camera in cameras),
            'features': sum(camera.buffer.nbytes for camera in cameras),
            'pictures': sum(camera.picture_nbytes for camera in cameras),
            'text': build.scratch.nbytes,
            'workspace': build.workspace.nbytes,
            'evidence': self.recorder.nbytes,
            'rotation': build.rotation.nbytes,
            'window': sum(camera.window_nbytes for camera in cameras),
            'filter': sum(camera.filter_nbytes for camera in cameras),
            'policy_state': sum(camera.state_nbytes for camera in cameras),
            'frame_table': self.table.nbytes,
            'thumbnails': self.table.thumbnail_nbytes,
        }

    @property
    def stores(self) -> list[HostStore]:
        """Return the stores in host memory: none unless the policy offloads."""
        return [camera.store for camera in self.cameras if camera.store is not None]

    @property
    def host_bytes(self) -> int:
        """Bytes held beside the budget: the stores, and rows of the table for their frames."""
        return sum(store.nbytes for store in self.stores) + self.table.grown_nbytes

    def resize(self, plan: BudgetPlan, config: MemoryConfig) -> None:
        """Give every part the size of a plan; what is stored has to fit it."""
        shape = self.model.shape
        for camera, tokens in zip(self.cameras, plan.camera_tokens, strict=True):
            camera.past.resize(tokens)
        # The old workspace goes before the new one comes.
        del self.build.workspace, self.recorder
        self.build.workspace = Workspace(shape, plan.workspace_tokens, config.hold_rotated_keys)
        self.recorder = MassRecorder(self.evidence_layers, shape, plan.workspace_tokens)
        self.build.rotation = Rotation(self.model.rotary_table(plan.positions))
        self.table.resize(plan.table_rows, plan.thumbnails)
        self.config = self.build.config = config
        self.compression.config = for_policies(config, self.model)
        self.sizes = self.build.sizes = replace(self.sizes, config=config)
        self.plan = plan

    def plan_for_budget(self, budget_mib: float) -> tuple[BudgetPlan, MemoryConfig]:
        """Return the plan of another budget, at most the one allocated at the start."""
        config = replace(self.config, budget_mib=budget_mib)
        if budget_mib > self.allocated_mib:
            raise BudgetError(
                f'budget_mib can be raised up to {self.allocated_mib:g}, what this memory was '
                f'made with, not to {budget_mib:g}'
            )
        return self._plan(replace(self.sizes, config=config)), config

    def clear(self) -> None:
        """Forget every frame; nothing is freed or allocated but the stores in host memory."""
        for camera in self.cameras:
            camera.clear()
            camera.token_filter = self.compression.new_filter()
        self.table.clear()
        self.next_frame = 0
        self.stamps_gone_back = 0
