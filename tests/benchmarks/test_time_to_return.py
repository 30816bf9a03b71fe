"""Who gets to a return first: runs take turns and are kept, and the table tells of those that never got there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import time_to_return
from benchmarks.measuring.frameworks import return_runs
from benchmarks.measuring.frameworks.return_runs import Installation, make_return_run
from benchmarks.measuring.frameworks.return_tasks import FRAMEWORKS, RETURN_TASKS, ReturnTask
from benchmarks.peers import returns as returns_module
from benchmarks.peers.returns import Returns
from sample_profiler.config import parse_config
from sample_profiler.envs.gymnasium_ids import GYM_DEFAULTS
from sf_examples.mujoco.mujoco_env import MUJOCO_DEFAULTS


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(returns_module.time, "time", lambda: now[0])
    monkeypatch.setenv("BENCHMARK_BEGAN", "90.0")
    return now


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_the_mean_of_a_hundred_episodes_is_good_enough_and_what_follows_changes_nothing(clock, tmp_path):
    with Returns(str(tmp_path / "told.json"), 10, 60) as returns:
        for number in range(99):
            returns.end_episode(1000.0, number)
        assert not returns.is_over, "99 are no hundred"
        clock[0] = 120.0
        returns.end_episode(1000.0, 640)
        assert returns.is_over
        clock[0] = 130.0
        returns.end_episode(-1e9, 700)
    assert read(tmp_path / "told.json") == {
        "seconds": 30.0, "frames": 640, "is_reached": True, "curve": [[640, 30.0, 1000.0]],
    }  # fmt: skip


def test_only_the_latest_hundred_count(clock, tmp_path):
    with Returns(str(tmp_path / "told.json"), 10, 60) as returns:
        for number in range(100):
            returns.end_episode(0.0, number)
        for number in range(99):
            returns.end_episode(10.0, 100 + number)
        assert not returns.is_over
        returns.end_episode(10.0, 199)
        assert returns.is_over


def test_time_that_is_over_is_told_with_the_frames_so_far(clock, tmp_path):
    with Returns(str(tmp_path / "told.json"), 10, 60) as returns:
        returns.end_episode(0.0, 640)
        clock[0] = 151.0
        assert returns.is_over
    assert read(tmp_path / "told.json") == {"seconds": 61.0, "frames": 640, "is_reached": False, "curve": []}


TASK = ReturnTask(RETURN_TASKS["cartpole"].ours, 60, {"sb3": ("stable_baselines3", "{}"), "cleanrl": ("ppo.py",)})


def make_run(seconds, is_reached=True):
    return {"seconds": seconds, "frames": round(1000 * seconds), "is_reached": is_reached, "curve": []}


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Runs that are made; SB3 takes twice as long, and with seed 3 too long."""
    runs = []

    def make(task, framework, seed, installation):
        runs.append((framework, seed, installation.python))
        return make_run(60.0, is_reached=False) if (framework, seed) == ("sb3", 3) else make_run(
            (20.0 if framework == "sb3" else 10.0) + seed
        )  # fmt: skip

    monkeypatch.setattr(time_to_return, "make_return_run", make)
    monkeypatch.setattr(time_to_return, "read_versions", lambda python: {"python": "3.11.7"})
    monkeypatch.setattr(time_to_return, "end_when_told", lambda: None)
    monkeypatch.setitem(RETURN_TASKS, "cartpole", TASK)
    return runs


def test_frameworks_take_turns_and_runs_that_are_there_are_not_made_again(made, tmp_path, capsys):
    flags = [f"--output={tmp_path}", "--sb3-python=/venv/python"]
    assert time_to_return.main([*flags, "--seeds", "1", "2"]) == 0
    assert [run[:2] for run in made] == [("ours", 1), ("sb3", 1), ("sb3", 2), ("ours", 2)]
    assert {python for framework, _, python in made if framework == "sb3"} == {"/venv/python"}
    assert time_to_return.main([*flags, "--seeds", "1", "2", "3"]) == 0
    assert [run[:2] for run in made[4:]] == [("ours", 3), ("sb3", 3)]
    assert "cartpole, seed 3, sb3: not in 60.0 s and 60,000 frames" in capsys.readouterr().out
    assert time_to_return.main([f"--output={tmp_path}", "--only-table"]) == 0
    assert len(made) == 6
    table = (tmp_path / "time-to-return-cartpole.md").read_text()
    assert "| ours | 3 of 3 | 12.0 (11.0 to 13.0) | 12,000 (11,000 to 13,000) |  | 11.0, 12.0, 13.0 |" in table
    figures = "| 2 of 3 | 22.0 (21.0 to 22.0) | 22,000 (21,000 to 22,000) | 1.83 ×, p = 0.250 | 21.0, 22.0, > 60.0 |"
    assert f"| sb3 {figures}" in table
    assert "- sb3 (python 3.11.7): `stable_baselines3 {}`" in table and "sbx" not in table


