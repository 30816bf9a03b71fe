"""What signals do to a run, and what is said of its observations before it begins."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from unittest.mock import patch

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from sample_profiler.config import parse_config
from sample_profiler.envs import EnvSpec, register_env, registry
from sample_profiler.errors import ConfigError
from sample_profiler.model import registry as model_registry
from sample_profiler.profiling import get_timing, set_timing
from sample_profiler.profiling.timers.stacks import get_thread_stacks
from sample_profiler.run import run as run_module
from sample_profiler.run import wiring as wiring_module
from sample_profiler.run.env_probe import probe_env
from sample_profiler.run.layout.topology import plan_components
from sample_profiler.run.run import (
    _end_steady_part,
    _log_images,
    check_spaces,
    execute_run,
)
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


GRID = spaces.Box(-1, 1, (7, 7, 3), np.float32)
TINY = spaces.Box(0, 255, (3, 24, 128), np.uint8)
PICTURE = spaces.Box(0, 255, (72, 128, 3), np.uint8)
SCREEN = spaces.Box(0, 255, (3, 72, 128), np.uint8)


def seeing(**entries) -> EnvSpec:
    return EnvSpec(observation_space=spaces.Dict(entries), action_space=spaces.Discrete(2))


def test_an_image_with_its_channels_behind_is_a_problem_beside_others():
    config = parse_config(["--env=mine", "--normalize_input_keys=nothing"])
    check_spaces(parse_config(["--env=mine"]), seeing(obs=SCREEN, grid=GRID))
    with pytest.raises(ConfigError) as caught:
        check_spaces(config, seeing(obs=SCREEN, other=PICTURE))
    names, order = caught.value.problems
    assert "'nothing'" in names
    assert "'other' of shape (72, 128, 3)" in order
    for architecture in ("convnet_simple", "convnet_impala", "convnet_atari", "resnet_impala"):
        flags = ("--env=mine", f"--encoder_conv_architecture={architecture}")
        check_spaces(parse_config(flags), seeing(obs=SCREEN, other=TINY))


def test_an_encoder_of_ones_own_takes_images_of_any_size(monkeypatch):
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    check_spaces(parse_config(["--env=mine"]), seeing(obs=PICTURE))


def test_the_log_says_how_small_images_are_gone_over(caplog, monkeypatch):
    config = parse_config(["--env=mine"])
    caplog.set_level(logging.INFO)
    _log_images(config, seeing(obs=SCREEN, other=TINY).observation_space)
    (message,) = caplog.messages
    assert message == (
        "Observation 'other' of shape (3, 24, 128) is smaller than the 36x36 pixels that "
        "--encoder_conv_architecture=convnet_simple is made for: kernels (and strides) are 3x8 (1x4), 4x4 (2x2), "
        "3x3 (2x2)"
    )
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    _log_images(config, seeing(other=TINY).observation_space)
    assert len(caplog.messages) == 1


def test_the_log_says_what_is_taken_for_a_vector_that_one_may_take_for_an_image(caplog, monkeypatch):
    config = parse_config(["--env=mine"])
    caplog.set_level(logging.INFO)
    _log_images(config, seeing(obs=SCREEN, grid=GRID, flat=spaces.Box(-1, 1, (3,))).observation_space)
    (message,) = caplog.messages
    assert message.startswith("Observation 'grid' of shape (7, 7, 3) is flattened for fully connected layers")
    monkeypatch.setattr(model_registry, "_makers", {"encoder": lambda *_: None})
    _log_images(config, seeing(grid=GRID).observation_space)
    assert len(caplog.messages) == 1


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


@pytest.mark.parametrize(
    ("flags", "num_files"),
    [((), 12 * (64 + 4 * 3) + 64), (("--inference=worker",), 12 * (64 + 4 * 2) + 64 + 2 * 64 * 4)],
)
def test_as_many_files_are_asked_for_as_the_pipes_of_a_run_take(monkeypatch, flags, num_files):
    asked = []
    monkeypatch.setattr(run_module, "allow_open_files", lambda number: asked.append(number) or "")
    run_module.allow_processes(parse_config(["--env=mine", "--num_workers=64", "--num_policies=4", *flags]))
    assert asked == [num_files]
