"""Plays a policy trained on gymnasium.

``python -m sf_examples.gym.enjoy_gym --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys

from sf_examples.gym.train_gym import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
