"""Captures of a running run: who is asked, what becomes of the answers, and that nothing harms the run."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from sample_profiler.errors import CaptureError
from sample_profiler.profiling import Timing
from sample_profiler.run.commands import control as control_module
from sample_profiler.run.commands.control import Control
from sample_profiler.run.commands.sender import CommandSender
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.commands.commands import CommandResult
from sample_profiler.runtime.commands.control_socket import ControlClient

NAMES = (
    *("Runner", "Learner_0", "Batcher_0", "InferenceWorker_p0-w0"),
    *("RolloutWorker_w0", "RolloutWorker_w1", "RolloutWorker_w2"),
)


class Clock:
    """Time that goes on when a test says so."""

    def __init__(self):
        self.now_s = 100.0
        self.strftime = time.strftime

    def monotonic(self):
        return self.now_s


class Member:
    """A component in another process, which answers when a test lets it."""

    def __init__(self, name, pid):
        self.name = name
        self.pid = pid
        self.commands = []

    def send_command(self, command):
        self.commands.append(command)

    @property
    def methods(self):
        return [command.method for command in self.commands]


class Run:
    """A run with a control socket and components that are far away."""

    def __init__(self, folder, pids=None):
        self.members = [Member(name, 1000 + index if pids is None else pids) for index, name in enumerate(NAMES)]
        self.command_sender = CommandSender(self.members, lambda: None, lambda: "", Timing("Runner profile"))
        self.ends = []
        self.control = Control(folder, self.command_sender, self.ends.append)

    def __getitem__(self, name):
        return next(member for member in self.members if member.name == name)

    def begin(self, **changes):
        return self.control.answer({"do": "capture", "tool": "cprofile", "seconds": 5, **changes})

    def state(self, name):
        return self.control.answer({"do": "state", "id": name})

    def reply(self, name, error=None, value="facts"):
        """Let a component answer its latest command."""
        command = self[name].commands[-1]
        if command.method == "start_capture":
            value = None
        elif value == "facts":
            value = {"path": f"/{name}", "start_ns": 1, "end_ns": 2, "is_empty": False}
        self.command_sender.take(CommandResult(command.number, name, None if error else value, error))

    def reply_all(self):
        for member in self.members:
            if member.commands:
                self.reply(member.name)
        self.control.poll()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(control_module, "time", clock)
    return clock


@pytest.fixture
def run(tmp_path, clock):
    run = Run(tmp_path)
    yield run
    run.control.close()


def test_a_capture_begins_in_all_waits_and_ends_in_all(run, clock):
    name = run.begin()["id"]
    assert all(member.methods == ["start_capture"] for member in run.members)
    run.control.poll()
    assert run.state(name)["step"] == "start"
    run.reply_all()
    assert run.state(name)["step"] == "run"
    clock.now_s += 4.9
    run.control.poll()
    assert run.state(name)["step"] == "run"
    clock.now_s += 0.1
    run.control.poll()
    assert run.state(name)["step"] == "stop"
    assert all(member.methods == ["start_capture", "stop_capture"] for member in run.members)
    run.reply_all()
    state = run.state(name)
    assert state["step"] == "done"
    assert set(state["results"]) == set(NAMES)
    assert state["results"]["Learner_0"] == {"path": "/Learner_0", "start_ns": 1, "end_ns": 2, "is_empty": False}
    assert state["errors"] == {}


def test_every_process_writes_a_part_of_its_own_below_the_runs_folder(run, tmp_path):
    answer = run.begin(components=["rollout"])
    folder = tmp_path / "profile" / "captures" / answer["id"]
    assert answer["id"].startswith("cprofile_")
    assert answer["parts"] == {f"RolloutWorker_w{w}": str(folder / f"RolloutWorker_w{w}.pstats") for w in range(3)}
    for name, path in answer["parts"].items():
        tool, asked_path, limit_s = run[name].commands[0].arguments
        assert (tool, asked_path) == ("cprofile", path)
        assert limit_s >= 5  # also without a Runner that says stop, a capture ends


@pytest.mark.parametrize(
    ("wishes", "chosen"),
    [
        ({}, set(NAMES)),
        ({"components": ["learner", "batcher"]}, {"Learner_0", "Batcher_0"}),
        ({"components": ["runner"]}, {"Runner"}),
        ({"components": ["Batcher_0"]}, {"Batcher_0"}),
        ({"components": ["inference", "rollout"], "workers": [2]}, {"InferenceWorker_p0-w0", "RolloutWorker_w2"}),
        ({"components": ["rollout"], "workers": [0, 1]}, {"RolloutWorker_w0", "RolloutWorker_w1"}),
        ({"workers": [1]}, {*NAMES[:4], "RolloutWorker_w1"}),
    ],
)
def test_those_who_were_chosen_are_asked_and_nobody_else(run, wishes, chosen):
    assert set(run.begin(**wishes)["parts"]) == chosen
    assert {member.name for member in run.members if member.commands} == chosen


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"tool": "perf"}, "unknown tool 'perf'; allowed are torch, cprofile, yappi, pyinstrument"),
        ({"tool": None}, "unknown tool None; allowed are"),
        ({"tool": ["torch"]}, "unknown tool"),
        ({"seconds": 0}, "seconds is 0; allowed is more than 0"),
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": "5"}, "seconds is '5'"),
        ({"seconds": True}, "seconds is True"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"seconds": 1e9}, "at most 3600"),
        ({"components": ["rolout"]}, "unknown components rolout; allowed are rollout, .*; the run has Runner, "),
        ({"components": []}, r"components is \[\]; allowed is a list with some of rollout, inference, learner"),
        ({"components": "learner"}, "components is 'learner'; allowed is a list"),
        ({"components": [{}]}, r"components is \[{}\]; allowed is a list"),
        ({"components": ["evaluator"]}, "none of these components is there; the run has Runner, Learner_0"),
        ({"workers": [3]}, "there is no rollout worker 3; allowed are 0, 1, 2"),
        ({"workers": 1}, "workers is 1; allowed is a list with indices of rollout workers"),
        ({"workers": [[]]}, r"workers is \[\[\]\]; allowed is a list"),
        ({"workers": [True]}, r"workers is \[True\]; allowed is a list"),
        ({"workers": ["1"]}, r"workers is \['1'\]; allowed is a list"),
        ({"components": ["learner"], "workers": [0]}, "add rollout"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_what_is_allowed_and_asks_nobody(run, wishes, message):
    with pytest.raises(CaptureError, match=message):
        run.begin(**wishes)
    assert not any(member.commands for member in run.members)


@pytest.mark.parametrize("request_", [{}, {"do": "dance"}, {"do": ["state"]}, {"do": "state"}, {"do": "stop", "id": 1}])
def test_an_unknown_request_or_capture_is_an_error(run, request_):
    with pytest.raises(CaptureError, match=r"unknown (request; allowed are|capture: )"):
        run.control.answer(request_)


def test_in_one_process_all_components_make_one_part(tmp_path, clock):
    run = Run(tmp_path, pids=7)
    try:
        answer = run.begin(components=["learner", "rollout"])
        assert list(answer["parts"]) == ["Serial"]
        assert [member.name for member in run.members if member.commands] == ["Learner_0"]
        run.reply_all()
        clock.now_s += 5
        run.control.poll()
        run.reply_all()
        assert set(run.state(answer["id"])["results"]) == {"Serial"}
    finally:
        run.control.close()


def test_one_that_cannot_begin_is_an_error_and_the_others_go_on(run, clock):
    name = run.begin(components=["learner", "runner"])["id"]
    run.reply("Learner_0", error="Traceback …\n  File …\nCaptureError: yappi is not installed: pip install it\n")
    run.reply("Runner")
    run.control.poll()
    clock.now_s += 5
    run.control.poll()
    assert run["Learner_0"].methods == ["start_capture"]
    run.reply("Runner")
    run.control.poll()
    state = run.state(name)
    assert state["step"] == "done"
    assert state["errors"] == {"Learner_0": "CaptureError: yappi is not installed: pip install it"}
    assert set(state["results"]) == {"Runner"}


def test_where_nobody_can_begin_it_is_over_at_once(run):
    name = run.begin(components=["learner"])["id"]
    run.reply("Learner_0", error="no")
    run.control.poll()
    assert run.state(name) == {"step": "done", "results": {}, "errors": {"Learner_0": "no"}, "waits_for": []}


@pytest.mark.parametrize("silent_from", ["start", "stop"])
def test_one_that_never_answers_is_an_error_in_the_end(run, clock, silent_from):
    name = run.begin(components=["learner", "runner"])["id"]
    run.reply("Runner")
    if silent_from == "stop":
        run.reply("Learner_0")
    for _ in range(400):
        clock.now_s += 0.5
        run.control.poll()
        if run["Runner"].methods[-1] == "stop_capture":
            run.reply("Runner")
    state = run.state(name)
    assert state["step"] == "done"
    assert set(state["results"]) == {"Runner"}
    assert "did not answer within" in state["errors"]["Learner_0"]


def test_a_long_capture_may_take_long_to_write(run, clock):
    name = run.begin(components=["learner"], seconds=300)["id"]
    run.reply("Learner_0")
    run.control.poll()
    clock.now_s += 300
    run.control.poll()
    clock.now_s += 500
    run.control.poll()
    assert run.state(name)["step"] == "stop"
    run.reply("Learner_0")
    run.control.poll()
    assert set(run.state(name)["results"]) == {"Learner_0"}


def test_one_whose_capture_has_ended_otherwise_is_an_error(run, clock):
    name = run.begin(components=["learner"])["id"]
    run.reply("Learner_0")
    run.control.poll()
    clock.now_s += 5
    run.control.poll()
    run.reply("Learner_0", value=None)
    run.control.poll()
    assert run.state(name)["errors"] == {"Learner_0": "its capture had not begun"}


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_capture_can_be_ended_early(run, has_begun):
    name = run.begin(components=["learner"])["id"]
    if has_begun:
        run.reply_all()
    assert run.control.answer({"do": "stop", "id": name})["step"] == "stop"
    run.control.answer({"do": "stop", "id": name})  # once more changes nothing
    assert run["Learner_0"].methods == ["start_capture", "stop_capture"]
    run.reply("Learner_0")
    run.control.poll()
    assert set(run.state(name)["results"]) == {"Learner_0"}
    assert run.control.answer({"do": "stop", "id": name})["step"] == "done"


def test_captures_with_different_tools_overlap(run, clock):
    first = run.begin(components=["learner"], seconds=4)["id"]
    run.reply("Learner_0")
    run.control.poll()
    second = run.begin(components=["learner"], tool="torch", seconds=2)["id"]
    assert first != second
    run.reply("Learner_0")
    run.control.poll()
    clock.now_s += 2
    run.control.poll()
    run.reply("Learner_0")
    run.control.poll()
    assert (run.state(first)["step"], run.state(second)["step"]) == ("run", "done")
    clock.now_s += 2
    run.control.poll()
    run.reply("Learner_0")
    run.control.poll()
    assert run.state(first)["step"] == "done"


def test_one_tool_captures_once_at_a_time(run):
    run.begin(components=["learner"])
    with pytest.raises(CaptureError, match="is capturing in this run already"):
        run.begin(components=["runner"])


def test_answers_that_come_too_late_are_dropped(run, clock):
    name = run.begin(components=["learner"])["id"]
    late = run["Learner_0"].commands[0].number
    clock.now_s += 1000
    run.control.poll()
    before = run.state(name)
    run.command_sender.take(CommandResult(late, "Learner_0", None, None))
    run.control.poll()
    assert run.state(name) == before


def test_it_answers_over_the_socket_of_the_run(tmp_path):
    run = Run(tmp_path)
    answers = []

    def talk():
        client = ControlClient(RunFolder(tmp_path).control_socket, timeout_s=10)
        begun = client.ask({"do": "capture", "tool": "cprofile", "seconds": 1, "components": ["learner"]})
        answers.extend([begun, client.ask({"do": "state", "id": begun["id"]}), client.ask({"do": "dance"})])
        client.close()

    thread = threading.Thread(target=talk)
    thread.start()
    while thread.is_alive():
        run.control.poll()
        thread.join(0.005)
    run.control.close()
    assert list(answers[0]["parts"]) == ["Learner_0"]
    assert answers[1] == {"step": "start", "results": {}, "errors": {}, "waits_for": ["Learner_0"]}
    assert answers[2] == {"error": "unknown request; allowed are capture, state, stop, slow, save, saved, end"}
    assert not (tmp_path / "profile" / "control.sock").exists()


def test_where_there_can_be_no_socket_the_run_goes_on(tmp_path, caplog):
    (tmp_path / "profile").write_text("a file where a folder should be")
    with caplog.at_level(logging.WARNING):
        run = Run(tmp_path)
    assert "No control socket" in caplog.text
    run.control.poll()
    run.control.close()


def test_a_stage_is_made_slower_at_those_who_have_it(run):
    assert run.control.answer({"do": "slow", "stage": "learner", "share": 0.5, "seconds": 9})["slowed"] == ["Learner_0"]
    assert run["Learner_0"].methods[-1] == "set_slowdown"
    assert run["Runner"].methods == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"stage": "gpu", "share": 0.5, "seconds": 1}, "unknown stage 'gpu'; allowed are env, inference, learner"),
        ({"stage": "env", "share": -1, "seconds": 1}, "share is -1; allowed is 0 to 10"),
        ({"stage": "env", "share": True, "seconds": 1}, "share is True"),
        ({"stage": "env", "share": 0.5, "seconds": 1e9}, "seconds is 1000000000.0; allowed is 0 to 600"),
    ],
)
def test_a_slowdown_that_makes_no_sense_is_told(run, request_, message):
    with pytest.raises(CaptureError, match=message):
        run.control.answer({"do": "slow", **request_})


def test_a_checkpoint_is_saved_by_learners_alone_and_told_of_when_it_is(run):
    answer = run.control.answer({"do": "save"})
    assert answer == {"id": answer["id"], "waits_for": ["Learner_0"], "errors": {}}
    assert [member.name for member in run.members if member.methods == ["save_checkpoint"]] == ["Learner_0"]
    assert not any(member.commands for member in run.members if member.name != "Learner_0")
    saved = {"do": "saved", "id": answer["id"]}
    assert run.control.answer(saved)["waits_for"] == ["Learner_0"]
    run.reply("Learner_0", value=None)
    assert run.control.answer(saved) == {"id": answer["id"], "waits_for": [], "errors": {}}


def test_a_checkpoint_that_cannot_be_saved_says_why(run):
    answer = run.control.answer({"do": "save"})
    run.reply("Learner_0", error="Traceback …\n  File …\nCheckpointError: the disk is full\n")
    told = run.control.answer({"do": "saved", "id": answer["id"]})
    assert told["errors"] == {"Learner_0": "CheckpointError: the disk is full"} and told["waits_for"] == []


@pytest.mark.parametrize("number", [None, "1", 10**9, [], True])
def test_of_a_checkpoint_that_nobody_asked_for_nothing_is_known(run, number):
    run.control.answer({"do": "save"})
    with pytest.raises(CaptureError, match="unknown checkpoint"):
        run.control.answer({"do": "saved", "id": number})


def test_who_asks_for_checkpoints_again_and_again_fills_no_memory(run):
    numbers = [run.control.answer({"do": "save"})["id"] for _ in range(50)]
    with pytest.raises(CaptureError, match="unknown checkpoint"):
        run.control.answer({"do": "saved", "id": numbers[0]})
    assert run.control.answer({"do": "saved", "id": numbers[-1]})["waits_for"] == ["Learner_0"]


def test_the_run_ends_when_it_is_asked_to(run):
    assert run.ends == []
    assert run.control.answer({"do": "end"}) == {"ends": True}
    assert run.ends == ["it was asked to end"]
