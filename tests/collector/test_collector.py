"""The Collector over both wirings: what batches hold, commands, hooks, failures, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

import sample_profiler
from sample_profiler.collector import backends as collector_backends
from sample_profiler.collector import processes as collector_processes
from sample_profiler.collector.batch import copy_trajectories
from sample_profiler.collector.caller import CollectorError
from sample_profiler.collector.collector import Collector
from sample_profiler.components.rollout_worker import worker as rollout_worker
from sample_profiler.config import parse_run_config
from sample_profiler.envs import registry
from sample_profiler.errors import CommandError, ConfigError
from sample_profiler.model import make_actor_critic
from sample_profiler.runtime.machine import memory_watch
from tests.isolation.shared_names import make_shared_name

pytestmark = pytest.mark.whole_run

WIRINGS = {"serial": "--serial_mode=True", "parallel": "--transport=pipe", "signals": "--transport=fifo"}
NUM_WORKERS, NUM_ENVS, ROLLOUT, NUM_TRAJECTORIES = 2, 2, 8, 4
FLAGS = (
    "--env=pole", f"--num_workers={NUM_WORKERS}", f"--num_envs_per_worker={NUM_ENVS}", "--worker_num_splits=1",
    f"--rollout={ROLLOUT}", f"--batch_size={NUM_TRAJECTORIES * ROLLOUT}", "--use_rnn=False", "--device=cpu",
    "--encoder_mlp_layers", "8", "--decorrelate_envs_on_one_worker=False", "--async_rl=False", "--seed=3",
)  # fmt: skip
SECONDS_PER_STEP = 0.02  # of CartPole's physics


def register_poles(fail_at_step=None, spoilt_step=None, limit=None):
    """Register CartPole under a name of its own, by value: workers cannot import this file."""

    def make(name, cfg, placement, *, render_mode=None):
        import gymnasium
        import numpy as np

        class Pole(gymnasium.Wrapper):
            num_steps = 0

            def step(self, action):
                self.num_steps += 1
                if self.num_steps == fail_at_step:
                    raise RuntimeError("the pole fell on the lamp")
                observation, *rest = self.env.step(action)
                if self.num_steps == spoilt_step and placement is not None and placement.env_id == 0:
                    observation[0] = float("nan")
                if self.num_steps == limit:  # of a final observation that is known
                    return np.ones_like(observation), rest[0], False, True, rest[-1]
                return observation, *rest

        return Pole(gymnasium.make("CartPole-v1"))

    sample_profiler.register_env("pole", make)


def find_workers():
    """Return the children of this process that were spawned, without multiprocessing's own helper."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


def reap_orphans(before):
    """Take leave of what children of this process have left behind: a Collector makes it their subreaper."""
    deadline_s = time.monotonic() + 5
    while orphans := {child.pid for child in psutil.Process().children()} - before:
        for pid in orphans:
            os.waitpid(pid, os.WNOHANG)
        assert time.monotonic() < deadline_s, orphans
        time.sleep(0.01)


@pytest.fixture(scope="module")
def module_registry():
    before = registry._makers
    registry._makers = {}
    register_poles()
    yield
    registry._makers = before


@pytest.fixture(scope="module", params=WIRINGS)
def wiring(request, module_registry):
    return WIRINGS[request.param]


@pytest.fixture(scope="module")
def collector(wiring, tmp_path_factory):
    """One for many tests: processes take seconds to start. Each test takes what comes next."""
    with Collector([*FLAGS, wiring, f"--train_dir={tmp_path_factory.mktemp('run')}"]) as collector:
        yield collector


@pytest.fixture
def make_collector(wiring, tmp_path):
    made = []

    def make(*flags, **options):
        made.append(Collector([*FLAGS, wiring, f"--train_dir={tmp_path}", *flags], **options))
        return made[-1]

    yield make
    for collector in made:
        collector.shutdown()


