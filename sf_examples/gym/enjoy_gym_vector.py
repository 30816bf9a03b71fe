"""Plays a policy trained on vectors of gymnasium's environments; a video shows the first member.

``python -m sf_examples.gym.enjoy_gym_vector --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys

from sf_examples.gym.train_gym_vector import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
