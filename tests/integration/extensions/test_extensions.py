"""Components of one's own in real runs, in processes of their own and in serial mode."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import pytest

from harness.runs import command, run, running
from sample_profiler import enjoy
from sample_profiler.cli.main import main
from sample_profiler.profiling import read_session
from tests.integration.extensions import extended_runs as extended_runs  # registers the environments for `enjoy`
from tests.integration.learning.test_evaluation import read_scalars

SMALL = ("--num_workers=2", "--num_envs_per_worker=4", "--rollout=16", "--device=cpu", "--num_epochs=1", "--seed=3")
TINY = (*SMALL, "--batch_size=128", "--encoder_mlp_layers=16")
WIRINGS = pytest.mark.parametrize("serial", [False, True], ids=["parallel", "serial"])


def train(which: str, *flags: str, folder: Path, serial: bool = False, **environment: str):
    return run(
        "tests.integration.extensions.extended_runs",
        *flags,
        f"--serial_mode={serial}",
        folder=folder,
        WHICH=which,
        **environment,
    )


def heard_in(output: str, what: str = "HEARD"):
    return json.loads(re.findall(rf"{what} (.*)$", output, re.MULTILINE)[-1])


@WIRINGS
def test_a_component_of_ones_own_hears_signals_and_is_recorded_as_all_others_are(serial: bool, tmp_path: Path) -> None:
    result = train("reporter", *TINY, "--train_for_env_steps=4096", folder=tmp_path, serial=serial)
    assert result.returncode == 0, result.stdout
    heard = heard_in(result.stdout)
    assert heard["TrainingStep"] >= 4096 // 128
    assert heard["WeightsPublished"] == heard["TrainingStep"] + 1
    assert heard["CheckpointSaved"] >= 1 and heard["EpisodesFinished"] >= 1
    assert heard["Started"] == heard["Stopping"] == 1, "those of the Runner"
    told = heard_in(result.stdout, "TOLD")
    assert sorted(told[:3]) == ["Started Learner_0", "Started Reporter", "Started Runner"]
    assert told[3] == f"Stopping Runner, components {'are' * (not serial)}", "before they end"
    assert (sorted(told[4:6]), told[6:]) == (["Stopped Learner_0", "Stopped Reporter"], ["Stopped Runner"])
    assert "Reporter profile tree view:" in result.stdout
    assert re.search(r"^\S*Reporter +[\d.]+ s ", result.stdout, re.MULTILINE), "its row in the accounts"
    (tree,) = (p.trees["Reporter"] for p in read_session(tmp_path / "run").processes if "Reporter" in p.trees)
    assert "training_step" in {key for child in tree.children.values() for key in child.block_keys()}
    assert ("Started Reporter as process" in result.stdout) is not serial


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_the_end_of_one_that_had_not_begun_is_told_and_never_its_start(number: int, tmp_path: Path) -> None:
    flags = (*TINY, "--train_for_seconds=90", "--save_every_sec=1")
    words = command("tests.integration.extensions.extended_runs", *flags, folder=tmp_path)
    own = {"WHICH": "reporter", "STARTS_FOREVER": "1"}
    with running(words, tmp_path / "output.txt", tmp_path / "run", **own) as live:
        live.wait_until_training()
        live.process.send_signal(number)
        assert live.wait(30) == 128 + number, live.output
        assert live.left_over() == []
    assert "Ended before they had begun: Reporter" in live.output
    told = heard_in(live.output, "TOLD")
    assert sorted(told[:2]) == ["Started Learner_0", "Started Runner"]
    assert told[2] == "Stopping Runner, components are"
    assert (sorted(told[3:5]), told[5:]) == (["Stopped Learner_0", "Stopped Reporter"], ["Stopped Runner"])


def test_one_is_captured_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (*TINY, "--train_for_seconds=90", "--save_every_sec=1")
    words = command("tests.integration.extensions.extended_runs", *flags, folder=tmp_path)
    with running(words, tmp_path / "output.txt", tmp_path / "run", WHICH="reporter") as live:
        live.wait_until_training()
        for tool, told in {"timeline": r"blocks of Reporter\n", "cprofile": r"\n  Reporter  1\.\d s\n"}.items():
            words = ["capture", str(live.folder), f"--tool={tool}", "--seconds=1", "--components"]
            assert main([*words, "Reporter"]) == 0, capsys.readouterr().err
            assert re.search(told, capsys.readouterr().out), tool
            assert main([*words, "reporter"]) == 2
            assert re.search("unknown components reporter; .* the run has .*Reporter", capsys.readouterr().err), tool


@WIRINGS
def test_one_that_raises_ends_the_run_unless_it_may_be_lost(serial: bool, tmp_path: Path) -> None:
    result = train("reporter", *TINY, "--train_for_env_steps=8192", folder=tmp_path, serial=serial, FAILS="raise")
    assert result.returncode == 1
    assert "The run failed: Reporter: ValueError: mine alone" in result.stdout
    flags = (*TINY, "--train_for_env_steps=8192", "--experiment=other")
    result = train("dispensable", *flags, folder=tmp_path, serial=serial, FAILS="raise")
    assert result.returncode == 0, result.stdout
    assert "Dispensable failed: ValueError: mine alone" in result.stdout
    assert "Dispensable is lost: the run goes on without it" in result.stdout
    assert "Dispensable profile tree view:" in result.stdout


def test_one_that_is_killed_ends_the_run_unless_it_may_be_lost_and_its_tree_stands(tmp_path: Path) -> None:
    result = train("reporter", *TINY, "--train_for_env_steps=8192", folder=tmp_path, FAILS="kill")
    assert result.returncode == 1
    assert "The run failed: Reporter: its process was killed by signal 9 (SIGKILL)" in result.stdout
    assert "Reporter profile tree view:" in result.stdout
    flags = (*TINY, "--train_for_env_steps=8192", "--experiment=other")
    result = train("dispensable", *flags, folder=tmp_path, FAILS="kill")
    assert result.returncode == 0, result.stdout
    assert "Dispensable is lost: the run goes on without it" in result.stdout
    assert "Dispensable profile tree view:" in result.stdout
    assert "did not end" not in result.stdout


@WIRINGS
def test_difficulty_rises_as_episodes_get_better(serial: bool, tmp_path: Path) -> None:
    flags = (*SMALL, "--batch_size=256", "--train_for_seconds=80", "--stop_at=difficulty>=2", "--stats_avg=20")
    flags = (*flags, "--experiment_summaries_interval=1")
    result = train("curriculum", *flags, folder=tmp_path, serial=serial)
    assert result.returncode == 0, result.stdout
    assert "The run has ended: difficulty>=2" in result.stdout
    raised = [int(level) for level in re.findall(r"difficulty (\d) from now on", result.stdout)]
    assert raised == list(range(1, len(raised) + 1))
    assert len(raised) >= 2
    scalars = read_scalars(tmp_path / "run" / "summary" / "0")
    assert [value for _, value in scalars["curriculum/difficulty"]] == raised
    seen = [value for _, value in scalars["policy_stats/avg_difficulty"]]
    # Means of the latest episodes: on a busy machine one worker may still report what another has left behind.
    assert seen[-1] > max(1, seen[0])


@WIRINGS
def test_an_evaluator_returns_what_enjoy_does_of_the_same_weights_and_seed(
    serial: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (*SMALL, "--batch_size=512", "--encoder_mlp_layers=16", "--save_every_sec=1", "--keep_checkpoints=100")
    result = train("evaluator", *flags, "--train_for_seconds=14", folder=tmp_path, serial=serial)
    assert result.returncode == 0, result.stdout
    assert "Evaluation of policy 0 after" in result.stdout
    assert "EvaluationFinished LatestWeights" in heard_in(result.stdout, "TOLD")
    played = dict(re.findall(r"Weights of (\d+) optimizer steps: returns (.*)$", result.stdout, re.MULTILINE))
    checkpoints = tmp_path / "run" / "checkpoint_p0"
    saved = {int(path.name.split("_")[1]) for path in checkpoints.glob("checkpoint_*.pth")}
    both = sorted(steps for steps in map(int, played) if steps in saved)
    assert both and both[-1] > 0, (played, saved)
    for path in checkpoints.glob("checkpoint_*.pth"):
        if int(path.name.split("_")[1]) != both[-1]:
            path.unlink()
    shutil.rmtree(checkpoints / "milestones", ignore_errors=True)
    capsys.readouterr()
    own = ["--env=slow_pole", f"--train_dir={tmp_path}", "--experiment=run", "--no_render", "--max_num_episodes=3"]
    assert enjoy(own) == 0
    returns = re.findall(r"^Episode \d: reward ([\d.]+)", capsys.readouterr().out, re.MULTILINE)
    assert ", ".join(returns) == played[str(both[-1])]