def test_batches_are_tensors_of_trajectories_by_steps(collector):
    batch = next(collector)
    shape = (NUM_TRAJECTORIES, ROLLOUT)
    per_step = {name: tensor for name, tensor in batch.items() if not name.startswith("last_") and name != "workers"}
    assert per_step.pop("observations")["obs"].shape == (*shape, 4)
    assert all(tensor.shape[:2] == shape for tensor in per_step.values())
    assert set(per_step) == {
        "states", "actions", "action_parameters", "log_probabilities", "values", "rewards", "terminated", "truncated",
        "final_values", "starts_episode", "policy_versions", "valid",
    }  # fmt: skip
    assert batch["last_observations"]["obs"].shape == (NUM_TRAJECTORIES, 4)
    assert batch["last_states"].shape[0] == NUM_TRAJECTORIES
    assert sorted(batch["workers"].tolist()) == [0, 0, 1, 1], "synchronous: every environment, once"
    assert batch["valid"].dtype == batch["terminated"].dtype == torch.bool


def test_trajectories_are_what_the_environment_did(collector):
    """CartPole's next position is the position plus the velocity of its cart, times the seconds of a step."""
    for _ in range(3):
        batch = next(collector)
        observations = torch.cat([batch["observations"]["obs"], batch["last_observations"]["obs"][:, None]], dim=1)
        follows = ~(batch["terminated"] | batch["truncated"])
        follows[:, -1] = True  # what follows the last step is of the same episode
        positions, velocities = observations[..., 0], observations[..., 1]
        expected = positions[:, :-1] + SECONDS_PER_STEP * velocities[:, :-1]
        assert torch.allclose(positions[:, 1:][follows], expected[follows], atol=1e-6)
        assert (batch["rewards"] == 1).all()
        assert ((batch["actions"] == 0) | (batch["actions"] == 1)).all()


def test_batches_stay_as_they_are_when_their_memory_is_used_again(collector):
    batch = next(collector)
    before = {name: value.clone() for name, value in batch.items() if isinstance(value, torch.Tensor)}
    observations = batch["observations"]["obs"].clone()
    for _ in range(12):  # more than the memory holds
        assert not torch.equal(next(collector)["observations"]["obs"], observations)
    assert torch.equal(batch["observations"]["obs"], observations)
    assert all(torch.equal(batch[name], value) for name, value in before.items())


def test_iteration_goes_on_where_it_ended(collector):
    frames = collector.frames
    assert len([batch for batch, _ in zip(collector, range(2), strict=False)]) == 2
    assert collector.frames == frames + 3 * NUM_TRAJECTORIES * ROLLOUT, "zip takes one more to find out"


def test_actions_are_drawn_with_the_weights_of_the_policy_that_were_published(collector):
    policy = collector.policy
    for _ in range(2):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        collector.update_policy_weights_()
        batch = next(collector)
        assert (batch["policy_versions"] == collector.policy_version).all()
        assert batch["valid"].all()
        with torch.no_grad():
            observations = policy.normalize({"obs": batch["observations"]["obs"].flatten(0, 1)})
            parameters, values, _ = policy(observations, batch["states"].flatten(0, 1))
            log_probabilities = policy.action_distribution(parameters).log_prob(batch["actions"].flatten(0, 1))
        assert torch.allclose(values.view_as(batch["values"]), batch["values"], atol=1e-5)
        assert torch.allclose(log_probabilities.view_as(batch["values"]), batch["log_probabilities"], atol=1e-5)


def test_a_policy_of_the_callers_is_used(make_collector, tmp_path):
    config = parse_run_config([*FLAGS, f"--train_dir={tmp_path}"])
    import gymnasium

    with gymnasium.make("CartPole-v1") as env:
        space = gymnasium.spaces.Dict({"obs": env.observation_space})
        policy = make_actor_critic(config.model, config.observations, space, env.action_space)
    with torch.no_grad():
        biases = [parameter for name, parameter in policy.named_parameters() if name.startswith("action_head")]
        biases[-1].copy_(torch.tensor([-50.0, 50.0]))
    collector = make_collector(policy=policy)
    assert collector.policy is policy
    assert (next(collector)["actions"] == 1).all()


def test_map_fn_returns_the_values_of_all_workers_in_their_order(collector):
    next(collector)
    assert collector.num_workers == NUM_WORKERS
    assert collector.map_fn("set_post_collect_hook", [(None,), (None,)]) == [None, None]
    assert collector.map_fn("disable_profile", [()] * 2) == [None, None]


