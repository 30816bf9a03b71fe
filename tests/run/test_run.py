"""What signals do to a run, and what is left of one that was cut off."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import gymnasium
import pytest
import torch

from sample_profiler.config import parse_config
from sample_profiler.envs import register_env, registry
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.profiling.timers.stacks import get_thread_stacks
from sample_profiler.run import run as run_module
from sample_profiler.run import wiring as wiring_module
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.layout.topology import plan_components
from sample_profiler.run.run import _end_steady_part, execute_run
from sample_profiler.run.wiring import SerialWiring
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.loop.event_loop import EventLoop
from sample_profiler.runtime.processes.supervisor import Supervisor
from sample_profiler.runtime.signals import ending_signals
from sample_profiler.runtime.signals.ending_signals import signals_calling
from sample_profiler.timers import hierarchical_timer

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture(autouse=True)
def earlier_handlers() -> Iterator[dict]:
    """What follows a signal outside of a run."""
    earlier = {number: (lambda *_: None) for number in (INT, TERM, HUP)}
    previous = {number: signal.signal(number, handler) for number, handler in earlier.items()}
    yield earlier
    for number, handler in previous.items():
        signal.signal(number, handler)


def components_of(result):
    return {name for process in result.session.processes for name in process.trees} - {"timers"}


def run_with(*numbers: int, apart_s: float = 1.0) -> tuple[list[int], int]:
    """Raise signals in a run; return those that ended it in order, and how often it was ended at once."""
    ended, kills, now_s = [], [], 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s)
    try:
        with (
            patch.object(ending_signals, "time", clock),
            signals_calling(ended.append, lambda: kills.append(None)),
        ):
            for number in numbers:
                signal.raise_signal(number)
                now_s += apart_s
    except KeyboardInterrupt as error:
        assert kills
        assert str(error).startswith("Interrupted again")
    return ended, len(kills)


@pytest.mark.parametrize("number", [INT, TERM, HUP])
def test_the_first_signal_ends_a_run_in_order(number, earlier_handlers):
    assert run_with(number) == ([number], 0)
    assert {number: signal.getsignal(number) for number in earlier_handlers} == earlier_handlers


@pytest.mark.parametrize("numbers", [(INT, INT), (TERM, TERM), (INT, TERM), (HUP, INT, INT), (INT, HUP, TERM)])
def test_a_second_one_ends_it_at_once(numbers):
    assert run_with(*numbers) == ([numbers[0]], 1)


@pytest.mark.parametrize("numbers", [(TERM, TERM), (INT, INT), (HUP, TERM, TERM)])
def test_an_order_that_comes_twice_at_once_is_one(numbers):
    """As that of `timeout`, which sends it to its child and then to all of its group."""
    assert run_with(*numbers, apart_s=0.1) == ([numbers[0]], 0)


@pytest.mark.parametrize("numbers", [(HUP, HUP, HUP), (HUP, TERM), (TERM, HUP), (TERM, HUP, HUP)])
def test_a_terminal_that_is_closed_hurries_nobody(numbers):
    assert run_with(*numbers) == ([numbers[0]], 0)


def test_a_run_whose_terminal_may_be_closed_goes_on(earlier_handlers):
    signal.signal(HUP, signal.SIG_IGN)
    assert run_with(HUP, HUP) == ([], 0)
    assert run_with(HUP, INT) == ([INT], 0)
    assert signal.getsignal(HUP) is signal.SIG_IGN


def test_figures_that_cannot_be_had_do_not_keep_components_from_being_stopped(caplog):
    recording = SimpleNamespace(update=lambda: 1 / 0)
    assert _end_steady_part(recording, SimpleNamespace()).processes == []
    assert "no figures of the steady part: ZeroDivisionError" in caplog.text


@pytest.fixture
def make_config(monkeypatch):
    """That of a small run, serial or parallel."""
    monkeypatch.setattr(registry, "_makers", {})
    register_env("CartPole-v1", lambda name, *_, **__: gymnasium.make(name))
    flags = ["--env=CartPole-v1", "--device=cpu", "--num_workers=1", "--async_rl=False"]
    flags += ["--num_envs_per_worker=2", "--rollout=8", "--batch_size=16", "--train_for_seconds=3"]
    timing = get_timing()
    yield lambda *more: parse_config([*flags, *more, "--encoder_mlp_layers", "8"])
    set_timing(timing, process_wide=True)
    torch.set_flush_denormal(False)  # as networks of a run want it


@pytest.fixture
def config(make_config):
    return make_config("--serial_mode=True")


def test_a_signal_between_the_last_look_and_the_loop_ends_a_serial_run(tmp_path, monkeypatch, config):
    class LateLoop(EventLoop):
        def __init__(self, components, *arguments, **named):
            super().__init__(components, *arguments, **named)
            components[0].interrupt("interrupted by SIGTERM")

    monkeypatch.setattr(wiring_module, "EventLoop", LateLoop)
    result = execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert (result.reason, result.fps) == ("interrupted by SIGTERM", 0.0)


def test_a_signal_before_anything_is_made_ends_a_run_in_order(tmp_path, monkeypatch, config):
    monkeypatch.setattr(SerialWiring, "start", lambda _: signal.raise_signal(TERM))
    result = execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert (result.reason, result.interrupted_by, result.fps) == ("interrupted by SIGTERM", TERM, 0.0)
    assert components_of(result) == {"Runner"}


def test_a_signal_while_components_are_made_is_acted_on_before_the_next_one_in_a_serial_run(
    tmp_path, monkeypatch, config, caplog
):
    made = []

    def plan_watched(blueprint, *_):
        for plan in plan_components(blueprint):
            made.append(plan.settings.name)
            yield plan
            signal.raise_signal(TERM)

    monkeypatch.setattr(wiring_module, "plan_components", plan_watched)
    with caplog.at_level("INFO"):
        result = execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert (result.reason, result.interrupted_by) == ("interrupted by SIGTERM", TERM)
    assert components_of(result) == {"Runner", "Learner_0"}
    assert made[0] == "Learner_0"
    assert len(made) == 2, "the second one was only looked at"
    assert "Ending all components: interrupted by SIGTERM; another Ctrl+C or SIGTERM ends them at once" in caplog.text


def interrupted_after(num_started, number):
    """Make a Supervisor in which a signal comes when so many children have just been started."""

    class Interrupted(Supervisor):
        def spawn(self, *arguments):
            child = super().spawn(*arguments)
            os.kill(child.pid, signal.SIGSTOP)  # surely it has not begun to work
            if len(self.children) >= num_started:
                signal.raise_signal(number)
            return child

    return Interrupted


@pytest.mark.parametrize("number", [INT, TERM])
def test_a_signal_while_processes_are_started_starts_no_more_and_waits_for_nobody(
    number, tmp_path, monkeypatch, make_config, caplog
):
    monkeypatch.setattr(wiring_module, "Supervisor", interrupted_after(4, number))
    config = make_config("--num_workers=8", "--serial_mode=False")
    with caplog.at_level("INFO"):
        result = execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert (result.interrupted_by, result.failure, result.fps) == (number, None, 0.0)
    assert components_of(result) == {"Runner"}
    messages = caplog.messages
    assert len([message for message in messages if message.startswith("Started ")]) == 4
    names = "Learner_0, Batcher_0, InferenceWorker_p0-w0, RolloutWorker_w0"
    assert f"Ended before they had begun: {names}" in messages
    assert f"Ending all components: {result.reason}; another Ctrl+C or SIGTERM ends them at once" in messages
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_second_signal_while_processes_are_started_ends_them_at_once(tmp_path, monkeypatch, make_config):
    monkeypatch.setattr(ending_signals, "SAME_SIGNAL_S", -1.0)
    supervisors = []

    class Interrupted(interrupted_after(2, INT)):
        def spawn(self, *arguments):
            supervisors[:] = [self]
            if len(self.children) == 1:
                signal.raise_signal(INT)
            return super().spawn(*arguments)

    monkeypatch.setattr(wiring_module, "Supervisor", Interrupted)
    config = make_config("--serial_mode=False")
    with pytest.raises(KeyboardInterrupt, match="Interrupted again"):
        execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert [child.exit_code for child in supervisors[0].children] == [-signal.SIGKILL] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_run_that_is_cut_off_leaves_what_the_one_before_has_recorded(tmp_path, monkeypatch, config, error):
    (tmp_path / "checkpoint_p0").mkdir()
    (tmp_path / "checkpoint_p0" / "checkpoint_000000007_70.pth").touch()
    record = RunFolder(tmp_path).live().record("Runner", 1)
    record.parent.mkdir(parents=True)
    record.write_text("of the earlier run")

    def fail(*_):
        assert not record.exists()
        raise error

    monkeypatch.setattr(run_module, "SerialWiring", fail)
    with hierarchical_timer("of the process"), pytest.raises(error):
        execute_run(config, probe_env(config), "cpu", tmp_path, [])
    assert [path.name for path in record.parent.iterdir()] == [record.name]
    assert record.read_text() == "of the earlier run"
    assert not get_thread_stacks().main.recording.timing.is_shown, "the next recording of this process has the timers"
