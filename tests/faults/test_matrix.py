"""Whatever fails, nothing hangs and nothing is left behind: a few cases here, all of them with `make faults`."""

from __future__ import annotations

import contextlib
import itertools
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import faults as matrix
from harness.fault_cases import (
    FAULTS,
    HANG_TIMEOUT_S,
    KILLS_OF_WORKERS,
    MODES,
    MORE_S,
    VICTIMS,
    Plan,
    all_plans,
    is_possible,
)
from harness.faults import Case, Undisturbed, run_case
from harness.runs import load_all_checkpoints
from sample_profiler.profiling.tree.gauges import GaugeNode

FEW = [
    Plan("kill", "RolloutWorker_w0", "async", at_once=True),
    Plan("kill", "RolloutWorker_w0", "sync", 1, at_once=True),
    Plan("kill", "RolloutWorker_w0", "signals", 1, at_once=True),
    Plan("stop", "InferenceWorker_p0-w0", "signals", at_once=True),
    Plan("kill", "Learner_0", "signals, sync", at_once=True),
    Plan("hang", "RolloutWorker_w0", "signals, own inference", at_once=True),
    Plan("hang", "RolloutWorker_w0", "own inference", at_once=True),
    Plan("exception", "RolloutWorker_w0", "async", at_once=True),
    Plan("stop", "game", "async", at_once=True),
    Plan("kill", "game", "serial", at_once=True),
    Plan("stop", "game", "serial", at_once=True),
    Plan("terminate", "game", "serial", at_once=True),
    Plan("exception", "Learner_0", "serial", at_once=True),
    Plan("stop", "Learner_0", "async", at_once=True),
    Plan("terminate", "Batcher_0", "async", at_once=True),
    Plan("terminate", "RolloutWorker_w0", "own inference", at_once=True),
    Plan("hang", "InferenceWorker_p0-w0", "async", at_once=True),
    Plan("memory", "Batcher_0", "async", at_once=True),
    Plan("stop", "Runner", "async", 1, at_once=True),
    Plan("hang", "Runner", "sync", at_once=True),
]


def describe(plan: Plan) -> str:
    return f"{plan.fault} {plan.victim} {plan.mode} {plan.environment}"


@pytest.mark.parametrize("plan", FEW, ids=describe)
def test_a_fault_is_survived_or_ends_the_run_and_leaves_nothing(plan: Plan, tmp_path: Path) -> None:
    case = run_case(plan, tmp_path)
    assert case.problems == [], case.output


def test_workers_are_killed_at_many_moments_in_every_parallel_mode() -> None:
    plans = all_plans(num_rounds=1)
    assert len(set(plans)) == len(plans)
    for mode in MODES:
        kills = {p.after_s for p in plans if (p.fault, p.victim, p.mode) == ("kill", "RolloutWorker_w0", mode)}
        assert len(kills) == (0 if mode == "serial" else KILLS_OF_WORKERS)
    others = [p for p in plans if (p.fault, p.victim) != ("kill", "RolloutWorker_w0")]
    assert {p.number for p in others} == {0}


def test_every_victim_in_every_mode_meets_each_fault_once_before_any_does_again_and_in_games_too() -> None:
    plans = all_plans(num_rounds=3)
    places = {(p.fault, p.victim, p.mode) for p in plans}
    assert {(p.fault, p.victim, p.mode) for p in plans[: len(places)]} == places
    for environment in ("cartpole", "doom"):
        seen = {(p.fault, p.victim, p.mode) for p in plans if p.environment == environment}
        assert seen == {place for place in places if environment == "doom" or place[1] != "game"}


def test_cases_that_one_undisturbed_run_serves_follow_each_other() -> None:
    measured = [p for p in all_plans(num_rounds=3) if p.is_replaced]
    changes = sum(a.environment != b.environment or a.mode != b.mode for a, b in itertools.pairwise(measured))
    assert changes < len(measured) / 3


