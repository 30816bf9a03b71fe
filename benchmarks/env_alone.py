"""Measures how fast an environment steps with random actions and nothing else: the limit of any training on it.

``python -m benchmarks.env_alone --env doom_benchmark --seconds 10 --processes 2 --envs_per_process 8``; flags of the
environment's family, such as ``--res_w=160``, may follow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.measuring.alone.envs_alone import measure_alone
from benchmarks.measuring.runs.families import make_family_config
from sample_profiler.config import num_usable_cores


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print one line per process and one for all."""
    options, family_flags = _parse(argv)
    cfg = make_family_config(options.env, family_flags)
    rates = measure_alone(cfg, options.seconds, options.processes, options.envs_per_process, not options.unpinned)
    frameskip = cfg.environment.env_frameskip
    for index, rate in enumerate(rates):
        print(f"process {index}: {rate:,.0f} steps/s")
    print(
        f"{options.env}: {sum(rates):,.0f} steps/s, {sum(rates) * frameskip:,.0f} frames/s (frameskip {frameskip}), "
        f"{options.processes} processes × {options.envs_per_process} environments"
        f"{'' if options.unpinned else ', pinned'}"
    )
    return 0


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="doom_benchmark", help="full name of the environment")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure, after all have started")
    parser.add_argument("--processes", type=int, default=num_usable_cores(), help="number of processes")
    parser.add_argument("--envs_per_process", type=int, default=8, help="environments stepped in turn by each process")
    parser.add_argument("--unpinned", action="store_true", help="do not bind each process (and its games) to one core")
    return parser.parse_known_args(argv)


if __name__ == "__main__":
    sys.exit(main())
