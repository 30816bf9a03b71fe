"""Reports of runs: as a page, a text and data, of runs that have ended, were killed, or are none."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from sample_profiler.cli.main import main
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.profiling.session.session import Session, read_live
from sample_profiler.profiling.tree.statistics import DeviceStatistics
from sample_profiler.run_folder import RunFolder

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "mine"
    live = folder / "profile" / "live"
    live.mkdir(parents=True)
    config = {"flags": {"env": {"value": EVIL}, "encoder_mlp_layers": {"value": [512, 512]}}}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("Learner_0", "RolloutWorker_w0", "Runner"):
        timing = Timing(f"{name} profile")
        file = RecordFile(live / f"{name}.1.rec", process_name=name, ring_bytes=0)
        file.attach(timing, name)
        for _ in range(3):
            with timing.add_time("main_loop"), timing.add_time("train" if name == "Learner_0" else EVIL):
                pass
        file.close()
    session = read_live(folder, with_events=False)
    session.run.update(history={"fps": [[1.0, 10.0], [2.0, 30.0]]}, fps=20.0, frames={"0": 640}, reason="it was over")
    session.save(RunFolder(folder).session)
    return folder


class Page(HTMLParser):
    """Collects what a page has, and checks that elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text, self.urls = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.urls += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def test_a_page_needs_nothing_else_and_runs_nothing(run_dir, capsys):
    assert main(["report", str(run_dir)]) == 0
    assert capsys.readouterr().out.strip() == str(run_dir / "report.html")
    page = Page((run_dir / "report.html").read_text())
    assert not page.open
    assert page.urls == []
    assert "script" not in page.tags
    text = " ".join(page.text)
    assert EVIL in text, "shown as text"
    for part in ("Verdict", "Where the time went", "Over time", "Learner_0", "640 frames", "it was over", "512 512"):
        assert part in text, part


