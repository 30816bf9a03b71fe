"""Train with Sample Factory: `python sample_factory_run.py OUTPUT doom|gym|mujoco FLAG…`, in its environment."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from watching import Watch  # type: ignore[import-not-found] # beside this file, which is run as a program

_FAMILIES = {
    "doom": ("sf_examples.vizdoom.train_vizdoom", "register_vizdoom_components", "parse_vizdoom_cfg"),
    "gym": ("sf_examples.train_gym_env", "register_custom_components", "parse_custom_args"),
    "mujoco": ("sf_examples.mujoco.train_mujoco", "register_mujoco_components", "parse_mujoco_cfg"),
}


def main() -> int:
    """Do what its training scripts do, and watch."""
    output, family, *flags = sys.argv[1:]
    name, register, parse = _FAMILIES[family]
    module: Any = importlib.import_module(name)
    train: Any = importlib.import_module("sample_factory.train")
    getattr(module, register)()
    _, runner = train.make_runner(getattr(module, parse)(flags))
    runner.init()
    with Watch(output, lambda: int(runner.total_env_steps_since_resume or 0)):
        return int(runner.run())


if __name__ == "__main__":
    sys.exit(main())
