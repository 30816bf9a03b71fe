"""Compare what messages cost that travel through pipes and through queues of faster-fifo (`--transport`).

Many processes ask one all the time, through the channels and loops of a run: how many questions are answered a second,
and what an answered one takes of the processors, is measured for both in turns, the quieter one of two standing still
while the other works. The medians of the ratios tell which is the better one on this machine.

    python -m benchmarks.transports --askers 2 16 64 --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from benchmarks.measuring.alone.round_trips import RoundTrips, asking
from benchmarks.measuring.statistic import describe_range
from sample_profiler.runtime.loop.fifo_transport import FifoTransport
from sample_profiler.runtime.loop.transports import PipeTransport, Transport

TRANSPORTS: dict[str, type[Transport]] = {"pipe": PipeTransport, "fifo": FifoTransport}


def measure(num_askers: int, num_rounds: int, seconds: float) -> dict[str, list[RoundTrips]]:
    """Measure both in turns.

    Args:
        num_askers: processes that ask.
        num_rounds: for each.
        seconds: of a round.
    """
    seen: dict[str, list[RoundTrips]] = {name: [] for name in TRANSPORTS}
    for number in range(num_rounds):
        for name in sorted(TRANSPORTS, reverse=bool(number % 2)):
            with asking(TRANSPORTS[name](), num_askers) as look:
                look(seconds / 4)
                seen[name].append(look(seconds))
    return seen


def describe(num_askers: int, seen: dict[str, list[RoundTrips]]) -> str:
    """Return a line of a table in Markdown."""
    rates = {name: [each.number / each.seconds for each in rounds] for name, rounds in seen.items()}
    costs = {name: [1e6 * each.processor_s / each.number for each in rounds] for name, rounds in seen.items()}
    cells = [str(num_askers)]
    for figures, form in ((rates, "{:,.0f}"), (costs, "{:.1f}")):
        cells += [form.format(statistics.median(figures[name])) for name in TRANSPORTS]
        ratios = [fifo / pipe for pipe, fifo in zip(figures["pipe"], figures["fifo"], strict=True)]
        cells.append(describe_range(statistics.median(ratios), min(ratios), max(ratios)))
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--askers", nargs="+", type=int, default=[2, 16, 64], help="processes that ask")
    parser.add_argument("--rounds", type=int, default=3, help="of each transport")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a round")
    options = parser.parse_args(argv)
    heads = [
        "askers",
        *("answers a second, pipe", "fifo", "fifo to pipe"),
        *("µs of cores, pipe", "fifo", "ratio"),
    ]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for num_askers in options.askers:
        print(describe(num_askers, measure(num_askers, options.rounds, options.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
