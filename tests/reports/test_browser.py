"""The page and the trace of a real run, opened in a real browser without a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from html import escape, unescape
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from harness.runs import DOOM, live_run
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.run_report.page import format_html
from sample_profiler.reports.run_report.report import make_report
from sample_profiler.reports.sections.history import read_history
from sample_profiler.reports.timeline.slow_trajectories import SLOWEST
from sample_profiler.run_folder import RunFolder
from sample_profiler.vocabulary import PREPARE_BATCH, REPORT_STATISTICS, SAVE_CHECKPOINT, TRAIN
from tests.reports.browser import needs_browser, open_page

pytestmark = [needs_browser, pytest.mark.whole_run]

URL = re.compile(r"""(?:https?:)?//[\w.-]+|url\(|@import""")
LOADING = {"script", "link", "iframe", "img", "object", "embed", "video", "audio", "source", "base"}

# What is saved is tried out first, statistics say how far the policy has moved.
WITH_A_NETWORK = {PREPARE_BATCH, TRAIN, REPORT_STATISTICS, SAVE_CHECKPOINT}

READER = """<!DOCTYPE html><meta charset="utf-8"><pre id="result"></pre>
<script type="application/json" id="trace">%s</script>
<script>
const events = JSON.parse(document.getElementById("trace").textContent).traceEvents;
const found = {processes: {}, tracks: {}, passes: {}, captured: {}, counters: {}, flows: {}, nested: true};
const captured = new Set(), stacks = {};
for (const event of events) {
  if (event.ph == "M" && event.name == "process_name") found.processes[event.pid] = event.args.name;
  if (event.ph == "M" && event.name == "thread_name") {
    found.tracks[event.pid + "/" + event.tid] = event.args.name;
    if (event.args.name.startsWith("captured")) captured.add(event.pid + "/" + event.tid);
  }
}
for (const event of events) {
  const track = event.pid + "/" + event.tid;
  if (event.ph == "C") (found.counters[event.name] ??= []).push([event.ts, event.args[event.name]]);
  if (event.cat == "flow") (found.flows[event.id] ??= []).push([event.ph, event.ts, event.pid]);
  if (event.ph != "X") continue;
  if (captured.has(track)) { (found.captured[event.pid] ??= []).push([event.name, event.ts, event.dur]); continue; }
  found.passes[event.pid] = (found.passes[event.pid] ?? 0) + 1;
  const stack = stacks[track] ??= [];
  while (stack.length && stack.at(-1) <= event.ts + 1e-4) stack.pop();
  if (stack.length && event.ts + event.dur > stack.at(-1) + 2e-3) found.nested = false;
  stack.push(event.ts + event.dur);
}
document.getElementById("result").textContent = JSON.stringify(found);
</script>
"""

MEASURING = """<pre id="result"></pre><script>
document.querySelector("iframe").onload = ({target}) => {
  const page = target.contentDocument;
  const parts = [page.documentElement, ...page.querySelectorAll(".wide")];
  document.getElementById("result").textContent = JSON.stringify(parts.map(p => [p.scrollWidth, p.clientWidth]));
};
</script>"""
RESULT = re.compile(r'<pre id="result">(.*?)</pre>', re.DOTALL)


class Page(HTMLParser):
    """Collects texts, tags and attributes of a document, and its tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.rows = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [value or "" for name, value in attributes if name not in ("title",)]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data):
        self.texts.append(data)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A short run of doom_benchmark, of which the Learner was captured with torch."""
    folder = tmp_path_factory.mktemp("browser")
    flags = ("--train_for_env_steps=1000000000", "--save_every_sec=1", "--experiment_summaries_interval=1")
    module, *doom = (flag.replace("doom_basic", "doom_benchmark") for flag in DOOM)
    with live_run(module, *doom, *flags, folder=folder) as live:
        live.wait_until_training()
        profiler = [sys.executable, "-m", "sample_profiler"]
        capture = ["capture", str(live.folder), "--tool", "torch", "--components", "learner", "--seconds", "1"]
        subprocess.run([*profiler, *capture], check=True, capture_output=True, timeout=90)
        live.process.terminate()
        live.wait(60)
        trace = ["trace", str(live.folder), "-o", str(folder / "trace.json")]
        printed = subprocess.run([*profiler, *trace], check=True, capture_output=True, text=True, timeout=60)
        assert "1 captured trace" in printed.stdout, printed
        assert printed.stderr.count("left out") == 0
        yield live.folder


def test_the_console_of_a_page_with_an_error_is_heard(tmp_path):
    """Without this the silence of the others would show nothing."""
    page = tmp_path / "page.html"
    page.write_text('<script>console.error("something")</script><img src="missing.png"><p>text')
    opened = open_page(page, tmp_path / "profile")
    assert "<p>text" in opened.dom
    assert any("something" in message for message in opened.messages)


