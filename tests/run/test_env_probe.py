"""The environment is tried before anything is made: in a process of its own, or here."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.config import parse_config
from sample_profiler.envs import register_env, registry
from sample_profiler.envs.gymnasium_ids import register_gym_envs
from sample_profiler.errors import EnvContractError, EnvError, UnknownEnvError
from sample_profiler.run import env_probe as module
from sample_profiler.run.env_probe import begin_probe, probe_env

FLAGS = ("--env=tried", "--num_workers=2", "--heartbeat_interval=0.1", "--heartbeat_reporting_interval=0.5")
MODES = ("--serial_mode=False", "--serial_mode=True")


@pytest.fixture
def probe(monkeypatch):
    """Try an environment whose methods are made of functions, by name."""
    monkeypatch.setattr(registry, "_makers", {})

    def probe(mode, *, takes_step=False, begin=False, timeout_s=20.0, **methods):
        register_env("tried", lambda *_, **__: make_tried(methods))
        config = parse_config([*FLAGS, mode, f"--hang_timeout={timeout_s}"])
        return (begin_probe if begin else probe_env)(config, takes_step=takes_step)

    return probe


def make_tried(methods):
    """Make an environment; defined here, it travels by its name."""

    class Tried(gymnasium.Env):
        observation_space = spaces.Box(-1, 1, (3,), np.float32)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(3, np.float32), {}

        def step(self, action):
            return np.zeros(3, np.float32), 0.0, False, False, {}

    if "constructor" in methods:
        methods["constructor"]()
    env = Tried()
    for name, method in methods.items():
        setattr(env, name, method)
    return env


@pytest.mark.parametrize("mode", MODES)
def test_the_spaces_come_back(probe, mode):
    spec = probe(mode)
    assert spec.observation_space == spaces.Dict({"obs": spaces.Box(-1, 1, (3,), np.float32)})
    assert (spec.action_space, spec.num_agents) == (spaces.Discrete(2), 1)


def test_nothing_of_it_happens_in_this_process(probe, tmp_path):
    def note(method):
        def write(*_, **__):
            (tmp_path / method).write_text(str(os.getpid()))
            os.chdir(tmp_path)
            return np.zeros(3, np.float32), {}

        return write

    before = Path.cwd()
    probe(MODES[0], takes_step=True, **{name: note(name) for name in ("constructor", "reset", "close")})
    pids = {(tmp_path / name).read_text() for name in ("constructor", "reset", "close")}
    assert len(pids) == 1
    assert str(os.getpid()) not in pids
    assert Path.cwd() == before


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_may_ask_how_far_the_training_is(probe, mode):
    told = {}

    def reset(**_):
        return np.full(3, told["approx_total_training_steps"] / 10, np.float32), {}

    spec = probe(mode, takes_step=True, set_training_info=told.update, reset=reset)
    assert (spec.action_space, spec.num_agents) == (spaces.Discrete(2), 1)


@pytest.mark.parametrize("mode", MODES)
def test_it_is_reset_and_stepped_only_if_asked(probe, mode):
    def fail(*_, **__):
        raise ValueError("worn out")

    probe(mode, reset=fail, step=fail)
    with pytest.raises(EnvError, match="raised in reset: ValueError: worn out"):
        probe(mode, takes_step=True, reset=fail)
    with pytest.raises(EnvError, match="raised in step: ValueError: worn out") as raised:
        probe(mode, takes_step=True, step=fail)
    assert "in fail" in "".join(map(str, [raised.value.__cause__])) or raised.value.__cause__.__traceback__


@pytest.mark.parametrize("mode", MODES)
def test_a_broken_contract_stays_one(probe, mode):
    with pytest.raises(EnvContractError, match="observation_space says float32"):
        probe(mode, takes_step=True, reset=lambda **_: (np.zeros(3, complex), {}))


@pytest.mark.parametrize("mode", MODES)
def test_an_unknown_name_is_told_before_anything_is_started(probe, mode, monkeypatch):
    monkeypatch.setattr(module, "Supervisor", None)
    monkeypatch.setattr(registry, "_makers", {})
    with pytest.raises(UnknownEnvError, match="'nowhere'"):
        begin_probe(parse_config(["--env=nowhere", mode]), takes_step=False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("constructor", "the constructor of the environment tried hangs"),
        ("reset", r"reset\(\) of the environment tried hangs"),
        ("step", r"step\(\) of the environment tried hangs"),
    ],
)
def test_a_method_that_hangs_is_named(probe, mode, method, told):
    with pytest.raises(EnvError, match=told):
        probe(mode, takes_step=True, timeout_s=0.6, **{method: lambda *_, **__: time.sleep(1000)})


@pytest.mark.parametrize("mode", MODES)
def test_a_close_that_hangs_is_told_and_its_spaces_are_there(probe, mode, caplog, monkeypatch):
    monkeypatch.setattr(module, "_CLOSE_PATIENCE_S", 0.1)
    assert probe(mode, timeout_s=0.6, close=lambda: time.sleep(1000)).num_agents == 1
    assert "close() of the environment tried hangs" in caplog.text


def test_a_run_begins_while_it_is_closed(probe, caplog):
    caplog.set_level(logging.INFO)
    tried = probe(MODES[0], begin=True, timeout_s=0.6, close=lambda: time.sleep(1000))
    try:
        assert tried.spec().num_agents == 1
        deadline_s = time.monotonic() + 20
        while "close() of the environment tried hangs" not in caplog.text and time.monotonic() < deadline_s:
            time.sleep(0.05)
            tried.look()
        assert "its process was ended" in caplog.text
        tried.look()
    finally:
        tried.end()


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            lambda *_, **__: os._exit(3),
            r"reset\(\) of the environment tried ended its process, which exited with status 3",
        ),
        (
            lambda *_, **__: os.abort(),
            r"reset\(\) of the environment tried ended its process, which was killed by signal 6",
        ),
    ],
)
def test_a_method_that_ends_its_process_is_named(probe, end, told):
    with pytest.raises(EnvError, match=told):
        probe(MODES[0], takes_step=True, reset=end)


def test_what_takes_long_is_told_from_time_to_time(probe, caplog, monkeypatch):
    monkeypatch.setattr(registry, "_makers", {})
    register_env("tried", lambda *_, **__: make_tried({"constructor": lambda: time.sleep(1.5)}))
    config = parse_config([*FLAGS, MODES[0]])
    assert probe_env(config).num_agents == 1
    assert "the constructor of the environment tried has not returned for" in caplog.text


def test_an_error_of_a_class_of_its_own_is_one_that_this_process_knows(probe):
    def fail():
        class OwnError(EnvContractError):
            def __init__(self, number):
                super().__init__(f"level {number} is missing")
                self.level = lambda: number

        raise OwnError(7)

    with pytest.raises(EnvContractError, match="level 7 is missing") as raised:
        probe(MODES[0], constructor=fail)
    assert type(raised.value) is EnvContractError


@pytest.fixture
def gym_ids(monkeypatch):
    monkeypatch.setattr(registry, "_fallbacks", [])
    register_gym_envs()


@pytest.mark.usefixtures("gym_ids")
@pytest.mark.parametrize("mode", MODES)
def test_a_module_whose_import_hangs_is_named(mode, tmp_path, monkeypatch):
    (tmp_path / "hangs_at_import.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "FIRST_SIGN_S", 1.0)
    config = parse_config([*FLAGS, "--env=hangs_at_import:Maze-v0", mode, "--hang_timeout=1"])
    with pytest.raises(EnvError, match="the import of the module of hangs_at_import:Maze-v0 hangs"):
        begin_probe(config, takes_step=False)


@pytest.mark.usefixtures("gym_ids")
@pytest.mark.parametrize("mode", MODES)
def test_what_a_module_changes_when_it_is_imported_is_put_back(mode, tmp_path, monkeypatch, caplog):
    name = f"changes_at_import_{mode[-4:].lower()}"
    (tmp_path / f"{name}.py").write_text("import logging\nlogging.disable(logging.CRITICAL)\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = parse_config([*FLAGS, f"--env={name}:Maze-v0", mode])
    with pytest.raises(UnknownEnvError):
        begin_probe(config, takes_step=False)
    assert logging.root.manager.disable == logging.NOTSET
    assert "whether logging is switched off" in caplog.text
