"""Print frames a second of whole runs on a vector that costs nothing, members one by one or all at once, in turns.

All is trained on, in one process, by the settings of Isaac Gym's Ant. An aim is that tensors train 1.5 times as many
frames as lists.

    python -m benchmarks.vectors.vector_runs --rounds 3
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.measuring.runs.idle_vector_run import WAYS
from benchmarks.measuring.turns.taking_turns import compare

LEAST = 1.5
"""Times the frames of lists that tensors are to have."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a run that are measured")
    options = parser.parse_args(argv)
    arms = {way: ("benchmarks.measuring.runs.idle_vector_run", [way]) for way in WAYS}
    ratios = compare("4,096 members that cost nothing", arms, options.rounds, options.seconds)
    return 0 if ratios["tensors"] >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
