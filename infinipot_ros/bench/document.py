# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md, section by section, from the files that benchmarks wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infinipot_ros.bench.ablation import ABLATIONS
from infinipot_ros.bench.compression import Cost
from infinipot_ros.bench.csv_files import about_text, read_about, read_rows
from infinipot_ros.bench.decoding import decoding_text, DecodingRow
from infinipot_ros.bench.document_retention import retention_section, retention_tables
from infinipot_ros.bench.retention_report import cost_table, read_report
from infinipot_ros.bench.scores import KeptRow, ScoreRow
from infinipot_ros.bench.scores_command import kept_table, score_table
from infinipot_ros.bench.share import share_table, ShareRow
from infinipot_ros.bench.soak import SoakRow
from infinipot_ros.bench.soak_command import soak_table, soak_text
from infinipot_ros.bench.speed import FrameRow, length_table, LengthRow
from infinipot_ros.bench.speed_command import split_text
from infinipot_ros.bench.tables import markdown_table

HEAD = """# Benchmarks

<!-- Written by `infinipot bench document` from the files in docs/benchmarks. Do not edit. -->

Every number here comes from one of the commands named with it, run on the machine named with it.
Answers are graded by exact match against the truth of the demo world. The model is the embedded
demo model unless something else is said: **what it shows about policies holds for this model and
this world**; the papers measured the same policies on models of 7 billion parameters and found VaN
strong there.
"""
_LONG = ('colour, past', 'shape, past', 'did: yes, past', 'did: no', 'did: no, recombined',
         'see now', 'evidence, past')


def make_document(folder: Path) -> str:
    """Return the page for all results in a folder; what was not run is left out."""
    parts = [HEAD]
    findings = folder / 'findings.md'
    if findings.is_file():
        parts.append(findings.read_text(encoding='utf-8').strip())
    sections: Sequence[tuple[str, Callable[[Path], str]]] = (
        ('retention', retention_section), ('long/retention', _long_streams), ('scores', _scores),
        ('ablation', _ablations), ('speed', _speeds), ('compression', _compression),
        ('soak', _soak))
    parts += [section(folder / name) for name, section in sections if (folder / name).is_dir()]
    return '\n\n'.join(part.strip() for part in parts) + '\n'


def _long_streams(folder: Path) -> str:
    report = read_report(folder)
    return '\n\n'.join([
        '## Longer streams', about_text(report.about),
        *retention_tables(report, _LONG), markdown_table(*cost_table(report.costs))])


def _scores(folder: Path) -> str:
    return '\n\n'.join([
        '## Do the scores tell things from background?', about_text(_about(folder)),
        'Area under the ROC curve of each score, things that can be asked about against '
        'background, over past tokens that no compression has judged yet: 0.5 is chance, below it '
        'a score prefers walls. The cosines are those of past keys with the keys of the recent '
        'frames at the same patch, and at a wrong one: where the two hardly differ, wrong '
        'coordinates do no harm.',
        markdown_table(*score_table(read_rows(folder / 'scores.csv', ScoreRow))),
        'What each policy holds at the end of a stream, in percent of its tokens, and the percent '
        'of (thing, layer, head) in which something of the thing is left:',
        markdown_table(*kept_table(read_rows(folder / 'kept.csv', KeptRow)))])


def _ablations(folder: Path) -> str:
    parts = ["## The papers' ablations"]
    for name, ablation in ABLATIONS.items():
        if (folder / name).is_dir():
            report = read_report(folder / name)
            parts += [f'### `{name}`: {ablation.summary}', about_text(report.about),
                      *retention_tables(report, ablation.metrics)]
    return '\n\n'.join(parts)


def _speeds(folder: Path) -> str:
    parts = ['## Speed and peak memory',
             'A memory of fixed size beside the stock model with a `DynamicCache` that keeps '
             'every token, in one run, each in a process of its own. Frames are random '
             'embeddings. The growing cache is filled with random keys and values up to the last '
             'frames before each length, which are computed. Peak memory is what was taken '
             'beyond the weights.']
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        about = _about(place)
        setup = about['setup']
        parts += [
            f"### `{place.name}`, a memory of {setup['memory_tokens']} tokens, {setup['dtype']}, "
            f"{setup['threads']} thread(s)", about_text(about),
            markdown_table(*length_table(read_rows(place / 'lengths.csv', LengthRow))),
            _sentence(split_text(read_rows(place / 'frame.csv', FrameRow)[0])),
            _sentence(decoding_text(read_rows(place / 'decoding.csv', DecodingRow)[0]))]
    return '\n\n'.join(parts)


def _compression(folder: Path) -> str:
    about = _about(folder)
    costs = read_rows(folder / 'compression.csv', Cost)
    rows = [[cost.way, f'{cost.seconds * 1e3:.1f}', f'{cost.peak_bytes / 2**20:.1f}']
            for cost in costs]
    shares = folder / 'shares.csv'
    parts = [
        '## One compression', about_text(about),
        f"{about['layers']} layers, 4 KV heads, head size 128, {about['tokens']} to "
        f"{about['budget']} tokens; {about['shared_tokens']:.2%} of the tokens kept are the same.",
        markdown_table(['way', 'ms', 'MiB peak beyond the cache'], rows)]
    if shares.is_file():
        parts += [
            'Its share of the time of all frames from one compression to the next. They pass the '
            'vision encoder, and are of a drive, of 448 px as the simulated camera has them; in '
            '`demo_noise` and `qwen2_vl_0.5b` they are noise of the size that the model reads. '
            'Moving what is kept, and counting it, would be left if choosing cost nothing. '
            'The target is 0.5 %, for `demo` and `qwen2_vl_0.5b`; the others show what the share '
            'depends on.',
            markdown_table(*share_table(read_rows(shares, ShareRow)))]
    return '\n\n'.join(parts)


def _soak(folder: Path) -> str:
    rows = read_rows(folder / 'soak.csv', SoakRow)
    return '\n\n'.join([
        '## Very many frames', about_text(_about(folder)),
        markdown_table(*soak_table(rows)), _sentence(soak_text(rows))])


def _sentence(text: str) -> str:
    return f'{text[0].upper()}{text[1:]}.'


def _about(folder: Path) -> Mapping[str, Any]:
    return read_about(folder / 'about.json')
