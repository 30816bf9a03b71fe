"""Owns `sample-profiler capture`: a capture of a running run, shown while it goes on, as one document in the end."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sample_profiler.cli.capture.documents import HOW_TO_OPEN, SPEEDSCOPE, merge_parts, write_timeline
from sample_profiler.cli.capture.live import (
    CaptureOutcome,
    CaptureRequest,
    Interruption,
    capture_live,
    interruption,
)
from sample_profiler.cli.capture.outside import PY_SPY, capture_outside
from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_names, as_output_file, as_seconds
from sample_profiler.cli.common.problems import describe_os_error, note
from sample_profiler.errors import CaptureError, UsageError
from sample_profiler.profiling.captures.tools import SUFFIXES, TOOLS
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.run.commands.selection import KINDS
from sample_profiler.run_folder import RunFolder

__all__ = ["CAPTURE_TOOLS", "CaptureRequest", "add_parser", "capture", "make_document", "run"]

TIMELINE = "timeline"
CAPTURE_TOOLS = (TIMELINE, *TOOLS, PY_SPY)

_MIB = 2**20

_EXAMPLES = """\
tools:
  timeline      every block of every process, with the flow of the data; hardly slows the run
  cprofile      calls and times of every Python function of the main threads
  yappi         the same of all threads; pip install 'sample_profiler[profilers]'
  pyinstrument  call stacks, a thousand looks a second; pip install 'sample_profiler[profilers]'
  torch         operators of PyTorch, and kernels on a GPU
  memray        what memory grows by, by call stack; pip install 'sample_profiler[memray]'
  py-spy        call stacks, from outside, also of what hangs; pip install 'sample_profiler[py-spy]'

examples:
  sample-profiler capture train_dir/doom --tool timeline --seconds 5
  sample-profiler capture train_dir/doom --tool cprofile --components rollout,learner --workers 0,1
  sample-profiler capture train_dir/doom --tool torch --components learner --output learner.json
  sample-profiler capture train_dir/doom --tool memray --components rollout --workers 0 --seconds 60
  sample-profiler capture train_dir/doom --tool py-spy --native --components learner

