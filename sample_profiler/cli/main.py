"""Owns the command `sample-profiler`: what its command lines look like, and who does what they ask for."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sample_profiler import __version__
from sample_profiler.cli.capture import CAPTURE_TOOLS, CaptureRequest, capture
from sample_profiler.cli.compare import CompareRequest, compare
from sample_profiler.cli.diff import diff
from sample_profiler.cli.report import FORMATS, report
from sample_profiler.cli.status import status
from sample_profiler.cli.trace import trace
from sample_profiler.cli.watch import watch
from sample_profiler.cli.whatif import STAGES, whatif
from sample_profiler.components.selection import KINDS
from sample_profiler.profiling.render import printable
from sample_profiler.runtime.early_interrupts import interrupts_raising
from sample_profiler.runtime.ending_signals import write_to_nowhere
from sample_profiler.runtime.slowdown import MOST_SHARE

__all__ = ["main"]

_BAD_USAGE = 2
_MOST_SECONDS = 86_400  # a day; clocks and sleeps raise at numbers far above

_STATUS_EXAMPLES = """\
examples:
  sample-profiler status train_dir/doom             how the run is now, or was at its end
  sample-profiler status train_dir/doom --watch     the same every second, until it ends or Ctrl+C

It reads the run's files alone, so it answers for a run that hangs or was killed, too.
"""

_COMPARE_EXAMPLES = """\
example:
  sample-profiler compare --runs 8 --a "" --b "--precision=bf16" --blocks backward,env_step -- \\
      python -m sf_examples.vizdoom.train_vizdoom --env=doom_benchmark --train_for_seconds=60

Of each run its steady part counts, without start and end. Nothing else should run on the machine meanwhile.
"""

_REPORT_EXAMPLES = """\
examples:
  sample-profiler report train_dir/doom                   writes train_dir/doom/report.html
  sample-profiler report train_dir/doom --format text     the same figures in the terminal
  sample-profiler report train_dir/doom --format json     and as data

Runs that go on, hang or were killed have reports, too. Every run that ends writes its page by itself.
"""

_CAPTURE_EXAMPLES = """\
tools:
  timeline      every block of every process, with the flow of the data; hardly slows the run
  cprofile      calls and times of every Python function of the main threads
  yappi         the same of all threads; pip install 'sample_profiler[profilers]'
  pyinstrument  call stacks, a thousand looks a second; pip install 'sample_profiler[profilers]'
  torch         operators of PyTorch, and kernels on a GPU

examples:
  sample-profiler capture train_dir/doom --tool timeline --seconds 5
  sample-profiler capture train_dir/doom --tool cprofile --components rollout,learner --workers 0,1
  sample-profiler capture train_dir/doom --tool torch --components learner --output learner.json

