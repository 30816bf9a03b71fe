"""Plays a policy trained on one of Brax's environments; Brax shows no pictures here.

``python -m sf_examples.brax.enjoy_brax --env=ant --experiment=my_run --env_agents=16 --max_num_episodes=16``
"""

from __future__ import annotations

import sys

from sf_examples.brax.train_brax import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
