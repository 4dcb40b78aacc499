# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the package says of itself is true: version, dependencies, licences, contents."""

from __future__ import annotations

import ast
from pathlib import Path
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import infinipot_ros
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE_XML = ElementTree.parse(ROOT / 'package.xml').getroot()

# Where a module comes from: its key in package.xml, and its name in pyproject.toml (None: not on
# the road without ROS).
MODULES = {
    'ament_index_python': ('ament_index_python', None),
    'builtin_interfaces': ('builtin_interfaces', None),
    'cv2': ('python3-opencv', 'opencv-python-headless'),
    'cv_bridge': ('cv_bridge', None),
    'diagnostic_msgs': ('diagnostic_msgs', None),
    'geometry_msgs': ('geometry_msgs', None),
    'huggingface_hub': ('python3-transformers-pip', 'huggingface-hub'),
    'launch': ('launch', None),
    'launch_ros': ('launch_ros', None),
    'lifecycle_msgs': ('lifecycle_msgs', None),
    'nav_msgs': ('nav_msgs', None),
    'numpy': ('python3-numpy', 'numpy'),
    'PIL': ('python3-pil', 'pillow'),
    'rcl_interfaces': ('rcl_interfaces', None),
    'rclpy': ('rclpy', None),
    'safetensors': ('python3-transformers-pip', 'safetensors'),
    'sensor_msgs': ('sensor_msgs', None),
    'sensor_msgs_py': ('sensor_msgs_py', None),
    'std_msgs': ('std_msgs', None),
    'std_srvs': ('std_srvs', None),
    'tokenizers': ('python3-transformers-pip', 'transformers'),
    'torch': ('python3-torch', 'torch'),
    'transformers': ('python3-transformers-pip', 'transformers'),
    'yaml': ('python3-yaml', 'pyyaml'),
}
# Imported where they are there, done without where they are not.
OPTIONAL = {'bondpy', 'diagnostic_updater', 'matplotlib', 'psutil', 'rosbags', 'tf2_ros'}


def source_files() -> list[Path]:
    """Return every file of code in the repository."""
    modules = [path for folder in ('infinipot_ros', 'launch', 'test')
               for path in sorted((ROOT / folder).rglob('*.py'))]
    scripts = [path for path in sorted((ROOT / 'scripts').iterdir()) if path.is_file()]
    return [*modules, ROOT / 'setup.py', ROOT / 'CMakeLists.txt', *scripts]


def imported_modules(folder: Path) -> dict[str, Path]:
    """Return the first words of every import below a folder, each with a file that has it."""
    found: dict[str, Path] = {}
    for path in folder.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or '']
            else:
                continue
            for name in names:
                found.setdefault(name.split('.')[0], path)
    return found


def foreign_modules() -> dict[str, Path]:
    """Return the modules that the package and its launch files import from elsewhere."""
    found = imported_modules(ROOT / 'launch') | imported_modules(ROOT / 'infinipot_ros')
    own = {'infinipot_ros', *sys.stdlib_module_names, *OPTIONAL}
    return {name: path for name, path in found.items() if name not in own}


def declared_keys() -> set[str]:
    """Return what package.xml says the package runs on."""
    return {element.text or '' for tag in ('depend', 'exec_depend')
            for element in PACKAGE_XML.iter(tag)}


