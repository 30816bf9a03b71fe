"""Plays a policy trained on one of EnvPool's pools; a video shows the first member.

``python -m sf_examples.envpool.enjoy_envpool --env=CartPole-v1 --experiment=my_run --save_video``
"""

from __future__ import annotations

import sys

from sf_examples.envpool.train_envpool import FAMILY

__all__ = ["main"]

main = FAMILY.enjoy

if __name__ == "__main__":
    sys.exit(main())
