# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The page is made of what is in the files, and of nothing else."""

from infinipot_ros.bench.compression import Cost
from infinipot_ros.bench.csv_files import write_about, write_rows
from infinipot_ros.bench.decoding import DecodingRow
from infinipot_ros.bench.document import make_document
from infinipot_ros.bench.document_retention import win_table
from infinipot_ros.bench.grading import PairRow
from infinipot_ros.bench.retention import AnswerRow, MemoryRow, StreamResult
from infinipot_ros.bench.retention_report import make_report, write_report
from infinipot_ros.bench.share import ShareRow
from infinipot_ros.bench.soak import SoakRow
from infinipot_ros.bench.speed import FrameRow, LengthRow
from infinipot_ros.cli import main


def results(methods):
    answers = [AnswerRow('still', seed, '128', method, 99, 'colour', 'seen', 30 + 40 * k, 'q',
                         'red', 'red', int(method == 'tar' or k == 1), 0, 1, 7.5)
               for seed in range(4) for method in methods for k in range(3)]
    memory = [MemoryRow('still', seed, '128', method, 100, 128, 120, 4096, 99999, 12, 3.0, 5.0,
                        0.5) for seed in range(4) for method in methods]
    return [StreamResult(answers, memory)]


def test_an_empty_folder_gives_the_head_alone(tmp_path):
    page = make_document(tmp_path)
    assert page.startswith('# Benchmarks')
    assert '## ' not in page


def test_tables_say_what_was_measured(tmp_path):
    report = make_report(results(('infinipot_v', 'infinipot_v_published', 'tar')))
    write_report(tmp_path / 'retention', report, ['infinipot', 'bench', 'retention'], 61.0)
    page = make_document(tmp_path)
    assert '`infinipot bench retention`, 61 s on ' in page
    assert '### `still`, 128 tokens, 100 frames, 4 streams' in page
    assert '| tar | 100 [100, 100] |' in page
    assert '| infinipot_v | 33 [33, 33] |' in page
    assert '| infinipot_v - infinipot_v_published | +0 [+0, +0] |' in page
    assert '**-67 [-67, -67]**' in page


def test_wins_are_bold_and_the_mirror_of_losses():
    pairs = [PairRow('still', '128', 'a', 'b', 'm', 12.0, 3.0, 20.0, 'wins'),
             PairRow('still', '128', 'a', 'c', 'm', 1.0, -3.0, 5.0, 'ties')]
    header, rows = win_table(pairs, 'm')
    assert header == ['', 'a', 'b', 'c']
    assert rows[0] == ['a', '', '**+12**', '+1']
    assert rows[1] == ['b', '**-12**', '', '']


def test_findings_come_before_the_tables(tmp_path):
    (tmp_path / 'findings.md').write_text('## What came out\n\nThis.\n')
    write_rows(tmp_path / 'soak' / 'soak.csv', [SoakRow(10, 5, 5, 5, 5, 5, 1.0)])
    write_about(tmp_path / 'soak' / 'about.json', ['infinipot', 'bench', 'soak'], 2.0)
    page = make_document(tmp_path)
    assert page.index('## What came out') < page.index('## Very many frames')
    assert 'flat' in page


def test_longer_streams_have_a_section_of_their_own(tmp_path):
    report = make_report(results(('tar', 'van')))
    write_report(tmp_path / 'long' / 'retention', report, ['infinipot', 'x'], 3.0)
    page = make_document(tmp_path)
    assert '## Longer streams' in page and '## What is remembered' not in page
    assert '| tar | 100 [100, 100] |' in page
    assert 'ms first token' in page


def test_speed_is_shown_for_every_configuration(tmp_path):
    for name in ('demo', 'qwen2_vl_0.5b'):
        folder = tmp_path / 'speed' / name
        write_rows(folder / 'lengths.csv', [LengthRow('memory', 5000, 2**20, 2**21, 5.5, 20, 99)])
        write_rows(folder / 'frame.csv', [FrameRow(name, 512, 3.0, 4.0, 0.5, 0.5, 8.0)])
        write_rows(folder / 'decoding.csv', [
            DecodingRow(name, 520, 15, 120.0, 100.0, 1.2, 1.1, 1.3)])
        write_about(folder / 'about.json', ['x'], 1.0, setup={
            'memory_tokens': 512, 'dtype': 'float32', 'threads': 1})
    page = make_document(tmp_path)
    assert '### `demo`, a memory of 512 tokens' in page
    assert 'compression 0.500 (6.25%)' in page
    assert 'generate() with a DynamicCache 100.0; neighbouring turns 1.20 of it [1.10' in page


def test_the_share_of_compression_is_shown_where_it_was_measured(tmp_path):
    folder = tmp_path / 'compression'
    write_rows(folder / 'compression.csv', [Cost('ours', 0.5, 2**20)])
    write_about(folder / 'about.json', ['x'], 1.0, layers=28, tokens=6076, budget=4508,
                shared_tokens=1.0)
    assert 'share' not in make_document(tmp_path).split('## One compression')[1]
    write_rows(folder / 'shares.csv', [
        ShareRow('demo', 'tar', 'float32', 344, 16, 60, 5.0, 10.0, 4.0, 1.0, 0.4, 'C')])
    assert '| 5.0 | 10.00 | 4.00 | 1.000 | 0.400 | C | 2.00% | 3.33% |' in make_document(tmp_path)


def test_the_command_writes_the_page_and_refuses_a_missing_folder(tmp_path, capsys):
    page = tmp_path / 'page.md'
    assert main(['bench', 'document', '--results', str(tmp_path), '--to', str(page)]) == 0
    assert page.read_text().startswith('# Benchmarks')
    assert main(['bench', 'document', '--results', str(tmp_path / 'no')]) == 2
    assert 'no folder' in capsys.readouterr().err
