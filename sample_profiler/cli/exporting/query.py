"""Owns `sample-profiler query`: what a run recorded as tables, and questions about them in SQL."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from sample_profiler.cli.common.arguments import Commands
from sample_profiler.cli.common.progress import progress_shown
from sample_profiler.errors import UsageError
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.reports.database import SCHEMA, Table, make_database, query
from sample_profiler.reports.sections.tables import format_table

__all__ = ["add_parser", "run"]

_FORMATS = ("table", "csv", "json")
_EXAMPLES = """\
examples:
  sample-profiler query --schema
  sample-profiler query train_dir/doom "SELECT component, path, self_s FROM blocks ORDER BY self_s DESC LIMIT 10"
  sample-profiler query train_dir/doom/profile/session.json --format csv \\
      "SELECT block, count(*) AS passes, max(duration_s) AS longest_s FROM events GROUP BY block"

Runs that go on, hang or were killed can be asked about, too. Nothing can be changed.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "query",
        help="ask in SQL about the blocks, events and gauges of a run",
        description="Ask in SQL about the blocks, events, gauges and figures of a run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("session", metavar="SESSION", type=Path, nargs="?", help="a run's folder, or a session.json")
    parser.add_argument("sql", metavar="SQL", nargs="?", help="one SELECT")
    parser.add_argument("--schema", action="store_true", help="show the tables, as SQL, and do nothing else")
    parser.add_argument("--format", choices=_FORMATS, default="table", help="default: table, for people")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status.

    Raises:
        SessionError: there is no such run or session.
        UsageError: the query cannot be answered.
    """
    if arguments.schema:
        print(SCHEMA, end="")
        return 0
    if arguments.session is None or arguments.sql is None:
        raise UsageError("give a run's folder and one SELECT in quotation marks, or --schema")
    path = arguments.session
    with progress_shown("reading the run") as course:
        session = Session.load(path) if path.is_file() else read_session(path)
        with contextlib.closing(make_database(session)) as database:
            course.text = "looking for the answer, which Ctrl+C ends"
            text = _format(query(database, arguments.sql), arguments.format)
    print(text)
    return 0


def _format(table: Table, format_name: str) -> str:
    columns, rows = table
    if format_name == "json":
        return json.dumps([dict(zip(columns, map(_plain, row), strict=True)) for row in rows], indent=1)
    if format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([columns, *rows])
        return text.getvalue().rstrip("\n")
    numbers = {
        number for number in range(len(columns)) if rows and all(isinstance(row[number], int | float) for row in rows)
    }
    return format_table(columns, [[_shown(value) for value in row] for row in rows], right=numbers)


def _plain(value: Any) -> Any:
    """Return what JSON has a word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.hex() if isinstance(value, bytes) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
