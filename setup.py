# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Install the engine, the benchmarks and the `infinipot` command without ROS."""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

PACKAGE_XML = ElementTree.parse(Path(__file__).parent / 'package.xml')
DEMO_MODEL = 'infinipot_ros.resource.demo_model'

setup(
    name='infinipot_ros',
    version=PACKAGE_XML.findtext('version'),
    packages=[*find_packages(include=['infinipot_ros', 'infinipot_ros.*']), DEMO_MODEL],
    package_dir={DEMO_MODEL: 'resource/demo_model'},
    package_data={'infinipot_ros': ['py.typed'], DEMO_MODEL: ['*']},
)
