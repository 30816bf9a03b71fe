"""The table of accounts: its figures, and what it says of what it cannot see."""

from __future__ import annotations

import re

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.reports.sections.accounts import format_accounts
from sample_profiler.reports.sections.tables import format_duration, format_percent, format_table, shorten

S = 1_000_000_000


def make_account(component="Learner_0", **changes):
    values = {
        "component": component,
        "process": component,
        "pid": 7,
        "wall_ns": 200 * S,
        "work_ns": {"prepare": 20 * S, "train": 100 * S, "publish": 2 * S, "saving": S},
        "waits_ns": {"batcher": 75 * S},
        "unaccounted_ns": 2 * S,
        "run_delay_ns": 3 * S // 2,
        "is_parallel": False,
    }
    return ComponentAccount(**(values | changes))


def test_the_table_shows_work_waits_and_the_rest_of_each_component():
    lines = format_accounts([make_account(), make_account("Batcher_0", waits_ns={}, work_ns={})]).splitlines()
    assert lines[0].split("  ")[0] == "component"
    assert re.split("  +", lines[1]) == [
        *("Learner_0", "200.0 s", "62%", "train 50%, prepare 10%", "batcher 38%", "1.0%", "1.5 s"),
    ]
    assert "nobody" in lines[2]
    assert len(lines) == 3


def test_a_missing_run_delay_is_said_to_be_unknown():
    text = format_accounts([make_account(run_delay_ns=None)])
    assert " unknown\n" in text
    assert "run delay unknown:" in text
    assert "unknown" not in format_accounts([make_account(run_delay_ns=0)])


def test_parallel_components_are_marked_and_explained():
    text = format_accounts([make_account(is_parallel=True), make_account("B")])
    assert "Learner_0*" in text and "B*" not in text
    assert "* several threads or tasks at once" in text


def test_of_a_run_without_record_files_nothing_is_known():
    assert format_accounts([]) == "unknown: there are no record files of this run"


def test_numbers_are_for_people():
    assert [format_percent(share) for share in (0, 0.0004, 0.0994, 0.0996, 0.5, 1)] == [
        *("0%", "0.0%", "9.9%", "10%", "50%", "100%"),
    ]
    assert [format_duration(seconds) for seconds in (-1, 0.85, 12.34, 245.9, 7380)] == [
        *("0 ms", "850 ms", "12.3 s", "4 min 05 s", "2 h 03 min"),
    ]
    assert [shorten("abcdef", 6), shorten("abcdef", 4)] == ["abcdef", "…def"]
    assert format_table(["a", "bb"], [["ccc", "d"]], right={1}) == "a    bb\nccc   d"