Ctrl+C ends a capture early and keeps what there is. The run goes on.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "capture",
        help="run a profiler in processes of a running run, and merge what it saw into one document",
        description="Run a profiler in processes of a running run, and merge what it saw into one document.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_dir(parser)
    parser.add_argument(
        "--tool", choices=CAPTURE_TOOLS, default=TIMELINE, metavar="TOOL", help="see below; default: timeline"
    )
    parser.add_argument(
        "--components",
        type=_as_components,
        metavar="NAME,NAME",
        help=f"of {', '.join(KINDS)}, and names such as Learner_0, also of components of your own; default: all",
    )
    parser.add_argument("--workers", type=_as_indices, metavar="N,N", help="of the rollout workers, only these")
    parser.add_argument("--seconds", type=as_seconds, default=5.0, help="how long, at most 3600; default: 5")
    parser.add_argument(
        "--output", type=as_output_file, metavar="FILE", help="the document; default: in RUN_DIR/profile/captures"
    )
    parser.add_argument("--native", action="store_true", help="with py-spy: frames of compiled code, too")
    parser.add_argument(
        "--gil", action="store_true", help="with py-spy: only the thread that has the interpreter's lock"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    request = CaptureRequest(
        *(arguments.tool, arguments.components, arguments.workers, arguments.seconds),
        has_native_frames=arguments.native,
        is_of_gil=arguments.gil,
    )
    if arguments.tool != PY_SPY and (arguments.native or arguments.gil):
        raise UsageError("--native and --gil are of --tool py-spy: leave them out, or use that")
    capture(arguments.run_dir, request, arguments.output)
    return 0


def _as_components(text: str) -> list[str]:
    names = as_names(text)  # which names there are, the run knows
    if not names:
        kinds = ", ".join(KINDS)
        raise argparse.ArgumentTypeError(f"{text!r}: give some of {kinds}, or names of components, separated by commas")
    return list(dict.fromkeys(names))


def _as_indices(text: str) -> list[int]:
    parts = as_names(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers of rollout workers from 0 on, separated by commas")
    return list(dict.fromkeys(map(int, parts)))


class _NothingCapturedError(CaptureError):
    """No process has written a part.

    Args:
        outcome: of the capture.

    Attributes:
        lines: who says why.
    """

    def __init__(self, outcome: CaptureOutcome) -> None:
        reasons = dict.fromkeys(outcome.errors.values())  # most often it is the same everywhere
        super().__init__("nothing was captured: " + "; ".join(reasons))
        self.lines = [f"  {line}" for line in _describe(outcome)]


def capture(run_dir: Path, request: CaptureRequest, output: Path | None = None) -> None:
    """Capture a running run, and print where the document is, what is in it and how to open it.

    Args:
        run_dir: the run's folder.
        request: what to capture.
        output: the document; None: in the run's folder.

    Raises:
        CaptureError: nothing was captured.
        UsageError: the document cannot be written.
    """
    from sample_profiler.cli.capture.progress import progress_shown  # only now: no other command needs rich

    try:
        if output is not None and output.is_dir():
            raise CaptureError(f"--output={output} is a folder: name a file in it")
        with interruption() as interrupted, progress_shown(request) as on_progress:
            document, lines = make_document(run_dir, request, output, interrupted, on_progress)
    except _NothingCapturedError as error:
        note("\n".join(error.lines))
        raise
    except OSError as error:
        raise UsageError(f"cannot write the document: {describe_os_error(error)}") from error
    except ValueError as error:  # a part is not what its tool writes
        raise CaptureError(str(error)) from error
    print(f"{printable(str(document))} ({document.stat().st_size / _MIB:,.1f} MiB)")
    print(printable_text("\n".join(f"  {line}" for line in lines)))
    print(HOW_TO_OPEN[request.tool].format(path=printable(str(document))))


def make_document(
    run_dir: Path,
    request: CaptureRequest,
    output: Path | None,
    interrupted: Interruption,
    on_progress: Callable[[str], None],
) -> tuple[Path, list[str]]:
    """Capture a running run; return where the document is and, line by line, what is in it.

    Args:
        run_dir: the run's folder.
        request: what to capture.
        output: the document; None: in the run's folder.
        interrupted: ends the capture early once it is wanted.
        on_progress: is told the step that the capture is in, again and again: ``start``, ``run``, ``stop``.

    Raises:
        CaptureError: the run cannot be asked, or no process has written a part.
        OSError: the document cannot be written.
        ValueError: a part is not what its tool writes.
    """
    folder = RunFolder(run_dir).captures
    if request.tool == TIMELINE:
        return write_timeline(run_dir, request, output, interrupted, on_progress)
    if request.tool == PY_SPY:
        outcome = capture_outside(run_dir, request, interrupted, on_progress)
    else:
        outcome = capture_live(run_dir, request, interrupted, on_progress)
    if not outcome.parts:
        raise _NothingCapturedError(outcome)
    on_progress("stop")
    path = output or folder / (outcome.name + SUFFIXES.get(request.tool, SPEEDSCOPE))
    path.parent.mkdir(parents=True, exist_ok=True)
    missing = merge_parts(request.tool, outcome.parts, outcome.facts, path, run_dir)
    for part in outcome.parts.values():
        part.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty where a part came too late
        (folder / outcome.name).rmdir()
    return path, [*_describe(outcome), *missing]


def _describe(outcome: CaptureOutcome) -> Iterator[str]:
    width = max(map(len, (*outcome.parts, *outcome.errors)))
    for process in outcome.parts:
        facts = outcome.facts.get(process)
        if facts is None:
            yield f"{process:{width}}  captured until the run ended"
        elif facts["is_empty"]:
            yield f"{process:{width}}  recorded nothing"
        else:
            yield f"{process:{width}}  {(facts['end_ns'] - facts['start_ns']) / NS_PER_S:.1f} s"
    for process, error in outcome.errors.items():
        yield f"{process:{width}}  not captured: {error}"