def test_tr6_a_workers_exception_is_raised_in_the_caller_and_the_workers_live_on(collector):
    with pytest.raises(CommandError, match=r"(?s)RolloutWorker_w[01].*Traceback.*TypeError"):
        collector.map_fn("set_profiling_enabled", [(True, "too", "much")] * collector.num_workers)
    with pytest.raises(CommandError, match="no_such_method"):
        collector.map_fn("no_such_method", [()] * collector.num_workers)
    next(collector)


@pytest.mark.parametrize("list_of_args", [[], [(True,)], [(True,)] * 3, [True, True], "xx"])
def test_map_fn_wants_a_tuple_for_each_worker(collector, list_of_args):
    with pytest.raises(ValueError, match="list_of_args"):
        collector.map_fn("set_profiling_enabled", list_of_args)


def test_the_hook_is_called_in_each_worker_after_each_of_its_rollouts(collector, tmp_path):
    next(collector)
    folder = str(tmp_path)

    def hook(worker, rollout):
        import os

        with open(f"{folder}/{worker}", "a") as file:
            file.write(f"{rollout} {os.getpid()}\n")

    collector.set_post_collect_hook(hook)
    for _ in range(3):
        next(collector)
    collector.set_post_collect_hook(None)
    lines = {worker: (tmp_path / str(worker)).read_text().split() for worker in range(NUM_WORKERS)}
    next(collector)
    assert {worker: (tmp_path / str(worker)).read_text().split() for worker in lines} == lines, "None ends it"
    for words in lines.values():
        numbers = [int(word) for word in words[::2]]
        assert numbers == list(range(numbers[0], numbers[0] + 3)), "one group of environments, three batches"
    processes = {word for words in lines.values() for word in words[1::2]}
    assert processes == {str(os.getpid())} if collector.config.serial_mode else len(processes) == NUM_WORKERS


def test_episodes_are_reported(wiring, make_collector, monkeypatch):
    if "True" in wiring:
        monkeypatch.setattr(rollout_worker, "_REPORT_INTERVAL_S", 0.01)
    collector = make_collector()
    deadline_s = time.monotonic() + 20
    while not (episodes := collector.take_episodes()):
        next(collector)
        assert time.monotonic() < deadline_s
    assert all(episode.episode_return == episode.length_frames for episode in episodes), "CartPole pays 1 a step"
    assert {episode.policy for episode in episodes} == {0}


def test_iteration_ends_after_the_frames_that_were_asked_for(make_collector):
    collector = make_collector(f"--train_for_env_steps={3 * NUM_TRAJECTORIES * ROLLOUT}", "--async_rl=True")
    batches = list(collector)
    assert len(batches) == 3
    assert collector.frames == 3 * NUM_TRAJECTORIES * ROLLOUT
    collector.shutdown()
    assert list(collector) == []
    collector.shutdown()


@pytest.fixture
def spoilt_poles(module_registry):
    """The first environment returns one NaN, in its fourth step."""
    register_poles(spoilt_step=4)
    yield
    register_poles()


def test_steps_that_a_number_that_is_not_finite_touches_are_not_valid(spoilt_poles, tmp_path):
    with Collector([*FLAGS, "--serial_mode=True", "--on_bad_numbers=skip", f"--train_dir={tmp_path}"]) as collector:
        batch = next(collector)
        assert (~batch["valid"]).nonzero()[:, 1].tolist() == [3, 4], "the step that led to it, and the one from it on"
        assert torch.isfinite(batch["observations"]["obs"]).all()
        assert next(collector)["valid"].all()


@pytest.fixture
def limited_poles(module_registry):
    register_poles(limit=3)
    yield
    register_poles()


def test_final_values_are_there_without_a_flag(limited_poles, make_collector):
    collector = make_collector()
    batch, policy = next(collector), collector.policy
    with torch.no_grad():
        observations = policy.normalize({"obs": torch.ones(1, 4)})
        _, value, _ = policy(observations, torch.zeros(1, policy.state_size))
    assert batch["truncated"].nonzero()[:, 1].tolist() == [2] * NUM_TRAJECTORIES
    assert value.abs().item() > 1e-3
    assert torch.allclose(batch["final_values"][:, 2], value.expand(NUM_TRAJECTORIES), atol=1e-5)


