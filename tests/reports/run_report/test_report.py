"""What a report says of runs, by the part of them that it is about."""

from __future__ import annotations

import re

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import Session, read_live
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.run_report.charts import format_charts, format_compared_charts
from sample_profiler.reports.run_report.page import format_html
from sample_profiler.reports.run_report.report import make_report, report_to_dict
from sample_profiler.reports.run_report.text import format_text
from sample_profiler.run_folder import RunFolder
from tests.reports.records import make_record

MS = 1_000_000
S = 1000 * MS


@pytest.fixture
def session(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    for name in ("Runner", "Learner_0", "RolloutWorker_w0"):
        timing = Timing(f"{name} profile")
        file = RecordFile(RunFolder(tmp_path).live().record(name, 1), process_name=name, ring_bytes=0)
        file.attach(timing, name)
        with timing.add_time("start_up"):
            pass
        file.close()
    return read_live(tmp_path, with_events=False)


def test_a_run_that_was_over_before_it_was_steady_is_told_so_and_shows_its_workers(session):
    report = make_report("short", session, Session(0.0))
    assert report.verdict.headline.startswith("The run was over before it was steady: its start took ")
    assert "Workers side by side" in format_html(report)


def test_a_run_without_records_has_a_report_that_says_so():
    report = make_report("empty", Session(0.0), Session(0.0))
    assert report.verdict.headline == "No worker or no Learner has recorded anything"


def test_timers_and_what_there_was_no_room_for_are_in_the_report(tmp_path):
    RunFolder(tmp_path).live().path.mkdir(parents=True)
    file = RecordFile(RunFolder(tmp_path).live().record("main", 1), process_name="main", ring_bytes=0, num_slots=4)
    timing, timers = Timing("main"), Timing("Timers")
    file.attach(timing, "main")
    file.attach(timers, "timers")
    for recorder, key in ((timing, "train"), (timers, "render"), (timers, "too many")):
        with recorder.add_time(key):
            pass
        file.flush()
    file.close()
    report = make_report("mine", read_live(tmp_path, with_events=False), None)
    assert {name: [block.key for block in tree.children] for name, tree in report.trees.items()} == {
        "main": ["train"],
        "main timers": ["render"],
    }
    assert {(component, block) for component, block, _ in report.slowest} == {
        ("main", "train"),
        ("main timers", "render"),
    }
    (problem,) = report.problems
    assert problem.startswith("1 block is missing from the records of main")
    assert report_to_dict(report)["problems"] == [problem]
    for text in (format_html(report), format_text(report)):
        assert problem in text and "main timers" in text


def make_node(key, passes_ns, *children):
    node = TreeNode(key)
    node.statistics.add(passes_ns)
    node.children = {child.key: child for child in children}
    return node


def slowest_of(*blocks):
    """The slowest passes of a worker with these blocks in its loop."""
    loop = make_node("main_loop", [60 * S], *blocks)
    root = make_node("root", [61 * S], make_node("start_up", [S]), loop)
    session = Session(0.0, processes=[make_record(trees={"RolloutWorker_w0": root})])
    return [(path, seconds) for _, path, seconds in make_report("run", session, None).slowest]


def test_a_slow_step_is_among_the_slowest_passes_though_resets_are_inside():
    env_step = make_node("env_step", [2 * MS] * 999 + [400 * MS], make_node("env_reset", [30 * MS] * 5))
    waiting = make_node("wait_inference", [5 * S])
    assert slowest_of(env_step, waiting) == [
        ("main_loop/env_step", 0.4),
        ("main_loop/env_step/env_reset", 0.03),
    ]


def test_a_pass_that_others_inside_explain_is_not_among_the_slowest():
    updates = make_node("update", [20 * MS] * 40)
    train = make_node("train", [100 * MS] * 10, updates, make_node("wait_for_device", [25 * MS] * 10))
    step = make_node("env_step", [33 * MS] * 10, make_node("env_reset", [35 * MS] * 5))
    assert slowest_of(train, step) == [("main_loop/env_step/env_reset", 0.035), ("main_loop/train/update", 0.02)]


def test_a_chart_of_nothing_but_zeros_has_a_scale_that_can_be_read():
    page = format_charts({"policy_lag": [(0.0, 0.0), (1.0, 0.0)]})
    assert ">1</text>" in page and "e-09" not in page


def chart(page, name):
    """The picture and the caption of the chart of a figure."""
    (found,) = [figure for figure in page.split("<figure>")[1:] if f"<figcaption>{name} " in figure]
    return found


def corners(picture, shape):
    """The heights of the corners of a line or an area, by their places from left to right."""
    (points,) = re.findall(rf'<{shape} points="([^"]*)"', picture)
    return [tuple(map(float, point.split(","))) for point in points.split()]


def test_a_deviation_is_a_band_around_the_line_of_its_figure():
    returns, deviations = [(1.0, 10.0), (2.0, 20.0), (3.0, 40.0)], [(2.0, 10.0), (3.0, 20.0)]
    page = format_charts(
        {
            "fps": [(0.0, 5.0), (4.0, 5.0)],
            "episode_return_policy_0": returns,
            "episode_return_policy_0_deviation": deviations,
            "episode_return_policy_1": returns,
            "episode_length_policy_0_deviation": deviations,
        }
    )
    assert page.count("<svg") == 4, "the deviation of nothing has a chart of its own"
    picture = chart(page, "episode return, policy 0")
    line, band = corners(picture, "polyline"), corners(picture, "polygon")
    assert "band: standard deviation" in picture and ">60</text>" in picture
    assert [x for x, _ in band] == [line[1][0], line[2][0], line[2][0], line[1][0]]
    above, below = band[:2], band[:1:-1]
    assert [a[1] + b[1] for a, b in zip(above, below, strict=True)] == pytest.approx(
        [2 * y for _, y in line[1:]], abs=0.2
    )
    assert above[0][1] < line[1][1] < below[0][1]
    plain = chart(page, "episode return, policy 1")
    assert "band" not in plain and corners(plain, "polygon") == []
    assert "episode length, frames, policy 0: standard deviation" in page


def test_runs_are_compared_in_one_chart_for_each_figure_over_the_time_of_all():
    histories = {
        "<first>": {"fps": [(0.0, 5.0), (10.0, 10.0)], "only": [(0.0, 1.0), (1.0, 1.0)]},
        "second": {"fps": [(0.0, 5.0), (40.0, 20.0)], "fps_deviation": [(0.0, 1.0), (40.0, 1.0)], "lag": [(0.0, 1.0)]},
    }
    page = format_compared_charts(histories)
    assert page.count("<svg") == 2 and "<first>" not in page and "&lt;first&gt; <b>10</b>" in page
    lines = [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'<polyline points="([^"]*)"', chart(page, "frames/s"))
    ]
    (first, second), bottom = lines, 114
    width = second[1][0] - second[0][0]
    assert first[1][0] - first[0][0] == pytest.approx(width / 4, abs=0.2)
    assert bottom - first[1][1] == pytest.approx((bottom - second[1][1]) / 2, abs=0.2)
    colors = re.findall(r'<polyline [^>]* stroke="(#\w+)"', page)
    assert colors[0] != colors[1] and colors[2] == colors[0], "a run has one colour"
    assert format_compared_charts({}) == format_compared_charts({"first": {}}) == "<div class=charts></div>"


