"""Owns `sample-profiler forecast`: what a recorded run would do on more machines, or on one with more cores."""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import asdict
from pathlib import Path

from sample_profiler.analysis.facts import run_facts
from sample_profiler.analysis.forecast import (
    Forecast,
    Kind,
    Network,
    Pipeline,
    describe_pipeline,
    forecast,
    forecast_cores,
)
from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_names
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import SessionError, UsageError
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.sections.forecast import describe_parts, format_forecasts
from sample_profiler.run_folder import RunFolder

__all__ = ["add_parser", "as_network", "as_sizes", "read_pipeline", "run"]

_MOST = 1024
_MOST_BYTES = 2**62
_SIZES = [1, 2, 4, 8, 16, 32, 64]
_NETWORK = Network(1.25e9, 0.0002)
_BITS_PER_S = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)(?:/s)?")
_KINDS: tuple[Kind, ...] = ("ranks", "actors")
_TITLES = {
    "ranks": "Ranks, a Learner on each node (torchrun)",
    "actors": "Actors, one Learner and sampling on all nodes (Ray)",
    "cores": "One machine, with as many more workers as cores",
}


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "forecast",
        help="say what a recorded run would do on more machines, or with more cores",
        description="Say what a recorded run would do on more machines like its own, or on one with more cores: from "
        "the times of its parts and the sizes of its messages. Nothing is started.",
    )
    add_run_dir(parser)
    parser.add_argument("--nodes", type=as_sizes, metavar="N,N", help="numbers of machines; default: 1,2,4 up to 64")
    parser.add_argument(
        "--network",
        type=as_network,
        default=_NETWORK,
        metavar="BANDWIDTH,LATENCY",
        help="between them, such as 10Gbit,0.2ms, which is the default",
    )
    parser.add_argument("--kind", choices=_KINDS, help="where the Learner is; default: both")
    parser.add_argument(
        "--cores", type=as_sizes, metavar="N,N", help="numbers of cores of one machine; alone, no machines are told"
    )
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(run=run)


def as_sizes(text: str) -> list[int]:
    """Return numbers from 1 on, in ascending order."""
    parts = as_names(text)
    if not parts or any(not part.isdecimal() or not 1 <= int(part) <= _MOST for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers from 1 to {_MOST:,} with commas, such as 1,2,4,8")
    return sorted(set(map(int, parts)))


def as_network(text: str) -> Network:
    """Return a network from its bandwidth and latency."""
    parts = as_names(text.lower())
    problem = argparse.ArgumentTypeError(
        f"{text!r}: give the bandwidth of a link and the latency of a message, such as 10Gbit,0.2ms; units are "
        f"{', '.join(_BITS_PER_S)} (a second) and {', '.join(_SECONDS)}"
    )
    if len(parts) != 2:
        raise problem
    bits_per_s, latency_s = (_read_quantity(*each) for each in zip(parts, (_BITS_PER_S, _SECONDS), strict=True))
    if not bits_per_s or latency_s is None:
        raise problem
    return Network(bits_per_s / 8, latency_s)


def _read_quantity(text: str, units: dict[str, float]) -> float | None:
    match = _QUANTITY.fullmatch(text)
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    with progress_shown("reading the run"):
        pipeline, found = _forecast(arguments)
    _print(pipeline, found, as_data=arguments.json)
    return 0


def _forecast(arguments: argparse.Namespace) -> tuple[Pipeline, dict[str, list[Forecast]]]:
    pipeline = read_pipeline(arguments.run_dir)
    found: dict[str, list[Forecast]] = {}
    if arguments.nodes or not arguments.cores:
        for kind in [arguments.kind] if arguments.kind else _KINDS:
            found[kind] = forecast(pipeline, kind, arguments.nodes or _SIZES, arguments.network)
    if arguments.cores:
        try:
            found["cores"] = forecast_cores(pipeline, arguments.cores)
        except ValueError as error:
            raise UsageError(f"--cores: {error}") from error
    return pipeline, found


def _print(pipeline: Pipeline, found: dict[str, list[Forecast]], *, as_data: bool) -> None:
    if as_data:
        told = {name: [asdict(each) for each in sizes] for name, sizes in found.items()}
        print(json.dumps({"pipeline": asdict(pipeline), **told}, indent=2))
        return
    print(describe_parts(pipeline))
    for name, sizes in found.items():
        print(f"\n{_TITLES[name]}\n{format_forecasts(sizes, 'cores' if name == 'cores' else 'nodes')}")


def read_pipeline(run_dir: Path) -> Pipeline:
    """Return the parts of a run that has ended, from its steady part.

    Raises:
        UsageError: it is no such run, was too short, or trained in several ranks.
        SessionError: it cannot be read.
    """
    whole = read_session(run_dir, with_events=False)
    dataset_bytes, weights_bytes = (_read_size(whole, name) for name in ("dataset_bytes", "weights_bytes"))
    if not dataset_bytes or not weights_bytes:
        raise UsageError(
            f"{run_dir} does not tell how large its messages are: it has not ended in order, has trained on nothing, "
            "or is of an earlier version; record one of a minute or more"
        )
    if whole.run.get("num_ranks", 1) != 1:
        raise UsageError(f"{run_dir} is one of several ranks: record a run on one machine, without torchrun")
    if not os.path.exists(RunFolder(run_dir).steady):
        raise SessionError(f"{run_dir} has no steady part: it was too short; record one of a minute or more")
    steady = Session.load(RunFolder(run_dir).steady, with_events=False)
    pipeline = describe_pipeline(run_facts(steady), dataset_bytes, weights_bytes)
    if pipeline is None:
        raise UsageError(f"{run_dir} has trained on nothing in its steady part: record one of a minute or more")
    return pipeline


def _read_size(session: Session, name: str) -> float:
    """Return a size in bytes that a session tells; 0: it does not."""
    size = session.run.get(name)
    return float(size) if isinstance(size, int) and 0 < size < _MOST_BYTES else 0.0
