"""Owns `sample-profiler report` and `verdict`: the page, the text or the data of what a run did; the verdicts alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from sample_profiler.cli.common.arguments import Commands, add_run_dir, as_output_file
from sample_profiler.cli.common.problems import files_told_of
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import UsageError
from sample_profiler.files import written_whole
from sample_profiler.profiling.tree.render import printable
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.page import format_html
from sample_profiler.reports.run_report.report import RunReport, report_to_dict
from sample_profiler.reports.run_report.text import format_text, format_verdicts
from sample_profiler.run_folder import RunFolder

__all__ = ["add_parser", "add_verdict_parser", "report", "run", "run_verdict", "write_page"]

_FORMATS = ("html", "text", "json")

_EXAMPLES = """\
examples:
  sample-profiler report train_dir/doom                   writes train_dir/doom/report.html
  sample-profiler report train_dir/doom --format text     the same figures in the terminal
  sample-profiler report train_dir/doom --format json     and as data

Runs that go on, hang or were killed have reports, too. Every run that ends writes its page by itself.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "report",
        help="say what limited a run, and show where its time went, as a page",
        description="Say what limited a run, and show where its time went.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dirs", metavar="RUN_DIR", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--format", choices=_FORMATS, default="html", help="default: html, one file that works offline")
    parser.add_argument(
        "--output",
        type=as_output_file,
        metavar="FILE",
        help="default: RUN_DIR/report.html; of text and json standard output",
    )
    parser.set_defaults(run=run)


def add_verdict_parser(commands: Commands) -> None:
    """Add what the line of `sample-profiler verdict` looks like."""
    says = "say what limits a run, what changed over its time, and what keeps it from learning"
    parser = commands.add_parser("verdict", help=says, description=f"{says[0].upper()}{says[1:]}.")
    add_run_dir(parser)
    parser.set_defaults(run=run_verdict)


def run_verdict(arguments: argparse.Namespace) -> int:
    """Print the verdicts on a run; return the exit status.

    Raises:
        SessionError: the folder is no run's.
    """
    with progress_shown("reading the run"):
        text = format_verdicts(load_report(arguments.run_dir))
    print(text)
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status."""
    report(arguments.run_dirs, arguments.format, arguments.output)
    return 0


def report(run_dirs: Sequence[Path], format_name: str, output: Path | None) -> None:
    """Write reports.

    Args:
        run_dirs: folders of runs, of those that go on or were killed, too.
        format_name: `html`, `text` or `json`.
        output: where to; None: `report.html` in each run's folder, or standard output for text and JSON, which of
            several runs is one list.

    Raises:
        SessionError: a folder is no run's.
        UsageError: a report cannot be written, or one file is to hold those of several runs.
    """
    if output is not None and len(run_dirs) > 1:
        raise UsageError(f"--output={output} is for one run; {len(run_dirs)} are given")
    # A reader of JSON takes one document.
    parts = [run_dirs] if format_name == "json" else [[run_dir] for run_dir in run_dirs]
    with progress_shown("reading the run" if len(run_dirs) == 1 else "reading runs", len(parts)) as course:
        for number, part in enumerate(parts):
            course.reach(number)
            with files_told_of():
                told = _make(part, format_name, output)
            print(told)


def write_page(loaded: RunReport, path: Path) -> None:
    """Write a report's page.

    Raises:
        OSError: it cannot be written; a file that was there is then as before.
    """
    _write(path, format_html(loaded))


def _make(run_dirs: Sequence[Path], format_name: str, output: Path | None) -> str:
    """Write the report of a run, as data of several; return what is to be shown of it: where it is, or itself."""
    if format_name == "html":
        path = RunFolder(run_dirs[0]).report if output is None else output
        write_page(load_report(run_dirs[0]), path)
        return printable(str(path))
    if format_name == "json":
        documents = [report_to_dict(load_report(run_dir)) for run_dir in run_dirs]
        text = json.dumps(documents if len(documents) > 1 else documents[0], indent=1)
    else:
        text = format_text(load_report(run_dirs[0]))
    if output is None:
        return text
    _write(output, text + "\n")
    return printable(str(output))


def _write(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # names may be anything