def test_the_page_shows_the_figures_of_the_session_and_needs_no_network(run_dir, tmp_path):
    opened = open_page(run_dir / "report.html", tmp_path / "profile")
    assert opened.messages == []
    page = Page(opened.dom)
    assert not LOADING & set(page.tags)
    assert not [value for value in page.attributes if URL.search(value)]
    session = Session.load(RunFolder(run_dir).session)
    report = make_report(run_dir.name, session, Session.load(RunFolder(run_dir).steady))
    text = " ".join(" ".join(page.texts).split())
    for sentence in (report.verdict.headline, *report.verdict.evidence):
        assert " ".join(sentence.split()) in text
    assert f"{session.run['fps']:,.0f} frames/s" in text
    assert f"{sum(session.run['frames'].values()):,} frames" in text
    shown = {row[0]: row[1:5] for row in page.rows if len(row) == 6 and row[1].endswith(" s")}
    components = {name: record for record in session.processes for name in record.components}
    assert set(shown) == set(components)
    for account in report.accounts:
        wall, work, waits, unaccounted = shown[account.component]
        tree = components[account.component].trees[account.component]
        assert wall == f"{tree.statistics.total_ns / 1e9:,.1f} s"
        shares = [float(part.rstrip("%")) for part in (work, waits, unaccounted)]
        assert shares == pytest.approx(
            [100 * part / account.wall_s for part in (account.work_s, account.waits_s, account.unaccounted_s)],
            abs=0.5,
        )
        assert sum(shares) == pytest.approx(100, abs=1.2)
    charts = [name for name, points in read_history(session).items() if len(points) > 1]
    num_charts = sum(not name.endswith("_deviation") for name in charts)
    assert num_charts > 0
    assert page.tags.count("svg") == num_charts + len(report.memory)
    assert {"episode return, policy 0 ", "episode length, frames, policy 0 "} <= set(page.texts)


@pytest.mark.parametrize("width", [400, 1300])
def test_the_page_is_no_wider_than_the_window_and_its_tables_scroll(run_dir, tmp_path, width):
    session, steady = Session.load(RunFolder(run_dir).session), Session.load(RunFolder(run_dir).steady)
    session.run["reason"] = "long" * 100
    report = format_html(make_report(run_dir.name * 20, session, steady)).replace("<details>", "<details open>")
    page = tmp_path / "page.html"
    page.write_text(f'<iframe style="width:{width}px" srcdoc="{escape(report)}"></iframe>{MEASURING}')
    opened = open_page(page, tmp_path / "profile")
    (whole, visible), *tables = json.loads(RESULT.search(opened.dom)[1])
    assert whole == visible <= width
    assert len(tables) > 10
    assert any(inside > outside for inside, outside in tables) == (width == 400)


def test_the_trace_has_processes_tracks_flows_counters_and_captured_operators(run_dir, tmp_path):
    trace = (run_dir.parent / "trace.json").read_text()
    page = tmp_path / "trace.html"
    page.write_text(READER % trace.replace("</", "<\\/"))
    opened = open_page(page, tmp_path / "profile", "--virtual-time-budget=60000")
    assert opened.messages == []
    found = json.loads(unescape(RESULT.search(opened.dom)[1]))
    session = read_session(run_dir)
    components = {name: record for record in session.processes for name in record.components}
    processes = {name: pid for pid, name in found["processes"].items()}
    assert set(processes) - {SLOWEST} == {"Run", *components}
    assert {name.partition("/")[0] for name in found["tracks"]} >= {processes[name] for name in components}
    assert found["nested"]

    expected = Counter(
        record.paths[event.node][0]
        for record in session.processes
        for event in record.events
        if not event.is_flow_point and len(record.paths[event.node]) > 1
    )
    expected += Counter(block.component for record in session.processes for block in record.open_blocks)
    assert {name: found["passes"].get(pid, 0) for name, pid in processes.items() if name in expected} == expected

    assert found["flows"], "no arrows"
    for chain in found["flows"].values():
        assert chain[0][0] == "s" and chain[-1][0] == "f" and {phase for phase, *_ in chain[1:-1]} <= {"t"}
        assert [ts for _, ts, _ in chain] == sorted(ts for _, ts, _ in chain)
    assert any(len({pid for *_, pid in chain}) > 1 for chain in found["flows"].values())

    for name, points in read_history(session).items():
        shown = found["counters"][name][: len(points)]
        assert [value for _, value in shown] == [value for _, value in points]
        gaps = [[after[0] - before[0] for before, after in pairwise(p)] for p in (shown, points)]
        assert [gap / 1e6 for gap in gaps[0]] == pytest.approx(gaps[1], abs=1e-3)

    learner = processes["Learner_0"]
    assert set(found["captured"]) == {learner}
    operators = [event for event in found["captured"][learner] if event[0] == "aten::addmm"]
    assert operators
    assert_in_blocks_with_a_network(operators, json.loads(trace)["traceEvents"], int(learner))


def assert_in_blocks_with_a_network(operators, events, learner):
    """Check that captured operators lie in blocks that use the network: two clocks, a little apart at most."""
    passes = (event for event in events if event["ph"] == "X" and event["pid"] == learner)
    blocks = [(event["ts"], event["ts"] + event["dur"]) for event in passes if event["name"] in WITH_A_NETWORK]
    inside = [any(begin - 2000 <= ts and ts + dur <= end + 2000 for begin, end in blocks) for _, ts, dur in operators]
    assert sum(inside) >= 0.95 * len(inside)