def project_requirements() -> dict[str, str]:
    """Return the requirements in pyproject.toml by name, with their ranges."""
    text = (ROOT / 'pyproject.toml').read_text(encoding='utf-8')
    listed = re.search(r'^dependencies = \[(.*?)^\]', text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    pairs = re.findall(r'"([a-z0-9-]+)([^"]*)"', listed[1])
    return dict(pairs)


def test_version_is_the_same_everywhere() -> None:
    version = PACKAGE_XML.findtext('version')
    assert version is not None
    assert infinipot_ros.__version__ == version
    changes = (ROOT / 'CHANGELOG.rst').read_text(encoding='utf-8')
    released = re.findall(r'^(\d+\.\d+\.\d+)(?: \(\d{4}-\d\d-\d\d\))?\n-+$', changes, re.MULTILINE)
    assert released[0] == version


def test_setup_py_reads_the_version_from_package_xml() -> None:
    pytest.importorskip('setuptools')
    shown = subprocess.run([sys.executable, 'setup.py', '--version'], cwd=ROOT,
                           capture_output=True, text=True, check=True)
    assert shown.stdout.split()[-1] == PACKAGE_XML.findtext('version')


def test_package_xml_is_valid() -> None:
    package = pytest.importorskip('catkin_pkg.package')
    warnings: list[str] = []
    parsed = package.parse_package(str(ROOT / 'package.xml'), warnings=warnings)
    assert warnings == []
    assert parsed.package_format == 3
    assert parsed.get_build_type() == 'ament_cmake'
    assert 'rosidl_interface_packages' in {group.name for group in parsed.member_of_groups}


def test_every_import_is_declared() -> None:
    keys, requirements = declared_keys(), project_requirements()
    for module, path in foreign_modules().items():
        assert module in MODULES, f'{path} imports {module}: name its dependency here'
        key, requirement = MODULES[module]
        assert key in keys, f'{path} imports {module}: package.xml lacks {key}'
        assert requirement is None or requirement in requirements, f'{path} imports {module}'


def test_nothing_is_declared_that_is_not_used() -> None:
    used = foreign_modules()
    keys = {MODULES[module][0] for module in used}
    # Needed by the generated code; imported by name only where they are there.
    assert declared_keys() - keys == {'rosidl_default_runtime', 'cv_bridge', 'sensor_msgs_py'}
    assert set(project_requirements()) == {MODULES[module][1] for module in used} - {None}


def test_importing_the_package_imports_nothing_else() -> None:
    # It is imported by every `ros2 service call` and `ros2 interface show`.
    program = ('import sys; before = set(sys.modules); import infinipot_ros; '
               'print(*{name.split(".")[0] for name in set(sys.modules) - before})')
    shown = subprocess.run([sys.executable, '-c', program], cwd=ROOT,
                           capture_output=True, text=True, check=True)
    new = set(shown.stdout.split())
    assert 'infinipot_ros' in new
    assert new - {'infinipot_ros'} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize('path', source_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_file_names_its_licence(path: Path) -> None:
    head = path.read_text(encoding='utf-8')[:300]
    assert '# SPDX-FileCopyrightText: 2026 The infinipot_ros authors\n' in head
    assert '# SPDX-License-Identifier: Apache-2.0\n' in head


def test_licence_is_there_and_named() -> None:
    assert 'Apache License' in (ROOT / 'LICENSE').read_text(encoding='utf-8')[:200]
    assert PACKAGE_XML.findtext('license') == 'Apache-2.0'


def pinned_requirements(name: str) -> dict[str, list[str]]:
    """Return the versions in a requirements file by package; fail on a line without a pin."""
    pins: dict[str, list[str]] = {}
    for line in (ROOT / 'requirements' / f'{name}.txt').read_text(encoding='utf-8').splitlines():
        if line and not line.startswith('#'):
            match = re.fullmatch(
                r"([a-z0-9-]+)==([\w.]+)(; python_version (?:<|>=) '3\.11')?", line)
            assert match is not None, f'{name}.txt: {line}'
            pins.setdefault(match[1], []).append(match[2])
    return pins


@pytest.mark.parametrize('name', ['jazzy', 'kilted', 'engine', 'dev'])
def test_every_requirement_is_pinned(name: str) -> None:
    assert len(pinned_requirements(name)) > 20


def test_pins_agree_between_files() -> None:
    for distro in ('jazzy', 'kilted'):
        together: dict[str, set[tuple[str, ...]]] = {}
        for name in (distro, 'engine', 'dev'):
            for package, versions in pinned_requirements(name).items():
                together.setdefault(package, set()).add(tuple(versions))
        assert {package for package, pins in together.items() if len(pins) > 1} == set()


def test_pins_lie_within_the_ranges_of_the_package() -> None:
    specifiers = pytest.importorskip('packaging.specifiers')
    pins = pinned_requirements('engine')
    for package, wanted in project_requirements().items():
        for version in pins[package]:
            assert version in specifiers.SpecifierSet(wanted), f'{package} {wanted}'


def nodes() -> list[str]:
    """Return the names that CMakeLists.txt makes commands for `ros2 run` of."""
    text = (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8')
    listed = re.search(r'foreach\(node ([^)]*)\)', text)
    assert listed is not None
    return listed[1].split()


@pytest.mark.parametrize('name', nodes())
def test_executable_has_a_main_with_default_arguments(name: str) -> None:
    tree = ast.parse((ROOT / 'infinipot_ros' / 'node' / f'{name}.py').read_text(encoding='utf-8'))
    mains = [node for node in tree.body
             if isinstance(node, ast.FunctionDef) and node.name == 'main']
    assert len(mains) == 1
    assert len(mains[0].args.defaults) == len(mains[0].args.args)


def test_every_message_is_generated() -> None:
    text = (ROOT / 'CMakeLists.txt').read_text(encoding='utf-8')
    files = {f'{path.parent.name}/{path.name}' for path in ROOT.glob('[ms][sr][gv]/*.*')}
    assert files == set(re.findall(r'(?:msg|srv)/\w+\.(?:msg|srv)', text))


def test_install_tree_holds_every_source_file() -> None:
    index = pytest.importorskip('ament_index_python.packages', reason='needs ROS 2')
    try:
        prefix = Path(index.get_package_prefix('infinipot_ros'))
    except (LookupError, OSError):
        pytest.skip('needs the package built: scripts/setup')
    (installed,) = prefix.glob('l*/python3*/*-packages/infinipot_ros')
    missing = [path for path in (ROOT / 'infinipot_ros').rglob('*.py')
               if not (installed / path.relative_to(ROOT / 'infinipot_ros')).exists()]
    assert missing == []
    share = prefix / 'share' / 'infinipot_ros'
    for folder in ('launch', 'config'):
        for path in (ROOT / folder).rglob('*.[py]*'):
            assert path.suffix == '.pyc' or (share / path.relative_to(ROOT)).exists(), path
    assert (share / 'resource' / 'demo_model' / 'config.json').exists()
    for name in nodes():
        assert (prefix / 'lib' / 'infinipot_ros' / name).stat().st_mode & 0o111


def test_the_command_is_on_the_path_of_whoever_sources_the_installation() -> None:
    index = pytest.importorskip('ament_index_python.packages', reason='needs ROS 2')
    try:
        prefix = Path(index.get_package_prefix('infinipot_ros'))
    except (LookupError, OSError):
        pytest.skip('needs the package built: scripts/setup')
    command = shutil.which('infinipot')
    assert command is not None and Path(command) == prefix / 'bin' / 'infinipot'
    said = subprocess.run([command, '--version'], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == infinipot_ros.__version__
