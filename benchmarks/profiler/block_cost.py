"""Print what one block costs, in nanoseconds, and how many times cheaper that is than with other tools' timers.

Every variant lives in a process of its own, and they take turns: round by round, in an order that changes, so that
whatever else the machine does meets all of them alike. Shown are the median and the quartiles over the rounds, less the
empty loop, and the median of the ratios of each round. A first round of each, which makes the nodes, does not count.

    python -m benchmarks.profiler.block_cost
    python -m benchmarks.profiler.block_cost --peer-python SF/bin/python --mlagents-python MLA/bin/python

With the peers it says, too, whether the recorder is as cheap as it has to be, and exits with 1 if it is not.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring.statistic import median_ratio, quartiles

LOOPS = Path(__file__).parents[1] / "measuring" / "alone" / "block_loops.py"
ROOT = Path(__file__).parents[2]

# Variant, whether in pure Python, title.
OURS = (
    ("ring", False, "compiled, record file with its ring"),
    ("no_file", False, "compiled, no file"),
    ("flow", False, "compiled, mark_flow"),
    ("no_file", True, "pure Python, no file"),
    ("ring", True, "pure Python, record file with its ring"),
    ("flow", True, "pure Python, mark_flow"),
    ("plain_call", False, "call of a plain function"),
    ("decorated", False, "call of one with an unarmed profile_range"),
)
COMPILED, PURE = OURS[0][2], OURS[3][2]
SAMPLE_FACTORY, ML_AGENTS = "Sample Factory, Timing.add_time", "ML-Agents, hierarchical_timer"
MUSTS = ((COMPILED, SAMPLE_FACTORY, 10.0), (COMPILED, ML_AGENTS, 7.0), (PURE, SAMPLE_FACTORY, 2.0))


class Variant:
    """A process that measures one thing when it is asked to.

    Args:
        title: of the line in the table.
        python: which one runs it.
        name: of the variant in `block_loops`.
        folder: for its record file.
        environment: its variables.
    """

    def __init__(self, title: str, python: str, name: str, folder: Path, environment: dict[str, str]) -> None:
        self.title = title
        self.costs_ns: list[float] = []
        folder.mkdir()
        command = [python, str(LOOPS), name, str(folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment)

    def measure(self, num_passes: int) -> float:
        """Return what a pass costs now."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{num_passes}\n")
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.title}: its process has ended")
        return float(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def start_variants(options: argparse.Namespace, folder: Path) -> list[Variant]:
    """Start all processes."""
    variants = []
    for number, (name, is_pure, title) in enumerate(OURS):
        variables = {"PYTHONPATH": str(ROOT), "SAMPLE_PROFILER_PURE_PYTHON": "1" if is_pure else ""}
        variants.append(Variant(title, sys.executable, name, folder / str(number), {**os.environ, **variables}))
    for title, python, name in (
        (SAMPLE_FACTORY, options.peer_python, "sample_factory"),
        (ML_AGENTS, options.mlagents_python, "ml_agents"),
    ):
        if python:
            variants.append(Variant(title, python, name, folder / name, dict(os.environ)))
    return variants


def print_costs(variants: Sequence[Variant]) -> None:
    """Print one line per variant; ratios are to each peer."""
    peers = [variant for variant in variants if variant.title in (SAMPLE_FACTORY, ML_AGENTS)]
    print(f"{'nanoseconds per pass':44}{'median':>9}{'quartiles':>18}", end="")
    print("".join(f"{'× ' + peer.title.partition(',')[0]:>18}" for peer in peers))
    for variant in variants:
        lower, median, upper = quartiles(variant.costs_ns)
        span = f"{lower:.0f} to {upper:.0f}"
        print(f"{variant.title:44}{median:>9.0f}{span:>18}", end="")
        print("".join(f"{ratio_of(variant, peer):>18.1f}" for peer in peers))


def ratio_of(variant: Variant, peer: Variant) -> float:
    """Return how many times as much a peer's block costs."""
    return median_ratio(peer.costs_ns, [max(cost_ns, 1e-3) for cost_ns in variant.costs_ns])


def print_musts(variants: Sequence[Variant]) -> bool:
    """Print whether it is cheap enough; return so."""
    by_title = {variant.title: variant for variant in variants}
    is_enough = True
    for title, peer, least in MUSTS:
        if peer in by_title:
            ratio = ratio_of(by_title[title], by_title[peer])
            is_enough &= ratio >= least
            print(f"{title}: {ratio:.1f} times cheaper than {peer.partition(',')[0]}; it has to be {least:g} times")
    return is_enough


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num_passes", type=int, default=20_000, help="of each variant in each round")
    parser.add_argument("--num_rounds", type=int, default=40)
    parser.add_argument("--peer-python", help="a Python that has sample_factory installed, to compare with")
    parser.add_argument("--mlagents-python", help="a Python that has mlagents_envs installed, to compare with")
    options = parser.parse_args(argv)

    from sample_profiler.profiling import TWIN

    if TWIN != "compiled":
        print("The compiled recorder is not here: all of these are pure Python.")
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        variants = start_variants(options, Path(folder))
        try:
            for variant in variants:
                variant.measure(options.num_passes)
            for _ in range(options.num_rounds):
                for variant in draw.sample(variants, len(variants)):
                    variant.costs_ns.append(variant.measure(options.num_passes))
        finally:
            for variant in variants:
                variant.close()
    print_costs(variants)
    return 0 if print_musts(variants) else 1


if __name__ == "__main__":
    sys.exit(main())
