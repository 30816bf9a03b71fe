"""Profile where the time of training goes, with and without turbo mode of the cluster tool.

python scripts/profile_training_time.py --compare --batches 5 --breakdown
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import pstats
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the examples, wherever this is called from

_NUM_DETAILED = 50


def main(argv: Sequence[str] | None = None) -> int:
    """Profile as the command line says, and print the report."""
    options = _parse(argv)
    import torch  # only now: --help needs none of it

    from sf_examples.petri_net.training_profile import Profile, ProfiledTraining, compare_profiles, format_profile

    torch.set_num_threads(options.threads)
    modes = (False, True) if options.compare else (options.turbo,)
    trainings = {
        turbo: ProfiledTraining(turbo=turbo, num_wafers=options.num_wafers, seed=options.seed) for turbo in modes
    }
    batches: dict[bool, list[Profile]] = {turbo: [] for turbo in modes}
    num_rounds = options.batches * (options.repeats if options.compare else 1)
    # Batches take turns, and the first ones, which are slower, do not count.
    for number in range(options.warm_up + num_rounds):
        for turbo in modes if number % 2 == 0 else modes[::-1]:
            before = trainings[turbo].profile()
            trainings[turbo].run_batch()
            if number >= options.warm_up:
                batches[turbo].append(trainings[turbo].profile() - before)
    for turbo in modes:
        print(f"Turbo {'ON' if turbo else 'OFF'}: {len(batches[turbo])} batches\n")
        print(format_profile(Profile.sum(batches[turbo]), breakdown=options.breakdown))
        print()
    if options.compare:
        print(compare_profiles(batches[False], batches[True]))
    if options.detailed:
        for turbo, training in trainings.items():
            path = options.output_dir / f"profile_training_turbo_{'on' if turbo else 'off'}.txt"
            _write_details(training.run_batch, options.batches, path)
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    from sf_examples.petri_net.arguments import at_least_one, seed, wafers

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--compare", action="store_true", help="turbo off against on, in turn")
    mode.add_argument("--turbo", action="store_true", help="with turbo mode")
    mode.add_argument("--no-turbo", action="store_true", help="without it")
    parser.add_argument("--batches", type=at_least_one, default=5, help="batches of each; default: 5")
    parser.add_argument("--repeats", type=at_least_one, default=3, help="times that --compare does this; default: 3")
    parser.add_argument("--warm-up", type=at_least_one, default=2, help="batches before that; default: 2")
    parser.add_argument("--breakdown", action="store_true", help="split data collection")
    parser.add_argument(
        "--detailed",
        action="store_true",
        help=f"run --batches more of each under cProfile, and write its top {_NUM_DETAILED} to files",
    )
    parser.add_argument("--output-dir", type=Path, default=Path(), help="where to, made if missing; default: here")
    parser.add_argument("--num-wafers", type=wafers, default=5, help="of the tool; default: 5")
    parser.add_argument("--threads", type=at_least_one, default=1, help="of PyTorch; default: 1")
    parser.add_argument("--seed", type=seed, default=0, help="default: 0")
    options = parser.parse_args(argv)
    if options.detailed:
        try:
            options.output_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --output-dir: {options.output_dir} cannot be made: {error.strerror}")
        if not os.access(options.output_dir, os.W_OK):
            parser.error(f"argument --output-dir: nothing can be written into {options.output_dir}")
    return options


def _write_details(run_batch: Callable[[], None], num_batches: int, path: Path) -> None:
    """Run further batches under cProfile, which makes Python slower than it is: they are in no figure of the report."""
    profiler = cProfile.Profile()
    for _ in range(num_batches):
        profiler.runcall(run_batch)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_NUM_DETAILED)
    path.write_text(text.getvalue())
    print(f"Wrote {path}: {num_batches} further batches under cProfile, which are in no figure above")


if __name__ == "__main__":
    sys.exit(main())
