"""Real runs of every family end by themselves with the trees of every component."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from harness.runs import CARTPOLE, COLLECTED, DOOM, SMALL, load_latest_checkpoint, run
from sample_profiler import load_policy
from sample_profiler.errors import CheckpointError
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.run_folder import RunFolder

TREES = ("Batcher 0", "InferenceWorker_p0-w0", "Learner 0", "RolloutWorker_w0", "RolloutWorker_w1", "Runner")


def collected(output: str) -> dict[int, int]:
    match = COLLECTED.search(output)
    assert match, output
    return {int(policy): int(frames) for policy, frames in re.findall(r"(\d+): (\d+)", match[1])}


def last_reward(output: str) -> float:
    return float(re.findall(r"reward (-?[\d.]+)", output)[-1])


def trees_of(folder: Path) -> dict[str, TreeNode]:
    """Return the trees in a run's session, by component."""
    return {
        name: tree
        for record in Session.load(RunFolder(folder).session).processes
        for name, tree in record.trees.items()
    }


def test_vizdoom_trains_in_parallel_and_shows_every_tree(tmp_path: Path) -> None:
    result = run(*DOOM, "--train_for_env_steps=6000", "--benchmark=True", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    for name in TREES:
        assert f"{name} profile tree view:" in result.stdout
    # Frames are agent steps x frameskip, a whole number of batches of 32 steps.
    frames = collected(result.stdout)[0]
    assert frames >= 6000
    assert frames % (32 * 4) == 0
    for block in ("env_step", "enqueue_policy_requests", "handle_policy_step", "forward", "batching", "main_loop"):
        assert re.search(rf"\b{block}: \d+\.\d{{4}}", result.stdout), block
    folder = tmp_path / "run"
    trees = trees_of(folder)
    assert set(trees) >= {"Learner_0", "Batcher_0", "RolloutWorker_w0", "RolloutWorker_w1", "Runner"}
    benchmark = json.loads((folder / "benchmark.json").read_text())
    assert benchmark["frames"] == {"0": frames}
    assert benchmark["steady_fps"] > 0
    assert (folder / "log.txt").read_text().count("profile tree view:") >= len(TREES)
    assert list((folder / "summary" / "0").glob("events.out.tfevents*"))


def test_vizdoom_benchmark_with_another_scenario_file(tmp_path: Path) -> None:
    import vizdoom

    scenario = Path(vizdoom.scenarios_path) / "deathmatch.cfg"
    flags = [flag for flag in DOOM if not flag.startswith("--env=")]
    result = run(
        *flags, "--env=doom_benchmark", f"--doom_scenario={scenario}", "--train_for_env_steps=2000", folder=tmp_path
    )
    assert result.returncode == 0, result.stdout
    assert collected(result.stdout)[0] >= 2000


def test_cartpole_learns(tmp_path: Path) -> None:
    result = run(
        "sf_examples.gym.train_gym", "--env=CartPole-v1", "--seed=3", "--train_for_env_steps=80000", folder=tmp_path
    )
    assert result.returncode == 0, result.stdout
    assert last_reward(result.stdout) > 150  # by chance: 22


def test_recurrent_policy_learns(tmp_path: Path) -> None:
    result = run(
        "sf_examples.gym.train_gym",
        *("--env=CartPole-v1", "--seed=3", "--use_rnn=True", "--rnn_size=64", "--rollout=32", "--recurrence=16"),
        "--train_for_env_steps=80000",
        folder=tmp_path,
    )
    assert result.returncode == 0, result.stdout
    assert last_reward(result.stdout) > 80


def test_mujoco_trains_in_one_process(tmp_path: Path) -> None:
    result = run(
        "sf_examples.mujoco.train_mujoco",
        *("--env=mujoco_ant", "--serial_mode=True", "--async_rl=False", "--num_workers=2", "--num_envs_per_worker=4"),
        "--train_for_env_steps=8000",
        folder=tmp_path,
    )
    assert result.returncode == 0, result.stdout
    assert "Started" not in result.stdout  # no other process
    for name in TREES:
        assert f"{name} profile tree view:" in result.stdout


def test_an_atari_game_trains_with_the_familys_defaults_and_is_played(tmp_path: Path) -> None:
    result = run("sf_examples.atari.train_atari", "--env=atari_pong", "--train_for_env_steps=4096", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    assert collected(result.stdout) == {0: 4096}, "8 trajectories of 128 steps of 4 frames"
    assert load_latest_checkpoint(tmp_path / "run")["optimizer_steps"] == 16
    flags = ("--env=atari_pong", "--no_render", "--max_num_frames=40")
    played = run("sf_examples.atari.enjoy_atari", *flags, folder=tmp_path)
    assert played.returncode == 0, played.stdout


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "parallel"])
def test_two_policies_learn_in_an_env_of_two_agents(serial: bool, tmp_path: Path) -> None:
    result = run(
        "sf_examples.custom.two_agents",
        *("--num_policies=2", f"--serial_mode={serial}", "--async_rl=False", "--seed=1", "--num_workers=2"),
        *("--learning_rate=0.003", "--num_epochs=4", "--train_for_env_steps=30000"),
        folder=tmp_path,
    )
    assert result.returncode == 0, result.stdout
    frames = collected(result.stdout)
    assert set(frames) == {0, 1}
    assert min(frames.values()) >= 30000
    rewards = re.findall(r"reward (-?[\d.]+) (-?[\d.]+)", result.stdout)[-1]
    assert min(map(float, rewards)) > 16  # of 32; by chance: 8
    for policy in (0, 1):
        assert load_latest_checkpoint(tmp_path / "run", policy)["optimizer_steps"] > 0


