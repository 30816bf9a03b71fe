"""Train until the return is good enough with Sample Factory, in its environment.

`python sample_factory_return.py OUTPUT THRESHOLD SECONDS SEED doom|gym|mujoco FLAG…`
"""

from __future__ import annotations

import importlib
import math
import sys
from statistics import fmean
from typing import Any

from returns import Returns  # beside this file, which is run as a program
from sample_factory_run import FAMILIES


def main() -> int:
    """Do what its training scripts do, and look at the returns that its Runner hears of."""
    output, threshold, seconds, seed, family, *flags = sys.argv[1:]
    with Returns(output, float(threshold), float(seconds)) as returns:
        name, register, parse = FAMILIES[family]
        module: Any = importlib.import_module(name)
        train: Any = importlib.import_module("sample_factory.train")
        getattr(module, register)()
        config = getattr(module, parse)([*flags, f"--seed={seed}", f"--train_dir={output}.runs", "--experiment=run"])
        _, runner = train.make_runner(config)

        def after_episode(runner: Any, *_: Any) -> None:
            latest = runner.policy_avg_stats.get("reward", [[]])[0]
            returns.note(lambda: fmean(map(float, latest)), len(latest), sum(runner.env_steps.values()))
            if returns.is_over:
                runner.total_train_seconds = math.inf  # it ends when that is more than its --train_for_seconds

        runner.register_episodic_stats_handler(after_episode)
        return int(runner.init() or runner.run())


if __name__ == "__main__":
    sys.exit(main())
