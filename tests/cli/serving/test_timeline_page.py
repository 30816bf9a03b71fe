"""Timelines opened by the page in a real browser: the same in each format, and read piece by piece."""

from __future__ import annotations

import gzip
import json
from urllib.parse import quote

import pytest

from sample_profiler.reports.timeline.timeline import Timeline
from sample_profiler.run_folder import RunFolder
from tests.cli.serving.browser_tab import opened_browser
from tests.cli.serving.conftest import TOKEN
from tests.cli.serving.made_runs import make_ended_run
from tests.reports.browser import needs_browser
from tests.reports.records import US, make_record

pytest.importorskip("websockets")
pytestmark = [needs_browser, pytest.mark.timeout(200)]

NUM_STEPS = 30_000  # several pieces of what a browser reads at once
ROWS = """JSON.stringify(timeline.rows.map(
  row => [row.process, row.thread, row.depth, row.begins.length, row.begins[1], row.ends.at(-1),
    timeline.names[row.names[0]]]
))"""


@pytest.fixture
def captures(train_dir):
    folder = RunFolder(make_ended_run(train_dir / "run"))
    folder.captures.mkdir()
    return folder.captures


@pytest.fixture
def tab(captures, client, tmp_path):
    (tmp_path / "browser").mkdir()
    with opened_browser(tmp_path / "browser") as tab:
        tab.look_like(1300)
        tab.client = client
        yield tab


def open_timeline(tab, name):
    tab.open(f"http://127.0.0.1:{tab.client.port}/timeline?token={TOKEN}&name=run&file={quote(name)}")
    tab.wait_for("!document.querySelector('#told').textContent.startsWith('loading')")
    return tab.value("document.querySelector('#told').textContent")


def make_timeline():
    steps = [(100 * US * step + 5, 100 * US * step + 90 * US, 1, 1, 0) for step in range(NUM_STEPS)]
    inner = [(begin + US, begin + 50 * US, 2, 1, 0) for begin, *_ in steps]
    others = [(begin + 50 * US, end + 50 * US, 1, 1, 0) for begin, end, *_ in steps[:2]]  # of another task
    return Timeline([make_record(events=steps + inner + others), make_record("RolloutWorker_w1", paths=(), events=[])])


def test_all_formats_show_the_same(tab, captures):
    told = {}
    for name in ("t.json", "t.json.gz", "t.pftrace", "t.pftrace.gz"):
        make_timeline().write(captures / name)
        words = open_timeline(tab, name)
        assert words == f"{2 * NUM_STEPS + 2:,} passes in 3.000 s"
        told[name] = json.loads(tab.value(ROWS))
        assert tab.value("document.querySelector('#loading').hidden && performance.now() > 0")
    rows = told["t.json"]
    assert [row[:4] for row in rows] == [
        ["RolloutWorker_w0", "MainThread", 0, NUM_STEPS],
        ["RolloutWorker_w0", "MainThread", 1, NUM_STEPS],
        ["RolloutWorker_w0", "MainThread (2)", 0, 2],
    ]
    assert rows[1][4:] == [101.0, pytest.approx(2_999_950), "physics"]
    for name, others in told.items():
        for row, other in zip(rows, others, strict=True):
            assert other[:4] + other[6:] == row[:4] + row[6:], name
            assert other[4:6] == pytest.approx(row[4:6], abs=1e-3), name
    assert tab.messages == []


def test_keys_and_clicks_look_closer(tab, captures):
    make_timeline().write(captures / "t.pftrace")
    open_timeline(tab, "t.pftrace")
    assert tab.value("(paint(), search(timeline.rows[0].ends, 95.5))") == 1
    for key in "wwwwaad":
        tab.ask("Input.dispatchKeyEvent", type="keyDown", key=key)
    tab.wait_for("to - from < 1.3e6 && from > timeline.first")
    tab.value("[from, to] = [0, 200]; draw()")
    tab.click("#picture")
    tab.value("new Promise(requestAnimationFrame)")
    place = tab.value("(() => { const r = canvas.getBoundingClientRect(); return [r.x + r.width / 4, r.y + 20]; })()")
    for kind in ("mousePressed", "mouseReleased"):
        tab.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
    tab.wait_for(
        "document.querySelector('#told').textContent.startsWith('env_step: 90.0 µs, 0.0 µs after the beginning')"
    )


def test_traces_of_others_are_shown_in_whatever_order_and_shape(tab, captures):
    events = [
        {
            "ph": "X",
            "name": 'inner "}]{\\',
            "pid": 1,
            "tid": "GPU 7",
            "ts": 5.0,
            "dur": 2,
            "args": {"a": [{"b": "]}"}]},
        },
        {"ph": "X", "name": "outer", "pid": 1, "tid": "GPU 7", "ts": 1.0, "dur": 9},
        {"ph": "X", "name": "next", "pid": 1, "tid": "GPU 7", "ts": 10.0, "dur": 1},
        {"ph": "i", "name": "mark", "pid": 1, "ts": 3.0},
    ]
    documents = [events, {"schemaVersion": 1, "traceEvents": events, "metadata": {"x": [1]}}]
    for number, document in enumerate(documents):
        for indent in (None, 2):
            (captures / "other.json").write_text(json.dumps(document, indent=indent))
            assert open_timeline(tab, "other.json") == "3 passes in 10.0 µs", (number, indent)
            rows = json.loads(tab.value(ROWS))
            assert [(row[2], row[3], row[6]) for row in rows] == [(0, 2, "outer"), (1, 1, 'inner "}]{\\')]


BROKEN = {
    "empty.json": b"",
    "text.json": b"x" * 1000,
    "cut.json": b'{"traceEvents":[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"},{"ph":',
    "noise.pftrace": bytes(range(7, 256)) * 100,
    "cut.pftrace": b"\x0a\x7f\x01",
    "cut.json.gz": gzip.compress(b'{"traceEvents":[]}' * 1000)[:40],
    "nothing.json": b'{"traceEvents":[]}',
    "nothing.pftrace": b"",
}


def test_what_is_no_timeline_is_told(tab, captures):
    for name, data in BROKEN.items():
        (captures / name).write_bytes(data)
        told = open_timeline(tab, name)
        assert told and "passes" not in told and "undefined" not in told, name
        assert tab.value("document.querySelector('#loading').hidden"), name
