"""Trains on one of Brax's environments: ``python -m sf_examples.brax.train_brax --env=ant``.

Thousands of environments are one vector in one process, on a GPU or, without one, on the processors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler.envs import register_env
from sf_examples.brax.brax_env import BRAX_ENVS, make_brax_env
from sf_examples.brax.brax_options import BRAX_DEFAULTS, BraxOptions, DeviceOptions

__all__ = ["main", "register_brax_envs"]


def register_brax_envs() -> None:
    """Register every environment of the family."""
    for name in BRAX_ENVS:
        register_env(name, make_brax_env)


def main(argv: Sequence[str] | None = None) -> int:
    """Train.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if the run ended well.
    """
    from sample_profiler.cli.train import train

    register_brax_envs()
    return train(argv, extra_parts=(BraxOptions, DeviceOptions), defaults=BRAX_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
