# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""
The node's parameters in one table: declaration, checks and docs/parameters.md come from it.

Nothing here imports ROS. `python -m infinipot_ros.node.parameter_table` prints the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
import math
import re
from typing import Any

Value = bool | int | float | str | tuple[str, ...]
_TYPES: dict[str, tuple[type, ...]] = {
    'bool': (bool,), 'int': (int,), 'double': (float, int), 'string': (str,),
    'string[]': (list, tuple)}
_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]*')
#: Settings of a memory, as its errors name them, whose parameters have other names.
OTHER_NAMES = {
    'max_question_tokens': 'qa.max_question_tokens', 'max_new_tokens': 'qa.max_new_tokens',
    'max_evidence': 'qa.evidence', 'camera_shares': '<camera>.share',
    'frame_size_px': '(frame_height, frame_width)'}
_OTHER_NAME = re.compile(rf'(?<![\w.])({"|".join(OTHER_NAMES)})\b')


@dataclass(frozen=True)
class Spec:
    """
    Describe one parameter.

    :param kind: 'bool', 'int', 'double', 'string' or 'string[]'.
    :param fixed: read-only while a model is loaded (lifecycle states inactive and active).
    :param pattern: what a string has to match, with the words for it.
    """

    name: str
    kind: str
    default: Value
    text: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    fixed: bool = False
    pattern: tuple[str, str] = ('', '')

    def problem(self, value: object) -> str:
        """Say why a value is not allowed, and what is; '' if it is allowed."""
        if value is None:  # what ROS makes of an empty list
            return f'{self.name} is empty; it has to be {self.allowed()}'
        wrong_type = not isinstance(value, _TYPES[self.kind])
        if wrong_type or (isinstance(value, bool) and self.kind != 'bool'):
            return (f'{self.name} is {value!r}, of type {type(value).__name__}; '
                    f'it has to be {self.allowed()}')
        if self.kind in ('int', 'double') and not self._in_range(value):
            return f'{self.name} is {value!r}; it has to be {self.allowed()}'
        if self.choices and value not in self.choices:
            return f'{self.name} is {value!r}; it has to be {self.allowed()}'
        if self.pattern[0] and not re.fullmatch(self.pattern[0], str(value)):
            return f'{self.name} is {value!r}; it has to be {self.allowed()}'
        if self.kind == 'string[]':
            names = list(value)  # type: ignore[call-overload]
            if not names or len(set(names)) < len(names) or not all(
                    isinstance(name, str) and _NAME.fullmatch(name) for name in names):
                return f'{self.name} is {names!r}; it has to be {self.allowed()}'
        return ''

    def allowed(self) -> str:
        """Say in words which values are allowed."""
        if self.choices:
            return f"one of {', '.join(repr(choice) for choice in self.choices)}"
        if self.pattern[1]:
            return self.pattern[1]
        if self.kind in ('int', 'double'):
            number = 'a whole number' if self.kind == 'int' else 'a number'
            return f'{number} from {self.low:g} to {self.high:g}'
        return {'bool': 'true or false', 'string': 'a string',
                'string[]': 'one or more different names made of letters, digits and _, '
                            'each beginning with a letter'}[self.kind]

    def typed(self, value: Any) -> Value:
        """Return an allowed value in its own type: 2 is 2.0 for a double."""
        if self.kind == 'double':
            return float(value)
        return tuple(value) if self.kind == 'string[]' else value

    def _in_range(self, value: Any) -> bool:
        assert self.low is not None and self.high is not None
        return math.isfinite(value) and self.low <= value <= self.high


