# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The arithmetic behind config/robots: model shapes, board memories, and what a budget is in minutes.

`python test/unit/robot_budgets.py` prints the comment of every file; test_robots.py compares.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
import sys
import textwrap
from typing import Any

from infinipot_ros.memory import VideoMemory
from infinipot_ros.memory.budget import (
    BudgetPlan,
    kv_bytes,
    MIB,
    most_tokens,
    plan_budget,
    Sizes,
)
from infinipot_ros.memory.config import MemoryConfig
from infinipot_ros.memory.model import ModelShape
from infinipot_ros.memory.positions import PositionScheme
from infinipot_ros.models import load_model
from infinipot_ros.models.qwen2_vl import TRAINED_RANKS, TRAINED_TOKENS
from infinipot_ros.node.memory_factory import memory_config
from infinipot_ros.node.parameter_table import camera_parameters, NODE_PARAMETERS
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)
import yaml

DEMO = 'cpu_demo'
ROBOTS = Path(__file__).parents[2] / 'config' / 'robots'
DTYPES = {'bfloat16': torch.bfloat16, 'float16': torch.float16, 'float32': torch.float32}
PATCH_PX = 14 * 2
# tokens of the chat template around the video and the question
SINK_TOKENS, SUFFIX_TOKENS = 15, 6

# From the config.json of each model; what is not named is the default of its configuration class.
TEXT = {
    'Qwen/Qwen2-VL-2B-Instruct': {
        'hidden_size': 1536, 'intermediate_size': 8960, 'num_hidden_layers': 28,
        'num_attention_heads': 12, 'num_key_value_heads': 2, 'vocab_size': 151_936},
    'Qwen/Qwen2-VL-7B-Instruct': {
        'hidden_size': 3584, 'intermediate_size': 18_944, 'num_hidden_layers': 28,
        'num_attention_heads': 28, 'num_key_value_heads': 4, 'vocab_size': 152_064},
    'Qwen/Qwen2.5-VL-3B-Instruct': {
        'hidden_size': 2048, 'intermediate_size': 11_008, 'num_hidden_layers': 36,
        'num_attention_heads': 16, 'num_key_value_heads': 2, 'vocab_size': 151_936},
}
TIED = {'Qwen/Qwen2-VL-2B-Instruct', 'Qwen/Qwen2.5-VL-3B-Instruct'}


@dataclass(frozen=True)
class Board:
    """
    A board's memory.

    :param free_mib: what is left for the model, its memory and its work.
    :param work_mib: allowance for CUDA, the weights' loading and one forward pass.
    """

    memory: str
    free_mib: int
    free_because: str
    work_mib: int


BOARDS = {
    'jetson_orin_nano': Board(
        '8 GB shared by CPU and GPU', 4959,
        '5.2 GB, as measured on a board by others (ericxliu.me)', 768),
    'jetson_orin_nx_16': Board(
        '16 GB shared by CPU and GPU', 12_288,
        '16 GiB less 4 GiB for the system and the navigation stack', 1024),
    'jetson_agx_orin_32': Board(
        '32 GB shared by CPU and GPU', 26_624,
        '32 GiB less 6 GiB for the system and the navigation stack', 1536),
    'jetson_agx_orin_64': Board(
        '64 GB shared by CPU and GPU', 57_344,
        '64 GiB less 8 GiB for the system and the navigation stack', 2048),
    'jetson_thor': Board(
        '128 GB shared by CPU and GPU', 122_880,
        '128 GiB less 8 GiB for the system and the navigation stack', 2048),
    'desktop_gpu_24': Board(
        '24 GB on the GPU', 23_552, '24 GiB less 1 GiB for a desktop', 2048),
}


def parameters(robot: str) -> dict[str, Any]:
    """Return what a robot's file sets, over the node's defaults."""
    document = yaml.safe_load((ROBOTS / f'{robot}.yaml').read_text())
    specs = [*NODE_PARAMETERS, *camera_parameters(['camera'])]
    defaults = {spec.name: spec.default for spec in specs}
    return defaults | document['/**']['ros__parameters']


