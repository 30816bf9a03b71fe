"""Profile the cluster tool alone, with and without turbo mode: steps per second, and cProfile's top 30.

Random legal actions, the same in both modes, which take turns; the median of the rounds' ratios decides. Exits with 1
if turbo is less than twice as fast.

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
_NUM_ROUNDS = 21
_LEAST_RATIO = 2.0


def choose_actions(num_steps: int, num_wafers: int) -> list[int]:
    """Return random legal actions of as many steps, episode after episode; they are legal in both modes."""
    import numpy as np

    from sf_examples.petri_net.petri_net_env import PetriNetEnv

    random = np.random.default_rng(0)
    env = PetriNetEnv(num_wafers)
    observation, _ = env.reset(seed=0)
    actions = []
    for _ in range(num_steps):
        actions.append(int(random.choice(np.flatnonzero(observation["action_mask"]))))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        if terminated or truncated:
            observation, _ = env.reset()
    return actions


def simulate(actions: Sequence[int], *, turbo: bool, num_wafers: int) -> float:
    """Play actions, and return steps per second of processor time: other programs on the machine do not count."""
    from sf_examples.petri_net.petri_net_env import PetriNetEnv

    env = PetriNetEnv(num_wafers, turbo=turbo)
    env.reset(seed=0)
    begin_s = time.thread_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return len(actions) / (time.thread_time() - begin_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate both, in turn.

    Returns:
        Exit status: 0: turbo is twice as fast; 1: it is not; 2: the command line is wrong.
    """
    from sf_examples.petri_net.arguments import at_least_one, wafers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=at_least_one, default=10_000, help="of each simulation; default: 10000")
    parser.add_argument("--num-wafers", type=wafers, default=5, help="of the tool; default: 5")
    options = parser.parse_args(argv)
    actions = choose_actions(options.steps, options.num_wafers)
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(_NUM_ROUNDS):
        for turbo in (False, True) if number % 2 == 0 else (True, False):
            rates[turbo].append(simulate(actions, turbo=turbo, num_wafers=options.num_wafers))
    for turbo, measured in rates.items():
        spread = f"{min(measured):,.0f} to {max(measured):,.0f}"
        print(f"turbo {'on ' if turbo else 'off'}: {median(measured):,.0f} steps/s (of {_NUM_ROUNDS} rounds: {spread})")
    ratio = median(on / off for off, on in zip(rates[False], rates[True], strict=True))
    print(f"turbo is {ratio:.2f} times as fast; it has to be {_LEAST_RATIO:g} times\n")
    for turbo in rates:
        print(f"turbo {'on' if turbo else 'off'}, {_NUM_FUNCTIONS} functions by cumulative time:")
        profiler = cProfile.Profile()
        profiler.runcall(simulate, actions, turbo=turbo, num_wafers=options.num_wafers)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(_NUM_FUNCTIONS)
    return 0 if ratio >= _LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
