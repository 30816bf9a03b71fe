"""Train with Sample Factory: `python sample_factory_run.py OUTPUT doom|gym|mujoco FLAG…`, in its environment."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

from watching import Curve  # beside this file, which is run as a program

FAMILIES = {
    "doom": ("sf_examples.vizdoom.train_vizdoom", "register_vizdoom_components", "parse_vizdoom_cfg"),
    "gym": ("sf_examples.train_gym_env", "register_custom_components", "parse_custom_args"),
    "mujoco": ("sf_examples.mujoco.train_mujoco", "register_mujoco_components", "parse_mujoco_cfg"),
}


def main() -> int:
    """Do what its training scripts do, and note every training step."""
    output, family, *flags = sys.argv[1:]
    name, register, parse = FAMILIES[family]
    module: Any = importlib.import_module(name)
    train: Any = importlib.import_module("sample_factory.train")
    env_steps: str = importlib.import_module("sample_factory.algo.utils.misc").LEARNER_ENV_STEPS
    getattr(module, register)()
    _, runner = train.make_runner(getattr(module, parse)(flags))
    began_s = time.monotonic()

    def after_training_step(runner: Any, *_: Any) -> None:
        curve.note(sum(runner.env_steps.values()))
        # Its --train_for_seconds looks at this number, which nothing in Sample Factory 2.1.1 ever changes.
        runner.total_train_seconds = time.monotonic() - began_s

    with Curve(output) as curve:
        # Not an observer's on_training_step: it is called before the frames of the step have been counted.
        runner.policy_msg_handlers[env_steps].append(after_training_step)
        return int(runner.init() or runner.run())


if __name__ == "__main__":
    sys.exit(main())