@pytest.mark.parametrize("flags", [("--precision=bf16",), ("--inference=worker",)], ids=str)
def test_a_network_of_ones_own_learns_and_goes_on_from_its_checkpoint(flags: tuple[str, ...], tmp_path: Path) -> None:
    same = ("--seed=1", "--num_workers=1", "--num_envs_per_worker=16", *flags)
    for num_steps in (40_000, 80_000):
        module = "sf_examples.custom.train_own_actor_critic"
        result = run(module, *same, f"--train_for_env_steps={num_steps}", folder=tmp_path)
        assert result.returncode == 0, result.stdout
        assert min(collected(result.stdout).values()) >= num_steps
    assert last_reward(result.stdout) > 5  # of 20; at first below -10
    with pytest.raises(CheckpointError, match="register the same"):
        load_policy(tmp_path / "run")


def test_blocks_of_a_custom_env_appear_below_env_step(tmp_path: Path) -> None:
    result = run(
        "sf_examples.custom.train_custom_env", "--train_for_env_steps=3000", "--num_workers=2", folder=tmp_path
    )
    assert result.returncode == 0, result.stdout
    trees = trees_of(tmp_path / "run")
    step = trees["RolloutWorker_w0"].to_dict()["children"]["env_step"]
    own = set(step["children"]) - {"env_reset"}
    assert own, step


@pytest.mark.parametrize("flag", ["--with_vtrace=True", "--value_bootstrap=True", "--rnn_type=lstm"])
def test_options_of_training_run(flag: str, tmp_path: Path) -> None:
    result = run(
        *CARTPOLE, *SMALL, "--use_rnn=True", "--rnn_size=16", flag, "--serial_mode=True", "--train_for_env_steps=2000",
        folder=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout


def test_run_ends_after_seconds(tmp_path: Path) -> None:
    result = run(*CARTPOLE, *SMALL, "--train_for_seconds=3", folder=tmp_path, timeout_s=40)
    assert result.returncode == 0, result.stdout
    assert "as many seconds as asked" in result.stdout


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "parallel"])
def test_a_run_ends_when_it_is_as_good_as_asked_and_counts_on_when_more_is_asked(serial: bool, tmp_path: Path) -> None:
    flags = ("sf_examples.gym.train_gym", "--env=CartPole-v1", "--seed=3", "--thresholds=30,1000", "--stats_avg=30")
    flags = (*flags, f"--serial_mode={serial}", "--num_workers=2", "--train_for_env_steps=200000")
    first = run(*flags, "--stop_at=reward>=40", folder=tmp_path)
    assert first.returncode == 0, first.stdout
    assert re.search(
        r"The run has ended: reward>=40, on average over the latest 30 episodes, after [\d.]+ s .* frames", first.stdout
    )
    path = tmp_path / "run" / "benchmark.json"
    before = json.loads(path.read_text())
    reached, never = before["thresholds"]
    assert 0 < reached["frames"] <= before["stop_at"][0]["frames"] <= before["frames"]["0"] < 200_000
    assert 0 < reached["run_s"] < reached["process_s"] < before["process_s"]
    assert (never["run_s"], never["process_s"], never["frames"]) == (None, None, None)
    assert "Threshold reward>=1000: not reached" in first.stdout.splitlines()[-3]
    again = run(*flags, folder=tmp_path)
    assert again.returncode == 0 and "Nothing to train: --stop_at was reached before" in again.stdout
    assert json.loads(path.read_text()) == before
    more = run(*flags, "--stop_at=len>=60", folder=tmp_path)
    assert more.returncode == 0, more.stdout
    after = json.loads(path.read_text())
    assert after["thresholds"] == before["thresholds"]
    assert after["stop_at"][0]["run_s"] > before["stop_at"][0]["run_s"]
    assert after["stop_at"][0]["frames"] >= before["stop_at"][0]["frames"]


def test_serial_and_parallel_runs_have_the_same_statistics(tmp_path: Path) -> None:
    """An untrained policy, the same in both wirings, names as many cues and gets as far."""
    means = []
    for serial in (True, False):
        flags = ("--learning_rate=1e-12", "--normalize_input=False", "--seed=5", "--stats_avg=2000", "--async_rl=False")
        result = run(
            "sf_examples.custom.two_agents",
            *(*flags, f"--serial_mode={serial}", "--num_workers=2", "--train_for_env_steps=20000"),
            folder=tmp_path,
            experiment=f"serial_{serial}",
        )
        assert result.returncode == 0, result.stdout
        means.append(last_reward(result.stdout))
    # About 600 episodes each with a standard deviation of 2: the difference has one of 0.1.
    assert means[0] == pytest.approx(means[1], abs=0.5)
    assert 4 < means[0] < 16


def test_tensorboard_has_the_figures(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event

    result = run(*CARTPOLE, *SMALL, "--train_for_env_steps=20000", "--serial_mode=True", folder=tmp_path)
    assert result.returncode == 0, result.stdout
    paths = (tmp_path / "run" / "summary" / "0").glob("events.out.tfevents*")
    data, tags = b"".join(path.read_bytes() for path in paths), set()
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        tags |= {value.tag for value in Event.FromString(data[12 : 12 + size]).summary.value}
        data = data[12 + size + 4 :]
    assert tags >= {"reward/reward", "len/len", "perf/_fps", "train/policy_loss", "train/value_loss", "perf/verdict"}