def test_a_collector_that_was_shut_down_takes_no_commands(make_collector):
    collector = make_collector()
    collector.shutdown()
    with pytest.raises(CollectorError, match="has been shut down: make a new one"):
        collector.set_post_collect_hook(None)
    assert collector.disable_profile() == [], "its captures have ended with it"


def test_shutting_down_in_the_loop_ends_it(make_collector):
    collector = make_collector()
    for number, _ in enumerate(collector):
        if number == 1:
            collector.shutdown()
    assert number == 1


@pytest.fixture
def failing_poles(module_registry):
    register_poles(fail_at_step=10)
    yield
    register_poles()


def test_a_worker_that_fails_raises_in_the_loop_with_its_traceback(failing_poles, make_collector):
    collector = make_collector()
    with pytest.raises(CollectorError, match=r"RolloutWorker_w.*the pole fell on the lamp") as raised:
        for _ in collector:
            pass
    traceback = str(raised.getrepr(style="short"))
    assert "in step" in traceback
    assert "SteppingGroup" in traceback or "stepping_group.py" in traceback
    with pytest.raises(CollectorError, match="the pole fell on the lamp"):
        next(collector)
    with pytest.raises(CollectorError, match="the pole fell on the lamp"):
        collector.map_fn("disable_profile", [()] * 2)


def test_a_worker_that_is_killed_raises_in_the_loop(module_registry, tmp_path):
    of_others = set(find_workers())  # of the module's collector; process numbers may have begun anew meanwhile
    with Collector([*FLAGS, f"--train_dir={tmp_path}"]) as collector:
        next(collector)
        os.kill(max(set(find_workers()) - of_others), signal.SIGKILL)
        with pytest.raises(CollectorError, match=r"its process was killed by signal 9 \(SIGKILL\)"):
            for _ in collector:
                pass


def test_a_process_that_the_kernel_ends_for_want_of_memory_is_told_with_what_all_had(
    module_registry, tmp_path, monkeypatch
):
    counts = {Path("vmstat"): 3}
    monkeypatch.setattr(memory_watch, "count_kills", lambda _: dict(counts))
    of_others = set(find_workers())
    with Collector([*FLAGS, f"--train_dir={tmp_path}"]) as collector:
        next(collector)
        counts[Path("vmstat")] += 1
        os.kill(max(set(find_workers()) - of_others), signal.SIGKILL)
        message = r"its process .*was ended by the kernel for want of memory: it had .*the others: "
        with pytest.raises(CollectorError, match=message):
            for _ in collector:
                pass


def test_what_cannot_be_sent_to_a_worker_is_an_error_here(collector):
    if collector.config.serial_mode:
        pytest.skip("nothing is sent")
    with pytest.raises(ValueError, match=r"cannot be sent to the worker processes.*--serial_mode=True"):
        collector.set_post_collect_hook(threading.Lock().acquire)
    next(collector)


def test_a_collector_that_is_forgotten_takes_its_workers_with_it(module_registry, tmp_path):
    before = find_workers()
    collector = Collector([*FLAGS, f"--train_dir={tmp_path}"])
    next(collector)
    assert len(find_workers()) == len(before) + 1 + NUM_WORKERS
    del collector
    gc.collect()
    assert find_workers() == before


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "keep = collector, lambda: collector"])
def test_the_exit_of_the_interpreter_ends_all_workers(ending, tmp_path):
    program = f"""
        import sample_profiler

        def make(name, cfg, placement, *, render_mode=None):
            import gymnasium
            return gymnasium.make("CartPole-v1")

        sample_profiler.register_env("pole", make)
        if __name__ == "__main__":
            import multiprocessing
            from sample_profiler import Collector
            collector = Collector([*{FLAGS!r}, "--num_workers=1", "--train_dir={tmp_path}"])
            next(collector)
            print(*(child.pid for child in multiprocessing.active_children()))
            {ending}
    """
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    before = {child.pid for child in psutil.Process().children()}
    result = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    pids = [int(pid) for pid in result.stdout.split()]
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    reap_orphans(before)


