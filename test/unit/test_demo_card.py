# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The demo model's card has the table that a run prints for the same answers."""

import re

from infinipot_ros.demo.evaluate import table
from infinipot_ros.models.loading import demo_folder

SECTION = re.compile(r'<!-- clips: .*?(\| questions.*?)\n<!-- end of clips', re.DOTALL)


def test_the_card_is_what_a_run_prints() -> None:
    (found,) = SECTION.findall((demo_folder() / 'README.md').read_text())
    head, _, *rows = ([cell.strip() for cell in line.strip('|').split('|')]
                      for line in found.splitlines())
    tallies: dict[str, dict[str, tuple[int, int]]] = {
        name.split(',')[0]: {} for name in head[2:]}
    for row, asked, *cells in rows:
        for tally, cell in zip(tallies.values(), cells, strict=True):
            # One digit tells the right answers of no more than 1,245 questions apart.
            tally[row] = (round(float(cell.split()[0]) / 100 * int(asked)), int(asked))
    assert len(rows) > 20 and table(tallies) == found