NODE_PARAMETERS: tuple[Spec, ...] = (
    Spec('model', 'string', 'demo',
         "Folder or name of a supported vision-language model; 'demo' is the one in this package, "
         'which knows only the demo world.', fixed=True, pattern=('.+', 'a name or a folder')),
    Spec('device', 'string', 'auto', "Where the model runs: 'auto' is the first GPU, or the CPU.",
         fixed=True, pattern=('auto|cpu|mps|cuda(:[0-9]+)?', 'auto, cpu, mps, cuda or cuda:N')),
    Spec('dtype', 'string', 'auto',
         "Number format of the model; 'auto' is float32 on a CPU, else the model's own.",
         choices=('auto', 'float32', 'float16', 'bfloat16'), fixed=True),
    Spec('quantization', 'string', '', 'Load the weights in fewer bits; empty: as they are.',
         choices=('', 'int8', 'int4'), fixed=True),
    Spec('budget_mib', 'double', 3.0,
         'Everything the memory may hold, in MiB; the weights of the model come on top. Can be '
         'lowered while running, and raised again up to what it was at configuration.',
         low=0.01, high=1_000_000.0),
    Spec('policy', 'string', 'infinipot_v',
         'Which tokens stay when the memory is compressed. package.module:name imports that '
         'module, which runs its code, and takes the policy that it registers under the name.',
         fixed=True, pattern=(r'([A-Za-z_]\w*(\.[A-Za-z_]\w*)*:)?\w+',
                              'the name of a policy, such as infinipot_v, or '
                              'package.module:name')),
    Spec('calibration', 'string', '',
         "File of 'infinipot calibrate' with the thresholds of VaN for this model; empty: "
         "infinipot_calibration.json in the model's folder, if there is one; 'none': no file.",
         fixed=True),
    Spec('alpha', 'double', 0.5, 'Share of the kept tokens that TaR chooses; VaN gets the rest.',
         low=0.0, high=1.0, fixed=True),
    Spec('recent_ratio', 'double', 0.125, 'Share of a full memory that stays whole, the newest.',
         low=0.0, high=0.5, fixed=True),
    Spec('keep_ratio', 'double', 0.75, 'What a compression leaves of a full memory.',
         low=0.1, high=0.95, fixed=True),
    Spec('instant_frames', 'int', 4, 'Newest frames that a question sees whole; 0 turns it off.',
         low=0, high=64, fixed=True),
    Spec('max_memory_tokens', 'int', 0, 'Cap on the tokens kept; 0 is what the model can read.',
         low=0, high=10_000_000, fixed=True),
    Spec('cameras', 'string[]', ('camera',), 'Names of the cameras; each has parameters below.',
         fixed=True),
    Spec('sample_fps', 'double', 1.0,
         'Frames a second, by their stamps, that go into the memory of each camera.',
         low=0.01, high=60.0),
    Spec('frame_width', 'int', 0, 'Width in px that frames are resized to; 0: up to the model.',
         low=0, high=8192, fixed=True),
    Spec('frame_height', 'int', 0, 'Height in px that frames are resized to; 0: up to the model.',
         low=0, high=8192, fixed=True),
    Spec('frame_queue', 'int', 8,
         'Frames that wait while the model is busy; the oldest are dropped, and counted.',
         low=1, high=1000),
    Spec('max_image_pixels', 'int', 2**26, 'Larger images are refused before they are unpacked.',
         low=64, high=2**31 - 1),
    Spec('depth_range_m', 'double', 0.0,
         'Show depth images (16UC1, 32FC1) as grey up to this range; 0 refuses them.',
         low=0.0, high=1000.0),
    Spec('pose_topic', 'string', '',
         'Odometry, PoseStamped or PoseWithCovarianceStamped topic that says where the robot was; '
         'empty: frames have no pose.', fixed=True),
    Spec('describe.period_s', 'double', 0.0, 'Describe the scene this often; 0 does not.',
         low=0.0, high=86_400.0),
    Spec('describe.novelty', 'double', 0.0,
         'Describe the scene when a frame differs this much from the one before (0 to 2); '
         '0 does not.', low=0.0, high=2.0),
    Spec('describe.prompt', 'string', '', 'What to ask for a description; empty: a fixed prompt.'),
    Spec('qa.queue', 'int', 4, 'Questions that may wait; one more gets BUSY at once.',
         low=0, high=64),
    Spec('qa.max_new_tokens', 'int', 64, 'Longest answer, and most that a question may ask for.',
         low=1, high=32_768, fixed=True),
    Spec('qa.timeout_s', 'double', 30.0, 'When to give up on a question that names no time.',
         low=0.1, high=3600.0),
    Spec('qa.max_question_tokens', 'int', 256,
         'Room for a question and the dialogue before it, which comes out of the budget.',
         low=1, high=32_768, fixed=True),
    Spec('qa.max_question_chars', 'int', 2000, 'Longer questions are refused.',
         low=1, high=1_000_000),
    Spec('qa.evidence', 'int', 5, 'Frames named as evidence in an answer.',
         low=0, high=1000, fixed=True),
    Spec('checkpoint.directory', 'string', '',
         'Folder that ~/save_memory and ~/load_memory may use; empty turns them off.',
         pattern=(r'([/~].*)?', 'a path from / or ~ on, since what another is relative to depends '
                                'on who starts the node')),
    Spec('checkpoint.period_s', 'double', 0.0, 'Save the memory this often; 0 does not.',
         low=0.0, high=86_400.0),
    Spec('checkpoint.restore', 'bool', False,
         "Load the node's own checkpoint when configuring, and save it when cleaning up."),
    Spec('autostart', 'bool', True,
         'Configure and activate without being told; false leaves it to a lifecycle manager.'),
    Spec('on_time_jump', 'string', 'continue',
         "What to do when stamps jump back (a bag that loops): go on, or 'clear' the memory.",
         choices=('continue', 'clear')),
)

