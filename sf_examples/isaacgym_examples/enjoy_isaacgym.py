"""Plays a policy trained on one of Isaac Gym's tasks; what simulates them here shows no pictures.

``python -m sf_examples.isaacgym_examples.enjoy_isaacgym --env=Ant --experiment=igeAnt --env_agents=16``
"""

from __future__ import annotations

import sys

from sf_examples.isaacgym_examples.train_isaacgym import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
