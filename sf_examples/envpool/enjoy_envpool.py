"""Plays a policy trained on one of EnvPool's pools; a video shows the first member.

``python -m sf_examples.envpool.enjoy_envpool --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.envpool.envpool_env import ENVPOOL_DEFAULTS, EnvPoolOptions
from sf_examples.envpool.train_envpool import register_envpool_envs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_envpool_envs()
    return enjoy(argv, extra_parts=(EnvPoolOptions,), defaults=ENVPOOL_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
