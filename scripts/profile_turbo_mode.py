"""Profile the cluster tool alone, with and without turbo mode: steps per second, and cProfile's top 30.

python scripts/profile_turbo_mode.py --steps 10000
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # the examples, wherever this is called from

_NUM_FUNCTIONS = 30
_NUM_ROUNDS = 5


def simulate(*, turbo: bool, num_steps: int, num_wafers: int) -> float:
    """Play random legal actions, the same in both modes, and return steps per second of the simulation alone."""
    import numpy as np

    from sf_examples.petri_net.petri_net_env import PetriNetEnv

    random = np.random.default_rng(0)
    env = PetriNetEnv(num_wafers, turbo=turbo)
    observation, _ = env.reset(seed=0)
    spent_s = 0.0
    for _ in range(num_steps):
        action = int(random.choice(np.flatnonzero(observation["action_mask"])))
        begin_s = time.perf_counter()
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
        spent_s += time.perf_counter() - begin_s
    return num_steps / spent_s


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000, help="of each simulation; default: 10000")
    parser.add_argument("--num-wafers", type=int, default=5, help="of the tool; default: 5")
    options = parser.parse_args(argv)
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(_NUM_ROUNDS):
        for turbo in (False, True) if number % 2 == 0 else (True, False):
            rates[turbo].append(simulate(turbo=turbo, num_steps=options.steps, num_wafers=options.num_wafers))
    for turbo, measured in rates.items():
        spread = f"{min(measured):,.0f} to {max(measured):,.0f}"
        print(f"turbo {'on ' if turbo else 'off'}: {median(measured):,.0f} steps/s (of {_NUM_ROUNDS} rounds: {spread})")
    ratio = median(on / off for off, on in zip(rates[False], rates[True], strict=True))
    print(f"turbo is {ratio:.2f} times as fast\n")
    for turbo in rates:
        print(f"turbo {'on' if turbo else 'off'}, {_NUM_FUNCTIONS} functions by cumulative time:")
        profiler = cProfile.Profile()
        profiler.runcall(simulate, turbo=turbo, num_steps=options.steps, num_wafers=options.num_wafers)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(_NUM_FUNCTIONS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
