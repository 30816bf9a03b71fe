"""Owns `sample-profiler report`: the page, the text or the data of what a run did and what limited it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sample_profiler.errors import SessionError
from sample_profiler.files import written_whole
from sample_profiler.profiling.render import printable, printable_text
from sample_profiler.profiling.session import Session, read_session
from sample_profiler.reports.html_report import format_html
from sample_profiler.reports.run_report import RunReport, make_report, report_to_dict
from sample_profiler.reports.text_report import format_text
from sample_profiler.run_folder import RunFolder

__all__ = ["FORMATS", "load_report", "report", "write_page"]

FORMATS = ("html", "text", "json")
_BAD_USAGE = 2


def report(run_dirs: Sequence[Path], format_name: str, output: Path | None) -> int:
    """Write reports.

    Args:
        run_dirs: folders of runs, of those that go on or were killed, too.
        format_name: one of `FORMATS`.
        output: where to; None: `report.html` in each run's folder, or standard output for text and JSON, which of
            several runs is one list.

    Returns:
        Exit status: 0; or 2: a folder is no run's, or the report cannot be written.
    """
    if output is not None and len(run_dirs) > 1:
        print(f"sample-profiler report: --output={output} is for one run; {len(run_dirs)} are given", file=sys.stderr)
        return _BAD_USAGE
    texts = _make(run_dirs, format_name, output)
    while True:
        try:
            text = next(texts, None)
        except (SessionError, OSError) as error:
            reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
            print(printable_text(f"sample-profiler report: {reason}"), file=sys.stderr)
            return _BAD_USAGE
        if text is None:
            return 0
        print(text)  # out here: an error of standard output is none of a report


def load_report(run_dir: Path) -> RunReport:
    """Read a run's report from its files.

    Raises:
        SessionError: the folder is no run's.
    """
    session = read_session(run_dir, with_events=False)
    steady: Session | None = None
    if (path := RunFolder(run_dir).steady).exists():
        steady = Session.load(path, with_events=False)
    return make_report(run_dir.resolve().name, session, steady)


def write_page(loaded: RunReport, path: Path) -> None:
    """Write a report's page.

    Raises:
        OSError: it cannot be written; a file that was there is then as before.
    """
    _write(path, format_html(loaded))


def _make(run_dirs: Sequence[Path], format_name: str, output: Path | None) -> Iterator[str]:
    """Write reports; yields what is to be shown of each: where it is, or itself."""
    if format_name == "json":
        documents = [report_to_dict(load_report(run_dir)) for run_dir in run_dirs]
        # A reader of JSON takes one document: of several runs it is a list.
        yield _write_or_return(json.dumps(documents if len(documents) > 1 else documents[0], indent=1), output)
        return
    for run_dir in run_dirs:
        loaded = load_report(run_dir)
        if format_name == "html":
            path = RunFolder(run_dir).report if output is None else output
            write_page(loaded, path)
            yield printable(str(path))
        else:
            yield _write_or_return(format_text(loaded), output)


def _write_or_return(text: str, output: Path | None) -> str:
    if output is None:
        return text
    _write(output, text + "\n")
    return printable(str(output))


def _write(path: Path, text: str) -> None:
    with written_whole(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # names may be anything
