"""What holds several ranks up is put into their way, and the verdict on the first of them names it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.runs import SMALL, running
from sample_profiler.reports.run_report.loading import load_report

pytestmark = pytest.mark.alone

SCRIPT = """
import os
import sys
import time

import gymnasium

import sample_profiler

os.environ |= {"LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "lo"}  # as if each had a machine
IS_LAST, INJECTED = os.environ["RANK"] == "1", os.environ["INJECTED"]


class Slow(gymnasium.Wrapper):
    def step(self, action):
        if INJECTED == "slow environments" and IS_LAST:
            time.sleep(0.01)
        return self.env.step(action)


def make(name, cfg, placement, *, render_mode=None):
    return Slow(gymnasium.make("CartPole-v1"))


def slow_down(owner, name, seconds):
    original = getattr(owner, name)

    def slow(*arguments):
        time.sleep(seconds)
        return original(*arguments)

    setattr(owner, name, slow)


if INJECTED != "slow environments":  # in the processes of components, too, which read this file as well
    from sample_profiler.ppo.ranks import ConnectedRanks
    from sample_profiler.ppo.trainer import Trainer

    if INJECTED == "slow network":
        slow_down(ConnectedRanks, "_wait", 0.1)
    elif IS_LAST:
        slow_down(Trainer, "train_minibatch", 0.5)

if __name__ == "__main__":
    sample_profiler.register_env("slow", make)
    sys.exit(sample_profiler.train(sys.argv[1:]))
"""
FLAGS = (
    *SMALL,
    *(
        "--env=slow",
        "--experiment=run",
        "--num_workers=1",
        "--num_envs_per_worker=8",
        "--batch_size=128",
        "--use_rnn=False",
    ),
    *("--async_rl=True", "--device=cpu", "--train_for_env_steps=8000"),
)


@pytest.mark.parametrize(
    ("injected", "cause", "headline"),
    [
        ("slow environments", "ranks", "Another rank is the limit: all wait for rank 1"),
        ("slow learner", "ranks", "Another rank is the limit: all wait for rank 1 in each step"),
        ("slow network", "all-reduce", "Adding up gradients is the limit"),
    ],
)
def test_the_verdict_names_what_holds_ranks_up(tmp_path: Path, injected: str, cause: str, headline: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    words = [*launcher, *FLAGS, f"--train_dir={tmp_path}"]
    with running(words, tmp_path / "log", tmp_path / "run", INJECTED=injected) as live:
        assert live.process.wait(150) == 0, live.output
    verdict = load_report(tmp_path / "run").verdict
    assert (verdict.cause, verdict.headline[: len(headline)]) == (cause, headline), live.output
