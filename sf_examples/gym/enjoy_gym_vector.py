"""Plays a policy trained on vectors of gymnasium's environments; a video shows the first member.

``python -m sf_examples.gym.enjoy_gym_vector --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sample_profiler import enjoy
from sf_examples.gym.train_gym_vector import VECTOR_DEFAULTS, VectorOptions, register_gym_vectors

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Play.

    Args:
        argv: The command line without the program's name; by default that of this process.

    Returns:
        The exit status: 0 if all episodes were played.
    """
    register_gym_vectors()
    return enjoy(argv, extra_parts=(VectorOptions,), defaults=VECTOR_DEFAULTS)


if __name__ == "__main__":
    sys.exit(main())
