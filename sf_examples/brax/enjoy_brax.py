"""Plays a policy trained on one of Brax's environments; Brax shows no pictures here.

``python -m sf_examples.brax.enjoy_brax --env=ant --experiment=my_run --env_agents=16 --max_num_episodes=16``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.brax.brax_options import BRAX_DEFAULTS, BraxOptions, DeviceOptions
from sf_examples.brax.train_brax import register_brax_envs

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_brax_envs()
    return enjoy(argv, extra_parts=(BraxOptions, DeviceOptions), defaults=BRAX_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
