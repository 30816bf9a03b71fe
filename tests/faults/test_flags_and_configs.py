"""Whatever a command line or a config.json says: a run begins, or one clear message says why not."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from sample_profiler.cli.train import train as train_command
from sample_profiler.cli.training import training as training_module
from sample_profiler.cli.training import training_run as training_run_module
from sample_profiler.config import parse_config, save_config
from sample_profiler.config.assembly import all_flags
from sample_profiler.envs import export_registration, register_env, register_env_fallback, registry
from sample_profiler.profiling import Session, get_timing, set_timing
from sample_profiler.run.checks import memory_needs
from sample_profiler.run.env_probe import begin_local_probe
from sample_profiler.run.layout.blueprint import make_blueprint
from sample_profiler.run.layout.topology import plan_components
from sample_profiler.run.run import RunResult, execute_run
from sample_profiler.runtime.loop.transports import LocalTransport
from sample_profiler.runtime.processes.failure import Failure
from sf_examples.gym.gym_env import find_gym_env, gym_env_names
from tests.faults.fuzzing import WEIRD_TEXTS, fuzzed, spoil, spoiled_bytes

FLAGS = sorted(set(all_flags()) - {"train_dir"})
ENVS = [
    "calm",
    "CartPole-v1",
    "Ant-v99",
    ".:CartPole-v1",
    ":CartPole-v1",
    "no_module:x",
    "json:x",
    "a/b:x",
    "\0:x",
    "v0",
]
DEVICES = ["auto", "cpu", "gpu", "cuda", "cuda:0", "tpu"]
SMALL = ("--env=calm", "--device=cpu", "--num_workers=1", "--num_envs_per_worker=2", "--log_to_file=False")


class Calm(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    """Lay a run out as its start does, and end there."""
    monkeypatch.setattr(registry, "_makers", {})
    monkeypatch.setattr(registry, "_fallbacks", [])
    register_env("calm", lambda *_, **__: Calm())
    register_env_fallback(find_gym_env, gym_env_names)

    def execute(config, env_spec, device, folder, observers, *_):
        payload = export_registration(config.run.env)
        plan_components(make_blueprint(config, 1, payload, env_spec, folder, device, LocalTransport()))
        for observer in observers:
            observer.on_stop(None)
        empty = Session(created_s=0.0)
        return RunResult(None, "the end", None, {0: 1}, 1.0, 1.0, 1.0, {}, empty, empty, {})

    monkeypatch.setattr(training_run_module, "execute_run", execute)
    monkeypatch.setattr(training_module, "begin_probe", begin_local_probe)


def train(folder: Path, *flags: str, may_fail: bool = False) -> str:
    """Start a run and return what it printed, having checked that it is no traceback and fits the exit status.

    Args:
        folder: for runs.
        flags: beside those of a small run.
        may_fail: on its way; else it begins, or cannot be begun.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        status = train_command([*SMALL, f"--train_dir={folder}", *flags])
    text = output.getvalue()
    assert status in ((0, 1, 2) if may_fail else (0, 2)), (status, text)
    assert "Traceback" not in text
    assert ("ERROR" in text) == (status != 0), text
    return text


NO_HOMES = st.sampled_from(["~nobody_here", "~nobody_here/x", "~\0/x", "~\udcff"])
"""Folders that nothing can be made in, whatever user this is."""

words = st.one_of(
    st.builds("--{}={}".format, st.sampled_from(FLAGS), WEIRD_TEXTS),
    st.builds("--{}".format, st.sampled_from(FLAGS)),
    st.builds("--{}={}".format, st.sampled_from(FLAGS), st.integers() | st.floats(allow_subnormal=False)),
    st.builds("--{}={}".format, st.text(max_size=8), WEIRD_TEXTS),
    WEIRD_TEXTS,
    st.builds("--env={}".format, st.sampled_from(ENVS) | st.text(max_size=8)),
    st.builds("--device={}".format, st.sampled_from(DEVICES)),
    st.builds("--{}={}".format, st.sampled_from(["train_dir", "profile_dir"]), NO_HOMES),
)


