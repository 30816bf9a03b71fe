"""`sample-profiler capture`: what it asks a run for, what it makes of the answers, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest

from sample_profiler.cli.capture import capture as capture_module
from sample_profiler.cli.capture import live as live_capture
from sample_profiler.cli.capture.live import CaptureRequest
from sample_profiler.cli.main import main
from sample_profiler.errors import CaptureError
from sample_profiler.profiling.session.session import Session
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands import control_socket
from sample_profiler.runtime.commands.control_socket import ControlSocket

NAMES = ("Learner_0", "RolloutWorker_w0")
NAME = "cprofile_20260131_120000_0"


class FakeRun:
    """A run that answers over its socket as it was told to, from another thread."""

    def __init__(self, folder):
        self.folder = RunFolder(folder)
        self.name = NAME
        self.requests = []
        self.states = ["start", "run", "done"]
        self.results = {name: self.facts(name) for name in NAMES}
        self.errors = {}
        self.refusal = None
        self.on_state = lambda number: None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def part(self, name):
        return self.folder.captures / NAME / f"{name}.pstats"

    def facts(self, name, is_empty=False):
        return {"path": str(self.part(name)), "start_ns": 10**9, "end_ns": 3_500_000_000, "is_empty": is_empty}

    def write_parts(self, *names):
        for name in names:
            self.part(name).parent.mkdir(parents=True, exist_ok=True)
            self.part(name).write_text(f"part of {name}")

    def answer(self, request):
        self.requests.append(request)
        if self.refusal:
            raise CaptureError(self.refusal)
        if request["do"] == "capture":
            return {"id": self.name, "parts": {name: str(self.part(name)) for name in NAMES}}
        if request["do"] == "stop":
            self.states = ["done"]
        self.on_state(len(self.requests))
        step = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if step == "done":
            self.write_parts(*self.results)
        return {"step": step, "results": self.results if step == "done" else {}, "errors": self.errors}

    def start(self):
        self._socket = ControlSocket(self.folder.control_socket, lambda request: self.answer(request))
        self._thread.start()

    def _serve(self):
        while not self._is_over.is_set():
            self._socket.poll()
            time.sleep(0.002)
        self._socket.close()

    def end(self):
        self._is_over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()


@pytest.fixture(autouse=True)
def merged(monkeypatch):
    """What was merged; the documents of tests are the names of their parts."""
    merged = []

    def merge(tool, parts, facts, output, run_dir):
        merged.append((tool, dict(parts), output, run_dir))
        output.write_text(" ".join(parts))
        return []

    monkeypatch.setattr(capture_module, "merge_parts", merge)
    monkeypatch.setattr(live_capture, "_POLL_S", 0.005)
    return merged


@pytest.fixture
def run(tmp_path):
    run = FakeRun(tmp_path)
    run.start()
    yield run
    run.end()


def request_of(**changes):
    return CaptureRequest(**({"tool": "cprofile", "components": None, "workers": None, "seconds": 2.0} | changes))


def capture(run_dir, request, output=None):
    """Return the exit status of the command."""
    flags = [f"--tool={request.tool}", f"--seconds={request.seconds}"]
    flags += [f"--components={','.join(request.components)}"] if request.components else []
    flags += [f"--workers={','.join(map(str, request.workers))}"] if request.workers else []
    return main(["capture", str(run_dir), *flags, *([f"--output={output}"] if output else [])])


def test_a_capture_becomes_a_document_and_the_text_says_what_is_in_it(tmp_path, run, merged, capsys):
    assert capture(tmp_path, request_of()) == 0
    document = tmp_path / "profile" / "captures" / f"{NAME}.pstats"
    assert merged == [("cprofile", {name: run.part(name) for name in NAMES}, document, tmp_path)]
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"{document} (0.0 MiB)",
        "  Learner_0         2.5 s",
        "  RolloutWorker_w0  2.5 s",
        f"Open it with: python -m pstats {document}  (or snakeviz)",
    ]
    assert captured.err == "Capturing with cprofile for 2 s\n"


def test_the_run_is_asked_for_what_the_user_wishes(tmp_path, run):
    capture(tmp_path, request_of(tool="yappi", components=["rollout", "Mine"], workers=[0, 1], seconds=0.5))
    assert run.requests[0] == {
        **{"do": "capture", "tool": "yappi", "seconds": 0.5},
        **{"components": ["rollout", "Mine"], "workers": [0, 1]},
    }
    assert run.requests[1:] == [{"do": "state", "id": NAME}] * 3


def test_the_document_goes_where_the_user_wants_it(tmp_path, run):
    output = tmp_path / "new" / "folder" / "document.pstats"
    assert capture(tmp_path, request_of(), output) == 0
    assert output.read_text() == "Learner_0 RolloutWorker_w0"


def test_components_without_a_part_are_told_and_the_others_are_kept(tmp_path, run, merged, capsys):
    run.results = {"RolloutWorker_w0": run.facts("RolloutWorker_w0", is_empty=True)}
    run.errors = {"Learner_0": "sample_profiler.errors.CaptureError: yappi is capturing in this process already: wait"}
    assert capture(tmp_path, request_of()) == 0
    assert list(merged[0][1]) == ["RolloutWorker_w0"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[1:3] == [
        "  RolloutWorker_w0  recorded nothing",
        "  Learner_0         not captured: yappi is capturing in this process already: wait",
    ]


def test_where_the_tool_is_missing_everywhere_one_sentence_says_so(tmp_path, run, merged, capsys):
    error = "sample_profiler.errors.CaptureError: yappi is not installed: pip install 'sample_profiler[profilers]'"
    run.results, run.errors = {}, dict.fromkeys(NAMES, error)
    assert capture(tmp_path, request_of(tool="yappi")) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == (
        "sample-profiler capture: nothing was captured: yappi is not installed: "
        "pip install 'sample_profiler[profilers]'"
    )
    assert merged == []


def test_where_nobody_has_a_part_each_process_says_why(tmp_path, run, merged, capsys):
    reasons = {name: f"{name} profiles itself" for name in NAMES}
    run.results = {}
    run.errors = {name: f"sample_profiler.errors.CaptureError: {reason}" for name, reason in reasons.items()}
    assert capture(tmp_path, request_of()) == 2
    *lines, last = capsys.readouterr().err.splitlines()
    assert last == f"sample-profiler capture: nothing was captured: {'; '.join(reasons.values())}"
    for name, reason in reasons.items():
        assert any(re.fullmatch(rf"  {name} +not captured: {reason}", line) for line in lines)


def test_what_the_run_refuses_is_told(tmp_path, run, capsys):
    run.refusal = "there is no rollout worker 7; allowed are 0, 1"
    assert capture(tmp_path, request_of(workers=[7])) == 2
    assert capsys.readouterr().err == "sample-profiler capture: there is no rollout worker 7; allowed are 0, 1\n"


def test_ctrl_c_ends_the_capture_early_and_keeps_what_there_is(tmp_path, run, capsys):
    run.states = ["run"]  # for ever

    def interrupt_once(number):
        if number == 4:
            os.kill(os.getpid(), signal.SIGINT)

    run.on_state = interrupt_once
    handler = signal.getsignal(signal.SIGINT)
    assert capture(tmp_path, request_of(seconds=1000)) == 0
    assert [request["do"] for request in run.requests].count("stop") == 1
    assert "Learner_0         2.5 s" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_leaves_without_the_document(tmp_path, run, capsys):
    run.states = ["run"]

    def interrupt_twice(number):
        if number == 4:
            os.kill(os.getpid(), signal.SIGINT)
        elif run.requests[-1]["do"] == "stop":  # the first one has been heard
            os.kill(os.getpid(), signal.SIGINT)
            run.end()

    run.on_state = interrupt_twice
    handler = signal.getsignal(signal.SIGINT)
    assert capture(tmp_path, request_of(seconds=1000)) == 2
    assert signal.getsignal(signal.SIGINT) is handler
    assert f"what its processes write is in {tmp_path / 'profile' / 'captures'}" in capsys.readouterr().err


def test_a_document_whose_name_is_too_long_is_one_error(tmp_path, run, capsys):
    assert capture(tmp_path, request_of(), output=tmp_path / ("a" * 300)) == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_document_cannot_be_a_folder(tmp_path, run, capsys):
    assert capture(tmp_path, request_of(), output=tmp_path) == 2
    assert "is a folder: name a file in it" in capsys.readouterr().err
    assert not run.requests


def test_of_a_run_that_ends_meanwhile_the_parts_that_were_written_are_kept(tmp_path, run, merged, capsys):
    run.states = ["run"]

    def end_the_run(number):
        if number == 3:
            run.write_parts("Learner_0")
            run.end()

    run.on_state = end_the_run
    assert capture(tmp_path, request_of()) == 0
    assert list(merged[0][1]) == ["Learner_0"]
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "  Learner_0         captured until the run ended",
        "  RolloutWorker_w0  not captured: the run ended, or hung, before it told of this part",
    ]


def test_of_a_run_that_ends_before_anything_is_written_nothing_is_left(tmp_path, run, capsys):
    run.states = ["run"]
    run.on_state = lambda number: run.end()
    assert capture(tmp_path, request_of()) == 2
    assert "nothing was captured: the run ended, or hung, before it told of this part\n" in capsys.readouterr().err


def test_a_folder_that_is_none(tmp_path, capsys):
    assert capture(tmp_path / "none", request_of()) == 2
    message = "is no folder; give the folder of a run, {train_dir}/{experiment}\n"
    assert capsys.readouterr().err == f"sample-profiler capture: {tmp_path / 'none'} {message}"


def test_a_folder_without_a_run(tmp_path, capsys):
    assert capture(tmp_path, request_of()) == 2
    assert "has nothing to read" in capsys.readouterr().err


def test_a_run_that_has_ended(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live_capture, "read_session", lambda *_, **__: Session(0.0))
    assert capture(tmp_path, request_of()) == 2
    message = "has ended: capture one that goes on, or start it again\n"
    assert capsys.readouterr().err == f"sample-profiler capture: the run in {tmp_path} {message}"


def test_a_script_that_records_but_has_no_socket(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live_capture, "read_session", lambda *_, **__: Session(0.0))
    monkeypatch.setattr(live_capture, "is_running", lambda session: True)
    assert capture(tmp_path, request_of()) == 2
    assert "a script of your own never does; --tool timeline works without" in capsys.readouterr().err


def test_the_run_of_another_user(tmp_path, capsys, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(live_capture, "ControlClient", refuse)
    assert capture(tmp_path, request_of()) == 2
    assert "belongs to another user, who alone can ask for captures\n" in capsys.readouterr().err


def test_another_user_who_listens_in_the_place_of_a_run(tmp_path, run, capsys, monkeypatch):
    monkeypatch.setattr(control_socket, "_peer_user", lambda connection: os.getuid() + 1)
    assert capture(tmp_path, request_of()) == 2
    assert "belongs to another user, who alone can ask for captures\n" in capsys.readouterr().err
    assert not run.requests


@pytest.mark.parametrize("name", ["../../victim", "{folder}/victim", "", "a\nb"])
def test_an_answer_whose_name_leads_elsewhere_replaces_nothing(tmp_path, run, capsys, name):
    victim = tmp_path / "victim.pstats"
    victim.write_text("mine")
    run.name = name.format(folder=tmp_path)
    assert capture(tmp_path, request_of()) == 2
    assert "is no answer of a run" in capsys.readouterr().err
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("is_linked", [False, True], ids=["a path", "a link"])
def test_a_part_outside_of_the_run_is_neither_read_nor_deleted(tmp_path, capsys, merged, is_linked):
    outside = tmp_path / "outside.pstats"
    outside.write_text("mine")
    run = FakeRun(tmp_path / "run")
    part = tmp_path / "run" / "profile" / "captures" / "link.pstats"
    part.parent.mkdir(parents=True)
    part.symlink_to(outside)
    run.part = lambda name: part if is_linked else part.parent / ".." / ".." / ".." / outside.name
    run.write_parts = lambda *names: None
    run.start()
    try:
        assert capture(tmp_path / "run", request_of()) == 2
    finally:
        run.end()
    assert "is no answer of a run" in capsys.readouterr().err
    assert outside.read_text() == "mine"
    assert merged == []


@pytest.mark.parametrize(
    "answer",
    [
        *([], 3, None, {}, {"id": NAME}, {"id": NAME, "parts": []}, {"id": [], "parts": {}}),
        *({"id": NAME, "parts": {"Learner_0": 1}}, {"id": NAME, "parts": {"Learner_0": "\0"}}),
        {"id": NAME, "parts": {}, "step": "done", "results": {"Learner_0": {}}, "errors": {}},
        *({"id": NAME, "parts": {}, "step": 1, "results": {}, "errors": {}}, {"id": NAME, "parts": {}}),
    ],
    ids=repr,
)
def test_an_answer_that_is_none_is_one_error(tmp_path, run, capsys, answer):
    run.answer = lambda request: answer
    assert capture(tmp_path, request_of()) == 2
    told = capsys.readouterr().err.splitlines()
    assert sum("is no answer of a run: does another program listen there?" in line for line in told) == 1
    assert told[-1].startswith("sample-profiler capture: ")


def test_what_is_missing_in_the_document_is_told(tmp_path, run, capsys, monkeypatch):
    def merge(tool, parts, facts, output, run_dir):
        output.write_text("")
        return ["Learner_0: blocks that ended before second 2.0 were overwritten"]

    monkeypatch.setattr(capture_module, "merge_parts", merge)
    assert capture(tmp_path, request_of()) == 0
    assert "  Learner_0: blocks that ended before second 2.0 were overwritten" in capsys.readouterr().out.splitlines()


def test_a_document_that_cannot_be_written(tmp_path, run, capsys):
    (tmp_path / "file").write_text("")
    assert capture(tmp_path, request_of(), tmp_path / "file" / "document") == 2
    assert "sample-profiler capture: cannot write the document: " in capsys.readouterr().err


def test_a_part_that_is_damaged(tmp_path, run, capsys, monkeypatch):
    def refuse(*_):
        raise ValueError("Learner_0.pstats is no profile of functions: EOF; capture again")

    monkeypatch.setattr(capture_module, "merge_parts", refuse)
    assert capture(tmp_path, request_of()) == 2
    message = "Learner_0.pstats is no profile of functions: EOF; capture again\n"
    assert capsys.readouterr().err.endswith(f"sample-profiler capture: {message}")


def test_a_timeline_of_a_folder_without_a_run(tmp_path, capsys):
    assert capture(tmp_path, request_of(tool="timeline")) == 2
    assert "sample-profiler capture: " in capsys.readouterr().err


def test_a_timeline_needs_no_socket(tmp_path, capsys, monkeypatch):
    asked = []

    def write(run_dir, request, output, interrupted, on_progress):
        asked.append((run_dir, request, output))
        document = run_dir / "timeline.json"
        document.write_text("{}")
        return document, ["12 blocks"]

    monkeypatch.setattr(capture_module, "write_timeline", write)
    request = request_of(tool="timeline")
    assert capture(tmp_path, request) == 0
    assert asked == [(tmp_path, request, None)]
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  12 blocks",
        "Open it in https://ui.perfetto.dev (Open trace file)",
    ]


def test_a_terminal_shows_a_bar(tmp_path, run, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert capture(tmp_path, request_of()) == 0
    captured = capsys.readouterr()
    assert "cprofile: " in captured.err
    assert "\033" not in captured.out
