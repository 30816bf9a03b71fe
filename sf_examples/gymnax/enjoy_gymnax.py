"""Plays a policy trained on one of gymnax's environments, which show no pictures here.

``python -m sf_examples.gymnax.enjoy_gymnax --env=CartPole-v1 --experiment=my_run --no_render --max_num_episodes=16``
"""

from __future__ import annotations

import sys

from sf_examples.gymnax.train_gymnax import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