def is_harmless(flag: str) -> bool:
    """Tell whether nothing is written elsewhere, nor a help asked for."""
    name, _, value = flag.partition("=")
    if name in ("--profile_dir", "--train_dir"):
        return value.startswith(("~nobody_here", "~\0", "~\udcff"))
    return not name.startswith(("--profile_dir", "--train_dir", "--help", "-h"))


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("device", DEVICES)
def test_any_environment_on_any_device_is_a_run_or_a_message(tmp_path, env, device):
    train(tmp_path, f"--env={env}", f"--device={device}")


@given(flags=st.lists(words.filter(is_harmless), min_size=1, max_size=4))
@fuzzed
def test_mutated_flags_are_a_run_or_a_message(tmp_path_factory, flags):
    train(tmp_path_factory.mktemp("run"), *flags)


@pytest.fixture
def _small_machine(monkeypatch):
    """Really train, on a machine whose memory holds nothing that would take long."""
    timing = get_timing()
    monkeypatch.setattr(training_run_module, "execute_run", execute_run)
    monkeypatch.setattr(memory_needs, "memory_gib", lambda: 1 / 64)
    yield
    set_timing(timing, process_wide=True)
    torch.set_flush_denormal(False)  # as networks of a run want it


TINY = ("--encoder_mlp_layers", "8", "--rnn_size=8", "--rollout=8", "--batch_size=16")
ONE_BATCH = (
    *("--serial_mode=True", "--train_for_env_steps=1", "--train_for_seconds=3", "--num_epochs=1", "--compile=False"),
    *("--decorrelate_experience_max_seconds=0", "--flight_recorder_mb=1"),
)


likely = st.builds(
    "--{}={}".format, st.sampled_from(FLAGS), st.sampled_from(["0", "0.5", "1", "2", "7", "300", "True"])
)


@given(flags=st.lists(likely.filter(is_harmless), min_size=1, max_size=3))
@fuzzed
def test_mutated_flags_train_on_a_batch_or_end_with_a_message(tmp_path_factory, _small_machine, flags):
    train(tmp_path_factory.mktemp("run"), *TINY, *flags, *ONE_BATCH, may_fail=True)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--rnn_size=100", "--rnn_type=lstm", "--rnn_num_layers=3", "--actor_critic_share_weights=False"),
        ("--num_policies=2", "--policy_workers_per_policy=2", "--with_vtrace=True", "--recurrence=8"),
        ("--learning_rate=1e30", "--gamma=1", "--reward_scale=1e30", "--reward_clip=1e30"),
        ("--rnn_size=65536",),
    ],
    ids=str,
)
def test_unusual_flags_train_on_a_batch_or_end_with_a_message(tmp_path, _small_machine, flags):
    text = train(tmp_path, *TINY, *flags, *ONE_BATCH)
    assert ("ERROR" in text) == (flags == ("--rnn_size=65536",))


def make_document(folder: Path) -> dict[str, Any]:
    config = parse_config([*SMALL, "--train_dir=runs"])  # as long in each folder: what is drawn follows its length
    path = folder / "default_experiment" / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_config(config, path)
    return json.loads(path.read_text())


def check_resume(folder: Path, data: bytes) -> None:
    """Resume a run whose config.json holds these bytes: where that is refused, the file stays as it is."""
    path = folder / "default_experiment" / "config.json"
    path.write_bytes(data)
    text = train(folder)
    if "ERROR" in text:
        assert path.read_bytes() == data
        assert [other.name for other in path.parent.iterdir()] == ["config.json"]


