"""Trains on one of Brax's environments: ``python -m sf_examples.brax.train_brax --env=ant``.

Thousands of environments are one vector in one process, on a GPU or, without one, on the processors.
"""

from __future__ import annotations

import sys

from sample_profiler.envs import register_env
from sf_examples.brax.brax_env import BRAX_ENVS, make_brax_env
from sf_examples.brax.brax_options import BRAX_DEFAULTS, BraxOptions
from sf_examples.family import Family
from sf_examples.vectors.device_options import DeviceOptions

__all__ = ["FAMILY", "main", "register_brax_envs"]


def register_brax_envs() -> None:
    """Register every environment of the family."""
    for name in BRAX_ENVS:
        register_env(name, make_brax_env)


FAMILY = Family(register=register_brax_envs, defaults=BRAX_DEFAULTS, extra_parts=(BraxOptions, DeviceOptions))

main = FAMILY.train

if __name__ == "__main__":
    sys.exit(main())