@lru_cache
def weights_bytes(name: str, dtype: str, quantization: str) -> int:
    """Return the bytes of a model's weights: 8 or 4 bit leaves all but the linear layers alone."""
    model = build_on_meta(name)
    size = DTYPES[dtype].itemsize
    bits = {'': 8 * size, 'int8': 8, 'int4': 4}[quantization]
    linear = sum(module.weight.numel() for path, module in model.named_modules()
                 if isinstance(module, torch.nn.Linear) and path != 'lm_head')
    total = sum(parameter.numel() for parameter in model.parameters())
    return (total - linear) * size + linear * bits // 8


@lru_cache
def build_on_meta(name: str) -> Any:
    """Build a model without memory for its weights."""
    text = {**TEXT[name], 'tie_word_embeddings': name in TIED}
    if name.startswith('Qwen/Qwen2.5'):
        vision = {'depth': 32, 'hidden_size': 1280, 'intermediate_size': 3420, 'num_heads': 16,
                  'out_hidden_size': text['hidden_size']}
        kind, config = Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=name in TIED)
    else:
        vision = {'depth': 32, 'embed_dim': 1280, 'num_heads': 16, 'mlp_ratio': 4,
                  'hidden_size': text['hidden_size']}
        kind, config = Qwen2VLForConditionalGeneration, Qwen2VLConfig(
            text_config=text, vision_config=vision, tie_word_embeddings=name in TIED)
    with torch.device('meta'):
        return kind(config)


def model_shape(name: str, dtype: str) -> ModelShape:
    """Return what the engine needs to know of a model."""
    text = TEXT[name]
    return ModelShape(
        layers=text['num_hidden_layers'], query_heads=text['num_attention_heads'],
        kv_heads=text['num_key_value_heads'],
        head_dim=text['hidden_size'] // text['num_attention_heads'], hidden=text['hidden_size'],
        dtype=DTYPES[dtype], device=torch.device('cpu'), max_context_tokens=TRAINED_TOKENS,
        max_rank=TRAINED_RANKS)