def test_a_table_of_no_runs_is_an_error(made, tmp_path):
    with pytest.raises(SystemExit, match=r"there are no runs in .*time-to-return-cartpole\.jsonl"):
        time_to_return.main([f"--output={tmp_path}", "--only-table"])


def test_cleanrl_takes_an_interpreter_and_its_scripts(made, tmp_path, capsys):
    with pytest.raises(SystemExit):
        time_to_return.main([f"--output={tmp_path}", "--cleanrl-python=python"])
    assert "takes both --cleanrl-python and --cleanrl-folder" in capsys.readouterr().err


def test_a_peer_that_prints_its_episodes_is_read_until_they_are_good_enough(tmp_path):
    script = tmp_path / "scripts" / "ppo.py"
    script.parent.mkdir()
    script.write_text(
        "import sys, time\n"
        "assert sys.argv[1:] == ['--seed=7'], sys.argv\n"
        "for step in range(200):\n"
        "    print(f'global_step={step}, episodic_return=[{480 if step else -150}.]', flush=True)\n"
        "time.sleep(60)\n"
    )
    task = ReturnTask(TASK.ours, 30, {"cleanrl": ("scripts/ppo.py",)})
    seen = make_return_run(task, "cleanrl", 7, Installation(sys.executable, tmp_path))
    assert (seen["is_reached"], seen["frames"]) == (True, 100)
    assert 0 < seen["seconds"] <= seen["wall_s"] + 0.1 < 30 and len(seen["curve"]) == 2


def test_a_run_that_fails_is_told_with_its_last_words(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "ppo.py").write_text("raise SystemExit('no such environment')\n")
    task = ReturnTask(TASK.ours, 30, {"cleanrl": ("scripts/ppo.py",)})
    with pytest.raises(SystemExit, match=r"(?s)ended with status 1; the end of what it said:\nno such environment"):
        make_return_run(task, "cleanrl", 7, Installation(sys.executable, tmp_path))


NEVER = {"threshold": "reward>=475", "process_s": None, "frames": None}
REACHED = {"threshold": "reward>=475", "process_s": 12.25, "frames": 800}


@pytest.mark.parametrize(("entry", "told"), [(NEVER, (21.5, 9000, False)), (REACHED, (12.25, 800, True))])
def test_ours_is_told_by_its_own_figures(entry, told, monkeypatch):
    commands = []

    def execute(command, most_s, folder):
        commands.append(command)
        (folder / "run").mkdir()
        benchmark = {"process_s": 21.5, "frames": {"0": 9000}, "thresholds": [entry]}
        (folder / "run" / "benchmark.json").write_text(json.dumps(benchmark))

    monkeypatch.setattr(return_runs, "_execute", execute)
    monkeypatch.setattr(return_runs, "read_curve", lambda *_: [[1, 2.0, 3.0]])
    seen = make_return_run(TASK, "ours", 5, Installation())
    assert (seen["seconds"], seen["frames"], seen["is_reached"]) == told
    assert {"--stop_at=475", "--thresholds=475", "--train_for_seconds=60", "--seed=5"} <= set(commands[0])


@pytest.mark.parametrize("name", RETURN_TASKS)
def test_the_flags_of_each_side_can_be_read(name):
    task = RETURN_TASKS[name]
    defaults = MUJOCO_DEFAULTS if "mujoco" in task.ours.module else GYM_DEFAULTS
    assert parse_config(list(task.ours.flags), defaults=defaults).saving.train_for_env_steps < 10**8
    assert set(task.peers) <= set(FRAMEWORKS)
    for framework in ("sb3", "sbx"):
        library, settings = task.peers[framework]
        assert json.loads(settings)["n_timesteps"] >= 100_000 and library in ("stable_baselines3", "sbx")