@given(data=st.data())
@fuzzed
def test_mutated_values_in_config_files_are_a_run_or_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    document = spoil(make_document(folder), data.draw)
    if isinstance(document, dict) and isinstance(document.get("flags"), dict):
        elsewhere = data.draw(st.just("") | NO_HOMES)  # any other would be made where it says
        document["flags"]["profile_dir"] = {"value": elsewhere, "origin": "saved"}
    check_resume(folder, json.dumps(document).encode())


@given(data=st.data())
@fuzzed
def test_damaged_config_files_are_a_run_or_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("run")
    check_resume(folder, data.draw(spoiled_bytes(json.dumps(make_document(folder), indent=2).encode())))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02}q\x00.",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 10_000,
        b'{"format": 1, "flags": {"rollout": {"value": ' + b"9" * 5000 + b', "origin": "command line"}}}',
        b'{"format": 1, "flags": {"rollout": {"value": NaN, "origin": "command line"}}}',
        b'{"format": 1, "flags": {"rollout": {"value": 32, "origin": []}}}',
        b"\xff\xfe\x00",
    ],
    ids=["empty", "pickle", "deep lists", "deep objects", "one number", "huge", "not a number", "origin", "binary"],
)
def test_what_is_no_configuration_is_refused_and_kept(tmp_path, data):
    make_document(tmp_path)
    check_resume(tmp_path, data)
    assert "ERROR" in train(tmp_path)


def test_a_run_that_cannot_begin_leaves_the_configuration_as_it_was(tmp_path, monkeypatch, caplog):
    """Flags of another network must not become those of the run."""
    assert "ERROR" not in train(tmp_path, "--rnn_size=7")
    path = tmp_path / "default_experiment" / "config.json"
    before = path.read_bytes()
    execute = training_run_module.execute_run

    def fail(*arguments):
        result = execute(*arguments)
        failure = RunResult(**vars(result) | {"failure": Failure("Learner_0", "broke", ""), "fps": 0.0})
        return failure

    monkeypatch.setattr(training_run_module, "execute_run", fail)
    with caplog.at_level(logging.INFO):
        status = train_command([*SMALL, "--rnn_size=9", f"--train_dir={tmp_path}"])
    assert status == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--batch_size=1000000000", "--rollout=1"), "need 3,000,000,000 trajectories"),
        (("--num_workers=1000", "--num_envs_per_worker=100000"), "makes 100,000,000 environments"),
        (
            ("--num_envs_per_worker=100000", "--rollout=1000000", "--batch_size=1000000"),
            "GiB, more than the machine has",
        ),
        (("--rnn_size=65536", "--rnn_num_layers=100"), "weights of a network, 7 times in memory"),
        (("--encoder_mlp_layers", *["65536"] * 1000), "weights of a network, 7 times in memory"),
        (("--flight_recorder_mb=1e300",), "--flight_recorder_mb=1e300 is out of range"),
    ],
)
def test_what_no_machine_can_do_is_refused_before_anything_is_made(tmp_path, flags, message):
    assert message in train(tmp_path, *flags)
    assert list(tmp_path.iterdir()) == []


def test_flags_of_processes_have_no_meaning_in_serial_mode_which_the_log_says_once(tmp_path):
    flags = ("--default_niceness=3", "--heartbeat_interval=1")
    text = train(tmp_path, "--serial_mode=True", *flags)
    assert text.count("Without meaning in serial mode, which has one process: --default_niceness, --heartbeat_int") == 1
    assert "Without meaning" not in train(tmp_path, "--restart_behavior=overwrite", *flags)
    assert "Without meaning" not in train(tmp_path, "--restart_behavior=overwrite", "--serial_mode=True")


@pytest.mark.parametrize("behavior", ["resume", "overwrite"])  # restart keeps it under another name
def test_a_file_in_the_place_of_the_folder_is_a_message(tmp_path, behavior):
    (tmp_path / "default_experiment").write_text("mine")
    assert "ERROR" in train(tmp_path, f"--restart_behavior={behavior}")
    assert (tmp_path / "default_experiment").read_text() == "mine"