def plan(given: dict[str, Any]) -> tuple[Sizes, BudgetPlan]:
    """Return what the engine makes of a robot's budget."""
    height, width = given['frame_height'], given['frame_width']
    grid = (height // PATCH_PX, width // PATCH_PX)
    picture_px = (grid[0] * PATCH_PX, grid[1] * PATCH_PX)
    shape = model_shape(given['model'], given['dtype'])
    config = MemoryConfig(
        budget_mib=given['budget_mib'], instant_frames=given['instant_frames'],
        max_memory_tokens=given['max_memory_tokens'], max_new_tokens=given['qa.max_new_tokens'],
        max_question_tokens=given['qa.max_question_tokens'])
    sizes = Sizes(
        shape=shape, scheme=PositionScheme(grid, shape.max_rank, 1.0, shape.device),
        config=config, sink_tokens=SINK_TOKENS, suffix_tokens=SUFFIX_TOKENS, frames_per_step=2,
        picture_px=picture_px, newest_grid=grid, newest_picture_px=picture_px)
    return sizes, plan_budget(sizes)


def comment(robot: str) -> str:
    """Return the comment of a robot's file."""
    return demo_comment() if robot == DEMO else board_comment(robot)


def board_comment(robot: str) -> str:
    """Say how a budget follows from the board's memory and the model."""
    given, board = parameters(robot), BOARDS[robot]
    sizes, spent = plan(given)
    tokens, grid = sum(spent.camera_tokens), sizes.scheme.grid
    weights = round(weights_bytes(given['model'], given['dtype'], given['quantization']) / MIB)
    sum_mib = weights + given['budget_mib'] + board.work_mib
    packed = ''
    if given['quantization']:
        unpacked = round(weights_bytes(given['model'], given['dtype'], '') / MIB)
        packed = (f' with linear layers in {given["quantization"]} (needs the Python package '
                  f'bitsandbytes; {unpacked} MiB without it)')
    whole = '' if tokens < most_tokens(sizes) else (
        f', the most that the model was trained to read '
        f'({sizes.shape.max_context_tokens} with all the rest)')
    return _wrapped([
        f'Memory of the board: {board.memory}; {board.free_mib} MiB are left for us '
        f'({board.free_because}).',
        f'Weights of {given["model"]} in {given["dtype"]}{packed}: {weights} MiB. '
        f'Work: {board.work_mib} MiB allowed for CUDA and a forward pass, an allowance that was '
        'not measured on this board.',
        f'Budget: {given["budget_mib"]:.0f} MiB. Together {sum_mib:.0f} MiB, which leaves '
        f'{board.free_mib - sum_mib:.0f} MiB.',
        f'A token costs {kv_bytes(sizes.shape)} bytes of keys and values, and two pictures of '
        f'{given["frame_width"]} x {given["frame_height"]} px make {grid[0]} x {grid[1]} = '
        f'{sizes.tokens_per_frame} tokens. Beside sinks, newest frames, text, working copies '
        f'and thumbnails the budget holds {tokens} tokens of the past{whole}.',
        f'At {given["sample_fps"]:g} frames per second that is '
        f'{_span(tokens, sizes, given["sample_fps"])} before the first compression; from then on '
        'the memory covers all of the past, thinned out. The rate is a guess for this board: '
        'lower it if /diagnostics counts dropped frames.',
        f'The scene is described every {given["describe.period_s"]:g} s, in '
        f'{given["qa.max_new_tokens"]} tokens at most. Questions go first; frames wait meanwhile, '
        'and what that costs was not measured on this board either. describe.period_s 0 leaves '
        'it out.',
    ])


def board_table() -> str:
    """Return the table of docs/on_a_robot.md."""
    rows = ['| `robot:=` | model | weights | `budget_mib` | tokens of the past | at '
            '| full after |',
            '|---|---|---|---|---|---|---|']
    for robot in BOARDS:
        given = parameters(robot)
        sizes, spent = plan(given)
        tokens = sum(spent.camera_tokens)
        weights = weights_bytes(given['model'], given['dtype'], given['quantization'])
        rows.append(
            f"| `{robot}` | {given['model']}, {given['quantization'] or given['dtype']} "
            f"| {weights / MIB:.0f} MiB | {given['budget_mib']:.0f} | {tokens} "
            f"| {given['sample_fps']:g} frames/s | {_span(tokens, sizes, given['sample_fps'])} |")
    return '\n'.join(rows) + '\n'


def demo_comment() -> str:
    """Say what the demo model's budget holds, as the engine itself allocates it."""
    given = parameters(DEMO)
    memory = VideoMemory(load_model('demo', 'cpu', 'float32'), memory_config(given))
    sizes, spent = memory._state.sizes, memory._state.plan
    tokens = sum(spent.camera_tokens)
    return _wrapped([
        'The embedded demo model on a CPU, for scripts/demo, demo.launch.py and tests. It knows '
        'only the demo world.',
        f'Budget: {given["budget_mib"]:g} MiB. A token costs {kv_bytes(sizes.shape)} bytes of '
        f'keys and values in {given["dtype"]}, and a frame is {sizes.tokens_per_frame} tokens. '
        'Beside sinks, newest frames, text, working copies and thumbnails the budget holds '
        f'{tokens} tokens of the past, which is {_span(tokens, sizes, given["sample_fps"])} at '
        f'{given["sample_fps"]:g} frames per second before the first compression. It is this '
        'small so that a drive of a minute compresses many times.',
        'Policy: on calm drives TaR alone keeps more of the past than TaR with VaN, whose value '
        'norms say little in so small a model; docs/benchmarks.md has the figures. Robots with '
        'real models use infinipot_v, which is what the papers measured on them.',
        f'The scene is described every {given["describe.period_s"]:g} s, which takes less than '
        '50 ms of one core.',
    ])


def _span(tokens: int, sizes: Sizes, sample_fps: float) -> str:
    seconds = tokens / sizes.tokens_per_frame * sizes.frames_per_step / sample_fps
    return f'{seconds:.0f} seconds' if seconds < 60 else f'{seconds / 60:.1f} minutes'


def _wrapped(paragraphs: list[str]) -> str:
    return ''.join(textwrap.fill(text, 97, initial_indent='# ', subsequent_indent='#   ',
                                 break_long_words=False, break_on_hyphens=False) + '\n'
                   for text in paragraphs)


if __name__ == '__main__':
    for name in sys.argv[1:] or [*BOARDS, DEMO]:
        print(f'## {name}\n{comment(name)}')
    print(board_table())
