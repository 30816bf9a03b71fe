"""Training scripts with components of their own. Run by test_extensions.py; the first word says which one."""

from __future__ import annotations

import json
import logging
import os
import sys
import time

import gymnasium
import psutil

from sample_profiler import RunComponent, RunObserver, register_env
from sample_profiler.cli.train import train
from sf_examples.custom.curriculum import DEFAULTS, CurriculumServer
from sf_examples.custom.evaluator import LatestWeights

logger = logging.getLogger("extended")


class SlowPole(gymnasium.Wrapper):
    """The Learner waits for it most of the time: weights are the same for a while."""

    def step(self, action):
        time.sleep(0.001)
        return self.env.step(action)


register_env("slow_pole", lambda *_, **__: SlowPole(gymnasium.make("CartPole-v1")))


class Reporter(RunComponent):
    """Hears everything; fails as it is told to, by a command of its own."""

    def on_connect_components(self, runner):
        signals = runner.signals
        for signal in (signals.started, signals.training_step, signals.weights_published, signals.checkpoint_saved,
                       signals.episodes_finished, signals.stopping):  # fmt: skip
            signal.connect(self.hear)

    def on_start(self):
        self.heard = {}
        while os.environ.get("STARTS_FOREVER"):
            self.run.beat()
            time.sleep(0.1)

    def commands(self):
        return {"fail": self.fail}

    def hear(self, payload):
        name = type(payload).__name__
        self.heard[name] = self.heard.get(name, 0) + 1
        if self.heard.get("TrainingStep") == 3 and os.environ.get("FAILS"):
            self.fail(os.environ["FAILS"])

    def fail(self, how):
        if how == "raise":
            raise ValueError("mine alone")
        if how == "kill" and self.run.config.sampling.serial_mode is False:
            os.kill(os.getpid(), 9)

    def on_stop(self):
        logger.info("HEARD %s", json.dumps(self.heard))


class Dispensable(Reporter):
    may_be_lost = True


class Watching(RunObserver):
    def __init__(self):
        self.told = []

    def on_connect_components(self, runner):
        own = ["Reporter"] if os.environ["WHICH"] == "reporter" else []
        for name in ("Learner_0", *own, runner.signals.started.sender):
            for signal in (runner.component(name).started, runner.component(name).stopped):
                signal.connect(self.hear)
        runner.signals.evaluation_finished.connect(self.hear)
        runner.signals.stopping.connect(self.hear_of_stopping)

    def hear_of_stopping(self, payload):
        are_there = bool(psutil.Process().children())
        self.told.append(f"Stopping {payload.component}, components {'are' * are_there}")

    def hear(self, payload):
        self.told.append(f"{type(payload).__name__} {payload.component}")

    def on_stop(self, runner):
        logger.info("TOLD %s", json.dumps(self.told))


def main(which, argv):
    components = {
        "reporter": lambda: [Reporter()],
        "dispensable": lambda: [Dispensable()],
        "evaluator": lambda: [LatestWeights(num_episodes=3)],
        "curriculum": lambda: [CurriculumServer(good_return=0.5, num_episodes=20)],
    }[which]()
    defaults = DEFAULTS if which == "curriculum" else {"use_rnn": False, "env": "slow_pole"}
    return train(argv, defaults=defaults, components=components, observers=[Watching()])


if __name__ == "__main__":
    sys.exit(main(os.environ["WHICH"], sys.argv[1:]))