Ctrl+C ends a capture early and keeps what there is. The run goes on.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what a command line asks for.

    Args:
        argv: the command line without the program's name; None: of this process.

    Returns:
        Exit status: 0: done; 2: it cannot be done, and standard error says why; 130: interrupted.
    """
    arguments = _make_parser().parse_args(_join_flags(sys.argv[1:] if argv is None else argv))
    exit_status = 0
    try:
        with interrupts_raising():
            exit_status = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # what cannot be written is found out here, not by Python on its way out
        return exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        write_to_nowhere(1)
        return exit_status
    except OSError as error:  # of standard output: commands tell of all others themselves
        problem = f"sample-profiler {arguments.command}: cannot write what there is to say: {error}"
        print(printable(problem), file=sys.stderr)
        write_to_nowhere(1)
        return _BAD_USAGE


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "status":
        return status(arguments.run_dir, watch=arguments.watch)
    if arguments.command == "compare":
        command = arguments.training[1:] if arguments.training[:1] == ["--"] else arguments.training
        return compare(
            CompareRequest(
                command=command,
                flags=(arguments.a, arguments.b),
                num_pairs=arguments.runs,
                blocks=arguments.blocks,
                margin=arguments.margin,
                output=arguments.output,
                allow_different_machines=arguments.allow_different_machines,
            )
        )
    if arguments.command == "diff":
        return diff(
            arguments.run_a,
            arguments.run_b,
            arguments.fail_over,
            allow_different_machines=arguments.allow_different_machines,
        )
    if arguments.command == "whatif":
        options = (arguments.stages, arguments.slower, arguments.seconds, arguments.settle, arguments.rounds)
        return whatif(arguments.run_dir, *options)
    if arguments.command == "trace":
        return trace(arguments.run_dir, arguments.output, arguments.seconds)
    if arguments.command == "watch":
        return watch(arguments.run_dir, arguments.window, arguments.interval)
    if arguments.command == "report":
        return report(arguments.run_dirs, arguments.format, arguments.output)
    request = CaptureRequest(arguments.tool, arguments.components, arguments.workers, arguments.seconds)
    return capture(arguments.run_dir, request, arguments.output)


def _join_flags(argv: Sequence[str]) -> list[str]:
    """Write `--a VALUE` as `--a=VALUE`: argparse takes a value that begins with dashes for a flag."""
    end = argv.index("--") if "--" in argv else len(argv)
    if not argv or argv[0] != "compare":
        return list(argv)
    joined: list[str] = []
    for word in argv[:end]:
        if joined and joined[-1] in ("--a", "--b"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return [*joined, *argv[end:]]


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sample-profiler", description="Look into training runs, also while they go on."
    )
    parser.add_argument("--version", action="version", version=f"sample_profiler {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_capture(commands)
    _add_compare(commands)
    _add_diff(commands)
    _add_report(commands)
    _add_status(commands)
    _add_trace(commands)
    _add_watch(commands)
    _add_whatif(commands)
    return parser


def _add_run_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="the run's folder, {train_dir}/{experiment}")


def _add_capture(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "capture",
        help="run a profiler in processes of a running run, and merge what it saw into one document",
        description="Run a profiler in processes of a running run, and merge what it saw into one document.",
        epilog=_CAPTURE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run_dir(parser)
    parser.add_argument(
        "--tool", choices=CAPTURE_TOOLS, default="timeline", metavar="TOOL", help="see below; default: timeline"
    )
    parser.add_argument(
        "--components",
        type=_kinds,
        metavar="KIND,KIND",
        help=f"of {', '.join(KINDS)}; default: all",
    )
    parser.add_argument("--workers", type=_indices, metavar="N,N", help="of the rollout workers, only these")
    parser.add_argument("--seconds", type=_seconds, default=5.0, help="how long, at most 3600; default: 5")
    parser.add_argument(
        "--output", type=_file, metavar="FILE", help="the document; default: in RUN_DIR/profile/captures"
    )


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="run two settings in turn, and say whether one is faster",
        description="Run two settings in turn, in fresh processes, and say whether one is faster or it is noise.",
        epilog=_COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=_count, default=8, metavar="N", help="runs of each setting; default: 8")
    parser.add_argument("--a", default="", metavar="FLAGS", help="flags of A, in quotes")
    parser.add_argument("--b", default="", metavar="FLAGS", help="flags of B, in quotes")
    parser.add_argument(
        "--blocks",
        type=_names,
        default=[],
        metavar="NAME,NAME",
        help="at most five blocks to test, too: env_step,backward",
    )
    parser.add_argument(
        "--margin", type=_percent, default=0.02, metavar="PERCENT", help="what does not matter; default: 2%%"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("comparison"),
        metavar="DIR",
        help="for the runs; complete ones in it are kept; default: comparison",
    )
    _add_allow_different_machines(parser)
    parser.add_argument("training", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the training command")


def _add_diff(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diff",
        help="show in what two runs differ",
        description="Show in what two runs differ: throughput, passes through blocks, time in blocks.",
    )
    parser.add_argument("run_a", metavar="RUN_A", type=Path, help="folder of a run")
    parser.add_argument("run_b", metavar="RUN_B", type=Path, help="folder of another run")
    parser.add_argument(
        "--fail-over", type=_tolerance, metavar="PERCENT", help="exit status 1 if B is slower by more than that: 5%%"
    )
    _add_allow_different_machines(parser)


def _add_allow_different_machines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-different-machines", action="store_true", help="compare runs of different machines, too"
    )


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="say what limited a run, and show where its time went, as a page",
        description="Say what limited a run, and show where its time went.",
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dirs", metavar="RUN_DIR", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--format", choices=FORMATS, default="html", help="default: html, one file that works offline")
    parser.add_argument(
        "--output", type=_file, metavar="FILE", help="default: RUN_DIR/report.html; of text and json standard output"
    )


def _add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        help="show what every component of a run does and waits for",
        description="Show what every component of a run does and waits for.",
        epilog=_STATUS_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_run_dir(parser)
    parser.add_argument("--watch", action="store_true", help="again every second, until the run ends or Ctrl+C")


def _add_trace(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "trace",
        help="write the latest events of all processes, counters and captures as one timeline for Perfetto",
        description="Write the latest events of all processes as one timeline for https://ui.perfetto.dev: of a run "
        "that goes on, hangs or was killed what its flight recorders hold, of one that has ended its last ten seconds. "
        "Throughput, policy lag, queues and memory over the whole run are counters in it, and the operators that "
        "captures with torch have left in the run's folder are beside the blocks.",
    )
    _add_run_dir(parser)
    parser.add_argument("-o", "--output", type=_file, metavar="FILE", help="default: RUN_DIR/profile/trace.json.gz")
    parser.add_argument("--seconds", type=_seconds, help="only the last so many; default: all there is")


def _add_watch(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "watch",
        help="show throughput, accounts and verdict of a run while it goes on",
        description="Show throughput, where the time goes and what limits a run while it goes on. Reads its record "
        "files alone.",
    )
    _add_run_dir(parser)
    parser.add_argument("--window", type=_seconds, default=15.0, help="about the latest so many seconds; default: 15")
    parser.add_argument("--interval", type=_seconds, default=2.0, help="seconds between two looks; default: 2")


def _add_whatif(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "whatif",
        help="slow one stage of a live run after the other, and say what a faster one would give",
        description="Slow one stage of a live run after the other by a known amount, and say from what that costs what "
        "making it faster would give. The run goes on; it learns a little more slowly meanwhile.",
    )
    _add_run_dir(parser)
    parser.add_argument(
        "--stages",
        type=_stages,
        default=list(STAGES),
        metavar="NAME,NAME",
        help=f"of {', '.join(STAGES)}; default: all",
    )
    parser.add_argument(
        "--slower", type=_slowdown, default=0.5, metavar="PERCENT", help="by how much; default: 50%% of a stage's time"
    )
    parser.add_argument(
        "--seconds", type=_seconds, help="length of each measurement; default: 3, or as long as six datasets take"
    )
    parser.add_argument("--settle", type=_seconds, metavar="SECONDS", help="time before each; default: half as long")
    parser.add_argument(
        "--rounds", type=_count, default=10, metavar="N", help="measurements of each stage; default: 10"
    )


def _file(text: str) -> Path:
    """Return where a link to a file leads to, such as /dev/stdout: it stays a link, and the file is replaced."""
    return Path(os.path.realpath(text) if os.path.islink(text) and os.path.isfile(text) else text)


def _stages(text: str) -> list[str]:
    names = _names(text)
    if not names or set(names) - set(STAGES):
        raise argparse.ArgumentTypeError(f"{text!r}: give some of {', '.join(STAGES)}, separated by commas")
    return list(dict.fromkeys(names))


def _kinds(text: str) -> list[str]:
    kinds = [kind.strip() for kind in text.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: give some of {', '.join(KINDS)}, separated by commas")
    return list(dict.fromkeys(kinds))


def _indices(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers of rollout workers from 0 on, separated by commas")
    return list(dict.fromkeys(map(int, parts)))


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1 on")
    return int(text)


def _percent(text: str) -> float:
    """Return a percentage above 0 and below 100 as a share."""
    return _share(text, lambda percent: 0 < percent < 100, 100)


def _tolerance(text: str) -> float:
    """Return a percentage from 0 on and below 100 as a share."""
    return _share(text, lambda percent: 0 <= percent < 100, 100)


def _slowdown(text: str) -> float:
    """Return a percentage above 0, up to what a stage may be slowed by, as a share."""
    most = 100 * MOST_SHARE
    return _share(text, lambda percent: 0 < percent <= most, most)


def _share(text: str, is_allowed: Callable[[float], bool], most: float) -> float:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not is_allowed(percent):
        raise argparse.ArgumentTypeError(f"{text!r}: give a percentage between 0 and {most:g}, such as 5%")
    return percent / 100


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0 and at most {_MOST_SECONDS:,}")
    return seconds