def test_all_charts_are_over_the_same_time():
    page = format_charts({"fps": [(10.0, 1.0), (20.0, 1.0)], "policy_lag": [(0.0, 1.0), (40.0, 1.0)]})
    (early, *_, late), (first, *_, last) = (corners(part, "polyline") for part in page.split("<figure>")[1:])
    width = last[0] - first[0]
    assert (early[0] - first[0], late[0] - first[0]) == pytest.approx((width / 4, width / 2), abs=0.2)


@pytest.mark.parametrize("large", [1e308, -1e308, 1.7e308])
def test_figures_as_large_as_numbers_get_have_charts(large):
    name = "episode_return_policy_0"
    page = format_charts({name: [(0.0, large), (1.0, -large)], f"{name}_deviation": [(0.0, 1e308), (1.0, 1e308)]})
    assert "nan" not in page and "inf" not in page


def test_episodes_come_before_what_is_known_of_the_machinery():
    names = ["policy_lag", "episode_return_policy_0", "mine", "episode_length_policy_0", "fps"]
    session = Session(0.0, run={"history": {name: [[1.0, 1.0]] for name in names}})
    assert [*make_report("run", session, None).history] == [names[1], names[3], names[4], names[0], names[2]]


def test_names_that_others_have_given_are_text_in_the_page():
    name = "<script>alert(1)</script>"
    points = [[1.0, 1.0], [2.0, 3.0]]
    record = make_record(name, trees={name: TreeNode()})
    page = format_html(make_report(name, Session(0.0, run={"history": {name: points}}, processes=[record]), None))
    assert name not in page
    for tag in ("h1", "figcaption", "b"):  # of the run, of a figure over time, of a component
        assert f"<{tag}>&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_every_table_of_the_page_scrolls_by_itself(session):
    page = format_html(make_report("short", session, Session(0.0)))
    assert page.count("<table>") == page.count("<div class=wide><table>") > 2