def test_one_policy_is_sampled_for(module_registry):
    with pytest.raises(ConfigError, match="--num_policies=2: a Collector samples for one policy"):
        Collector([*FLAGS, "--num_policies=2"])


def test_a_policy_of_another_shape_is_an_error_that_says_which(module_registry, tmp_path):
    with Collector([*FLAGS, "--serial_mode=True", f"--train_dir={tmp_path}"]) as collector:
        policy = collector.policy
    with pytest.raises(ValueError, match=r"the policy is not the network.*is \(\(2, 8\).*instead of \(\(2, 16\)"):
        Collector([*FLAGS[:-5], "--encoder_mlp_layers", "16", "--serial_mode=True"], policy=policy)


def test_the_callers_random_numbers_and_timing_are_left_alone(module_registry, tmp_path):
    torch.manual_seed(7)
    state = torch.random.get_rng_state()
    timing = sample_profiler.get_timing()
    with Collector([*FLAGS, "--serial_mode=True", f"--train_dir={tmp_path}"]) as collector:
        assert torch.equal(torch.random.get_rng_state(), state)
        next(collector)
        assert sample_profiler.get_timing() is timing
    assert sample_profiler.get_timing() is timing


def test_workers_log_into_the_callers_log(module_registry, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with Collector([*FLAGS, f"--train_dir={tmp_path}"]) as collector:
        hook = _logging_hook()
        collector.set_post_collect_hook(hook)
        for _ in range(3):
            next(collector)
    assert "said by worker 1" in caplog.text


def _logging_hook():
    def hook(worker, rollout):
        import logging

        logging.getLogger("hook").warning("said by worker %d", worker)

    return hook


def test_shared_memory_that_a_worker_has_told_of_is_removed_in_the_end(module_registry, tmp_path):
    path = Path(make_shared_name())

    def hook(*_):
        from sample_profiler.runtime.processes.child import report_shared_memory

        path.touch()
        report_shared_memory([str(path)])

    try:
        with Collector([*FLAGS, f"--train_dir={tmp_path}"]) as collector:
            collector.set_post_collect_hook(hook)
            for _ in range(2):
                next(collector)
            assert path.exists()
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def test_nothing_but_the_memory_is_shared_and_the_run_folder_is_left_alone(module_registry, tmp_path):
    with Collector([*FLAGS, "--serial_mode=True", f"--train_dir={tmp_path}"]) as collector:
        batch = next(collector)
        assert np.isfinite(batch["values"].numpy()).all()
    assert list(Path(tmp_path).iterdir()) == []


def test_slots_that_are_withheld_at_first_are_filled_after_the_first_batch(module_registry, tmp_path, monkeypatch):
    batches = []

    def copy(memory, slots, *rest):
        batches.append(set(slots))
        return copy_trajectories(memory, slots, *rest)

    monkeypatch.setattr(collector_backends, "copy_trajectories", copy)
    flags = [*FLAGS, "--async_rl=True", "--serial_mode=True", f"--train_dir={tmp_path}"]
    with Collector(flags) as collector:
        withheld = set(collector._backend._blueprint.plan.later_slots(0))
        for _ in range(10):
            next(collector)
    assert withheld
    assert not batches[0] & withheld
    assert withheld <= set.union(*batches)


@pytest.mark.parametrize(("flushes", "failure", "num_looks"), [(3, None, 2), (99, "a worker died", 0), (99, None, 5)])
def test_a_command_larger_than_a_pipe_is_delivered_while_reports_are_taken(monkeypatch, flushes, failure, num_looks):
    """A worker that waits for room for its reports reads no commands; a failure or the end of time ends it."""
    taken, clock = [], iter(range(100))
    left = iter([False] * (flushes - 1) + [True])
    monkeypatch.setattr(
        collector_processes, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    )
    backend = object.__new__(collector_processes.ProcessBackend)
    backend._caller = SimpleNamespace(failure=failure, handle_reports=taken.append)
    backend._supervisor = SimpleNamespace(
        flush=lambda: next(left), beat=lambda: None, children=[SimpleNamespace(reports=SimpleNamespace(receive=list))]
    )
    backend._is_shut_down, backend._deadline_s = True, 5
    backend._deliver()
    assert len(taken) == num_looks