def test_what_a_game_does_not_die_of_replaces_nobody() -> None:
    plans = [Plan("terminate", v, mode) for v in VICTIMS for mode in MODES if is_possible("terminate", v, mode)]
    assert [p.mode for p in plans if p.is_replaced and p.victim == "RolloutWorker_w0"] == list(MODES[:-1])
    assert {p.victim for p in plans if p.is_replaced} == {"RolloutWorker_w0"}
    assert [p.victim for p in plans if p.mode == "serial"] == ["Runner", "game"]


@pytest.mark.parametrize("fault", FAULTS)
def test_only_what_is_silent_gets_the_time_of_silence(fault: str) -> None:
    more_s = HANG_TIMEOUT_S if fault in ("stop", "hang") else 0.0
    assert {Plan(fault, victim, "async").limit_s for victim in VICTIMS} == {MORE_S + more_s}


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(matrix, "time", SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Live:
    """Stands in for a run: its worker is replaced at some time, and it trains at some speed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: Clock, fps: float = 100.0, due_s: float = 0.0) -> None:
        self.events: list[str] = []
        self.process = self
        self._clock, self._due_s = clock, clock.now_s + due_s
        monkeypatch.setattr(matrix, "progress", lambda _: (fps * clock.now_s, clock.now_s))

    @property
    def output(self) -> str:
        return "takes its place" if self._clock.now_s >= self._due_s else ""

    def everybody(self) -> list[Any]:
        self.events.append("everybody")
        return []

    def send_signal(self, number: signal.Signals) -> None:
        self.events.append(number.name)

    def wait(self, timeout_s: float) -> int:
        return 130

    def poll(self) -> None:
        return None


def test_throughput_after_a_replacement_is_measured_and_successors_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    live = Live(monkeypatch, clock, 94.0)
    case = Case(Plan("kill", "RolloutWorker_w0", "async"), before_fps=(90.0, 110.0))
    matrix._expect_replacement(case, live)
    assert live.events == ["everybody", "SIGINT"], "what is there only since then is seen before the run ends"
    assert case.throughput == pytest.approx(0.94) and case.is_slower
    assert clock.now_s == pytest.approx(130), "the one window that counts ends then"


@pytest.mark.parametrize(
    ("after", "again", "throughput"),
    [(100.0, None, 1.0), (94.0, 97.0, 94 / 97), (94.0, 100.0, 0.94), (80.0, 90.0, 80 / 90)],
)
def test_where_the_machine_may_have_become_slower_an_undisturbed_run_right_afterwards_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, after: float, again: float | None, throughput: float
) -> None:
    def play(case: Case, *_: Any) -> None:
        case.after_fps = after

    measured = iter([100.0, again])
    monkeypatch.setattr(matrix, "injected_run", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(matrix, "_play", play)
    monkeypatch.setattr(matrix, "_look_at_what_is_left", lambda *_: None)
    undisturbed = Undisturbed(lambda *_: (next(measured),))
    case = run_case(Plan("kill", "RolloutWorker_w0", "async"), tmp_path, undisturbed)
    assert case.before_fps == (100.0,) and case.again_fps == ((again,) if again else ())
    assert case.throughput == pytest.approx(throughput)
    texts = [f"{throughput:.1%} of the throughput 30 s after the worker was lost"] if throughput < 0.95 else []
    assert case.problems == [("throughput", text) for text in texts]
    assert list(measured) == ([] if again else [None]), "it is run only where it decides"


@pytest.mark.parametrize(
    ("fault", "due_s", "problems"), [("kill", 14, 0), ("kill", 16, 1), ("hang", 19, 0), ("hang", 21, 1)]
)
def test_a_worker_that_is_replaced_too_late_is_a_hang(
    monkeypatch: pytest.MonkeyPatch, fault: str, due_s: float, problems: int
) -> None:
    live = Live(monkeypatch, Clock(monkeypatch), due_s=due_s)
    case = Case(Plan(fault, "RolloutWorker_w0", "async"))
    matrix._expect_replacement(case, live)
    assert [problem.kind for problem in case.problems] == ["hang"] * problems
    assert (case.back_s is None) == bool(problems)


def test_a_run_that_does_not_train_on_after_the_replacement_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch, Clock(monkeypatch), fps=0.0)
    case = Case(Plan("kill", "RolloutWorker_w0", "async"))
    matrix._expect_replacement(case, live)
    assert case.problems == [("hang", "it does not train on within 15 s")]


def test_a_run_that_does_not_end_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(monkeypatch, Clock(monkeypatch))
    case = Case(Plan("kill", "Learner_0", "async"))
    matrix._expect_end(case, live)
    assert case.problems == [("hang", "still there after 15 s: Runner")] and case.ended_s is None


def test_throughput_is_of_the_times_at_which_the_frames_were_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are recorded once a second, so ten seconds of waiting may be nine or eleven of them."""
    Clock(monkeypatch)
    counted = iter([(1000.0, 5.0), (2100.0, 16.0)])
    monkeypatch.setattr(matrix, "progress", lambda _: next(counted))
    assert matrix.throughput(None) == pytest.approx(100)


def test_frames_are_those_of_the_runner_with_the_time_they_were_recorded_at(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = GaugeNode(70.0)
    frames.updated_ns = 3_000_000_000
    records = [SimpleNamespace(gauges={}), SimpleNamespace(gauges={"Runner/frames": frames})]
    monkeypatch.setattr(matrix, "read_session", lambda _: SimpleNamespace(processes=records))
    assert matrix.progress(SimpleNamespace(folder=None)) == (70.0, 3.0)
    records.pop()
    assert matrix.progress(SimpleNamespace(folder=None)) == (0.0, 0.0)


def test_an_undisturbed_run_serves_the_cases_of_its_kind_for_some_minutes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = Clock(monkeypatch)
    measured = []
    undisturbed = Undisturbed(lambda environment, mode, _: measured.append((environment, mode)) or (7.0,))
    for environment in ("doom", "doom", "cartpole"):
        assert undisturbed.fps(environment, "async", tmp_path) == (7.0,)
        clock.sleep(100)
    assert measured == [("doom", "async"), ("cartpole", "async")]
    clock.sleep(100)
    undisturbed.fps("doom", "async", tmp_path)
    assert measured[2:] == [("doom", "async")]


def test_a_case_that_cannot_be_played_is_a_case_with_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*arguments: Any) -> None:
        (tmp_path / "output.txt").write_text("the end of its log")
        raise AssertionError("no training within 60 s")

    monkeypatch.setattr(matrix, "injected_run", fail)
    case = run_case(Plan("kill", "Runner", "sync"), tmp_path)
    ((kind, text),) = case.problems
    assert kind == "error" and "no training within 60 s" in text
    assert case.to_dict() | {"problems": 0} == {
        **{"fault": "kill", "victim": "Runner", "mode": "sync", "number": 0, "environment": "cartpole"},
        **{"after_s": case.plan.after_s, "throughput": None, "problems": 0, "ended_s": None, "back_s": None},
        **{"before_fps": (), "after_fps": None, "again_fps": (), "output": "the end of its log"},
    }


def test_every_checkpoint_is_loaded_not_only_the_newest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_all_checkpoints(tmp_path)
    for name in (
        "checkpoint_000000001_1.pth",
        "best_000000001_1_reward_0.000.pth",
        "milestones/checkpoint_000000001_1.pth",
    ):
        path = tmp_path / "checkpoint_p0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"frames": 1}, path)
        (path.parent / ".partial_1_checkpoint_000000002_2.pth").write_bytes(b"half")
    assert len(load_all_checkpoints(tmp_path)) == 3
    path.write_bytes(b"damaged")
    with pytest.raises(Exception, match=r".+"):
        load_all_checkpoints(tmp_path)
