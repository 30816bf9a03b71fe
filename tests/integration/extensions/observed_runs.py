"""A training script with a slow observer and message handler, and a quick one of each. Run by test_observers.py."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from sample_profiler import RunObserver, register_env
from sample_profiler.components.messages import EpisodesFinished

register_env("pole", lambda name, cfg, placement, render_mode=None: __import__("gymnasium").make("CartPole-v1"))


class Slow(RunObserver):
    def on_init(self, runner):
        runner.register_message_handler(EpisodesFinished, take_slowly)

    def on_training_step(self, runner, training_iteration):
        time.sleep(0.4)


def take_slowly(runner, message):
    time.sleep(0.4)


class Quick(RunObserver):
    def __init__(self):
        self.steps, self.num_episodes = [], 0

    def on_init(self, runner):
        runner.register_message_handler(EpisodesFinished, self.count)

    def count(self, runner, message):
        self.num_episodes += len(message.episodes)

    def on_training_step(self, runner, training_iteration):
        self.steps.append(training_iteration)

    def on_stop(self, runner):
        status = runner.statistics.status()
        facts = {"steps": self.steps, "episodes": [self.num_episodes, status.num_episodes[0]]}
        Path(os.environ["TOLD"]).write_text(json.dumps(facts))


if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train(observers=[Slow(), Quick()]))