CAMERA_PARAMETERS: tuple[Spec, ...] = (
    Spec('topic', 'string', '',
         "Image topic, without /compressed; empty: 'image' for a single camera, else "
         "'<name>/image'.", fixed=True),
    Spec('transport', 'string', 'raw', "'compressed' subscribes to <topic>/compressed.",
         choices=('raw', 'compressed'), fixed=True),
    Spec('share', 'double', 1.0, 'Share of the tokens, relative to the other cameras.',
         low=0.001, high=1000.0, fixed=True),
)


def camera_parameters(names: Sequence[str]) -> Iterator[Spec]:
    """Yield the parameters of every camera, '<name>.topic' and so on."""
    for name in names:
        for spec in CAMERA_PARAMETERS:
            yield replace(spec, name=f'{name}.{spec.name}')


def image_topic(name: str, topic: str, cameras: Sequence[str]) -> str:
    """Return the topic of a camera, or what an empty one stands for."""
    return topic or ('image' if len(cameras) == 1 else f'{name}/image')


def contradiction(values: Mapping[str, Any]) -> str:
    """Say which values, each allowed, do not go together; '' if all do."""
    if bool(values['frame_width']) != bool(values['frame_height']):
        return (f"frame_width is {values['frame_width']} and frame_height is "
                f"{values['frame_height']}; give both, or 0 for both")
    if values['recent_ratio'] >= values['keep_ratio']:
        return (f"recent_ratio is {values['recent_ratio']:g} and keep_ratio "
                f"{values['keep_ratio']:g}; the recent frames have to fit in what is kept")
    taken = {spec.name.split('.')[0] for spec in NODE_PARAMETERS if '.' in spec.name}
    clash = sorted(taken & set(values['cameras']))
    if clash:
        return f'cameras has {clash[0]!r}, which other parameters begin with; choose another name'
    if (values['checkpoint.period_s'] or values['checkpoint.restore']) \
            and not values['checkpoint.directory']:
        return ('checkpoint.period_s and checkpoint.restore need checkpoint.directory, '
                'the folder to save to')
    return ''


def in_parameters(text: str) -> str:
    """Return a text of the engine with the names that a user of the node can set."""
    return _OTHER_NAME.sub(lambda found: OTHER_NAMES[found[0]], text)


def markdown() -> str:
    """Write the table as docs/parameters.md."""
    lines = [
        '# Parameters of the node `infinipot`', '',
        'Made by `python -m infinipot_ros.node.parameter_table > docs/parameters.md`.', '',
        'A parameter marked *fixed* is read-only while a model is loaded, that is until',
        '`ros2 lifecycle set /infinipot cleanup`. The others apply at once.', '',
        '| name | type | default | allowed | what |', '|---|---|---|---|---|']
    for spec in NODE_PARAMETERS:
        lines.append(_row(spec))
    lines += ['', 'For every name in `cameras`:', '',
              '| name | type | default | allowed | what |', '|---|---|---|---|---|']
    for spec in CAMERA_PARAMETERS:
        lines.append(_row(replace(spec, name=f'<name>.{spec.name}')))
    return '\n'.join(lines) + '\n'


def _row(spec: Spec) -> str:
    default = {'bool': str(spec.default).lower(), 'string': f"'{spec.default}'"}.get(
        spec.kind, str(spec.default))
    if isinstance(spec.default, tuple):
        default = f"[{', '.join(spec.default)}]"
    fixed = ' *Fixed.*' if spec.fixed else ''
    return (f'| `{spec.name}` | {spec.kind} | `{default}` | {spec.allowed()} | '
            f'{spec.text}{fixed} |')


if __name__ == '__main__':
    print(markdown(), end='')
