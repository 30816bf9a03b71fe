"""Profile where the time of training goes, with and without turbo mode of the cluster tool.

python scripts/profile_training_time.py --compare --batches 5 --breakdown
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import sys
from collections.abc import Sequence
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
    profilers = {turbo: cProfile.Profile() for turbo in modes}
    num_rounds = options.batches * (options.repeats if options.compare else 1)
    # Batches take turns, and the first ones, which are slower, do not count.
    for number in range(options.warm_up + num_rounds):
        for turbo in modes if number % 2 == 0 else modes[::-1]:
            before = trainings[turbo].profile()
            is_counted = number >= options.warm_up
            if options.detailed and is_counted:
                profilers[turbo].enable()
            trainings[turbo].run_batch()
            profilers[turbo].disable()
            if is_counted:
                batches[turbo].append(trainings[turbo].profile() - before)
    for turbo in modes:
        print(f"Turbo {'ON' if turbo else 'OFF'}: {len(batches[turbo])} batches\n")
        print(format_profile(Profile.sum(batches[turbo]), breakdown=options.breakdown))
        print()
        if options.detailed:
            _write_details(
                profilers[turbo], options.output_dir / f"profile_training_turbo_{'on' if turbo else 'off'}.txt"
            )
    if options.compare:
        print(compare_profiles(batches[False], batches[True]))
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--compare", action="store_true", help="turbo off against on, in turn")
    mode.add_argument("--turbo", action="store_true", help="with turbo mode")
    mode.add_argument("--no-turbo", action="store_true", help="without it")
    parser.add_argument("--batches", type=_positive, default=5, help="batches of each; default: 5")
    parser.add_argument("--repeats", type=_positive, default=3, help="times that --compare does this; default: 3")
    parser.add_argument("--warm-up", type=_positive, default=2, help="batches before that; default: 2")
    parser.add_argument("--breakdown", action="store_true", help="split data collection")
    parser.add_argument("--detailed", action="store_true", help=f"also write cProfile's top {_NUM_DETAILED} to files")
    parser.add_argument("--output-dir", type=Path, default=Path(), help="where to; default: here")
    parser.add_argument("--num-wafers", type=_positive, default=5, help="of the tool; default: 5")
    parser.add_argument("--threads", type=_positive, default=1, help="of PyTorch; default: 1")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 on")
    return int(text)


def _write_details(profiler: cProfile.Profile, path: Path) -> None:
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_NUM_DETAILED)
    path.write_text(text.getvalue())
    print(f"Wrote {path}\n")


if __name__ == "__main__":
    sys.exit(main())