def test_the_figures_of_page_text_and_data_are_those_of_the_session(run_dir, capsys):
    session = read_live(run_dir, with_events=False)
    train = next(r for r in session.processes if r.name == "Learner_0").trees["Learner_0"].children["main_loop"]
    assert main(["report", str(run_dir), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    block = data["trees"]["Learner_0"]["children"][0]["children"][0]
    assert block["key"] == "train"
    assert block["count"] == 3
    assert block["total_s"] == train.children["train"].statistics.total_ns / 1e9
    for account in data["accounts"]:
        parts = sum(account["work_s"].values()) + sum(account["waits_s"].values()) + account["unaccounted_s"]
        assert parts == pytest.approx(account["wall_s"])
    assert data["history"] == {"fps": [[1.0, 10.0], [2.0, 30.0]]}
    assert main(["report", str(run_dir), "--format", "text"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"Learner_0 +0\.0 s", text)
    assert "Learner_0 profile tree view" in text


def test_text_and_data_have_the_sections_of_the_page(run_dir, capsys):
    assert main(["report", str(run_dir), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (worker,) = data["workers"]
    assert worker["worker"] == "RolloutWorker_w0"
    assert worker.keys() >= {"busy", "waits_for_inference", "waits_for_learner", "step_s", "to_others", "slowest_env"}
    assert main(["report", str(run_dir), "--format", "text"]) == 0
    text = capsys.readouterr().out
    assert "640 frames · 20 frames/s" in text
    assert re.search(r"^Over time\nfigure +lowest +median +highest +last\nframes/s +10 +20 +30 +30$", text, re.M)
    assert re.search(r"^Workers side by side\nworker +busy .*\nRolloutWorker_w0 ", text, re.M)
    assert re.search(r"^Slowest single passes\ncomponent +block +took\n\S+ +main_loop/", text, re.M)
    assert re.search(r"^Machine\nhost: .*\nsystem: .*\nprocessor: ", text, re.M)
    assert re.search(rf"^Flags\n--env={re.escape(EVIL)} --encoder_mlp_layers=512 512$", text, re.M)


def test_data_of_several_runs_is_one_list(run_dir, capsys):
    assert main(["report", str(run_dir), str(run_dir), "--format", "json"]) == 0
    assert [document["run"] for document in json.loads(capsys.readouterr().out)] == ["mine", "mine"]


def test_device_times_are_shown_where_there_are_some(run_dir, capsys):
    session = Session.load(RunFolder(run_dir).session)
    trees = {name: tree for record in session.processes for name, tree in record.trees.items()}
    train = trees["Learner_0"].children["main_loop"].children["train"]
    train.device = DeviceStatistics(count=2, total_ns=1_250_000_000, num_unresolved=1)
    session.save(RunFolder(run_dir).session)
    assert main(["report", str(run_dir), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (loop,) = data["trees"]["Learner_0"]["children"]
    assert loop["children"][0]["device"] == {"total_s": 1.25, "count": 2, "unresolved": 1}
    assert "device" not in loop
    assert main(["report", str(run_dir)]) == 0
    text = " ".join(Page((run_dir / "report.html").read_text()).text)
    assert text.count("device, s") == 1, "a column of that component alone"
    assert "1.2500, 1 unresolved" in text


def test_a_run_that_was_killed_has_a_report_too(run_dir, capsys):
    RunFolder(run_dir).session.unlink()
    assert main(["report", str(run_dir)]) == 0
    assert "Learner_0" in (run_dir / "report.html").read_text()


def test_a_record_file_that_is_left_out_is_told(run_dir, capsys):
    RunFolder(run_dir).session.unlink()
    damaged = next((run_dir / "profile" / "live").glob("Runner*"))
    os.truncate(damaged, 100)
    for format_name in ("text", "json"):
        assert main(["report", str(run_dir), "--format", format_name]) == 0
        assert f"cannot be read: {damaged} is truncated" in capsys.readouterr().out
    assert main(["report", str(run_dir)]) == 0
    assert f"cannot be read: {damaged} is truncated" in (run_dir / "report.html").read_text()


def test_output_is_a_file_of_ones_own(run_dir, tmp_path, capsys):
    target = tmp_path / "there.json"
    assert main(["report", str(run_dir), "--format", "json", "--output", str(target)]) == 0
    assert json.loads(target.read_text())["run"] == "mine"
    assert not (run_dir / "report.html").exists()
    assert main(["report", str(run_dir), str(run_dir), "--output", str(target)]) == 2
    assert "is for one run; 2 are given" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["missing/report.html", ""])
def test_a_page_that_cannot_be_written_is_an_error_of_one_line(run_dir, tmp_path, output, capsys):
    assert main(["report", str(run_dir), "--output", str(tmp_path / output)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("format_name", ["html", "text", "json"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_where_nothing_can_be_printed_it_is_one_error(run_dir, format_name, unbuffered):
    command = [sys.executable, "-m", "sample_profiler", "report", str(run_dir), f"--format={format_name}"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    problem = "cannot write what there is to say: [Errno 28] No space left on device\n"
    assert (done.returncode, done.stderr) == (2, f"sample-profiler report: {problem}")


def test_who_reads_only_the_beginning_is_told_of_no_error(run_dir):
    command = [sys.executable, "-m", "sample_profiler", "report", *[str(run_dir)] * 40, "--format=text"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reporting:
        assert reporting.stdout.readline()
        reporting.stdout.close()
        assert (reporting.stderr.read(), reporting.wait(60)) == ("", 0)


def test_an_output_that_is_a_link_stays_one(run_dir, tmp_path):
    (tmp_path / "there").mkdir()
    page, link = tmp_path / "there" / "page.html", tmp_path / "link.html"
    page.touch()
    link.symlink_to(page)
    assert main(["report", str(run_dir), f"--output={link}"]) == 0
    assert link.is_symlink()
    assert "<html" in page.read_text()


def test_a_folder_that_is_no_runs_is_told(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("sample-profiler report: ")


@pytest.mark.parametrize("format_name", ["html", "text", "json"])
def test_names_that_are_no_text_are_escaped(run_dir, tmp_path, capsys, format_name):
    session = Session.load(RunFolder(run_dir).session)
    session.run["reason"] = "\ud800"
    session.save(RunFolder(run_dir).session)
    folder = run_dir.rename(os.fsdecode(os.fsencode(tmp_path) + b"/run\xff"))
    assert main(["report", str(folder), f"--format={format_name}"]) == 0
    page = (folder / "report.html").read_text() if format_name == "html" else capsys.readouterr().out
    assert "\\ud800" in page
    assert "\\udcff" in page


def test_data_of_deep_trees_is_as_deep_as_its_readers_go(tmp_path, capsys):
    folder = tmp_path / "mine"
    (folder / "profile" / "live").mkdir(parents=True)
    timing = Timing("Runner profile")
    file = RecordFile(folder / "profile" / "live" / "Runner.1.rec", process_name="Runner", ring_bytes=0, num_slots=512)
    file.attach(timing, "Runner")
    with contextlib.ExitStack() as blocks:
        for level in range(511):
            blocks.enter_context(timing.add_time(f"level {level}"))
    file.close()
    assert main(["report", str(folder), "--format=json"]) == 0
    node = json.loads(capsys.readouterr().out)["trees"]["Runner"]
    while node["children"]:
        (node,) = node["children"]
    assert node["key"] == "level 99"
    assert node["num_deeper_blocks"] == 411
    for format_name in ("html", "text"):
        assert main(["report", str(folder), f"--format={format_name}"]) == 0
