"""A run that is looked at from a program or a notebook: its figures as tables, its pictures as those of the page."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sample_profiler.errors import UsageError
from sample_profiler.files import written_whole
from sample_profiler.profiling.session.session import Session, read_session
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.reports.database import Table, make_database, query
from sample_profiler.reports.run_report.charts import format_charts
from sample_profiler.reports.run_report.loading import load_report
from sample_profiler.reports.run_report.page import format_html, page_html, report_sections, verdict_html
from sample_profiler.reports.run_report.report import RunReport
from sample_profiler.reports.sections.distance import is_running
from sample_profiler.reports.sections.verdict import format_verdict
from sample_profiler.reports.status import describe_state

if TYPE_CHECKING:
    import pandas

__all__ = ["Picture", "Run"]

_TABLES = {
    "history": "SELECT * FROM history",
    "accounts": "SELECT * FROM accounts",
    "blocks": "SELECT * FROM blocks",
    "gauges": "SELECT * FROM gauges",
    "events": "SELECT * FROM events ORDER BY start_s",
}
_PICTURES: dict[str, Callable[[RunReport], str]] = {
    "curves": lambda report: format_charts(report.history),
    "accounts": lambda report: report_sections(report).get("Where the time went", ""),
    "tree": lambda report: report_sections(report).get("Blocks", ""),
    "verdict": lambda report: verdict_html(report.verdict),
}


class Picture:
    """A part of the page of a run: notebooks show it, and `save` writes it as a page of its own.

    Args:
        title: of the page.
        html: of a whole page.
        height: in pixels, of what a notebook shows of it; it can be scrolled.
    """

    def __init__(self, title: str, html: str, height: int = 420) -> None:
        self.title = title
        self.html = html
        self._height = height

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page that works offline.

        Raises:
            OSError: it cannot be written.
        """
        with written_whole(path) as partial:
            partial.write_text(self.html, encoding="utf-8", errors="backslashreplace")

    def _repr_html_(self) -> str:
        """Show it in a notebook, in a frame: its style is not that of the notebook, and it runs no scripts."""
        style = f"width:100%;height:{self._height}px;border:0"
        return f'<iframe sandbox srcdoc="{escape(self.html)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"<picture of {self.title}: show it in a notebook, or save() it>"


class Run:
    """A run, by its folder: one that goes on, hangs, was killed or has ended.

    What it says is of the moment when it was first asked; `refresh` looks again.

    ::

        run = Run("train_dir/doom")
        print(run)                      # how it is, and what limits it
        run.history                     # figures over time, as a data frame
        run.picture("curves")           # of the page, as those of accounts, tree and verdict

    Args:
        folder: of the run, ``{train_dir}/{experiment}``.

    Raises:
        SessionError: the folder is no run's.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()
        self._report: RunReport = load_report(self.folder)

    def refresh(self) -> Run:
        """Look again, and return the run.

        Raises:
            SessionError: the folder is no run's any more.
        """
        self.__dict__ = {"folder": self.folder, "_report": load_report(self.folder)}
        return self

    @property
    def name(self) -> str:
        """Of the run."""
        return self._report.name

    @property
    def is_running(self) -> bool:
        """Whether it goes on, as far as can be told from here."""
        return is_running(self.session)

    @property
    def session(self) -> Session:
        """All that it has recorded, without events."""
        return self._report.session

    @property
    def config(self) -> dict[str, Any]:
        """Its flags."""
        return self.session.config

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of it as a whole: `frames`, `fps`, `reason`, …; of one that goes on only some."""
        return {name: value for name, value in self.session.run.items() if not name.startswith("history")}

    @property
    def verdict(self) -> str:
        """What limits it, what shows that and what to change, as text."""
        return format_verdict(self._report.verdict)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Answer a question in SQL about its tables; `sample-profiler query --schema` shows these.

        Args:
            sql: one SELECT.

        Raises:
            UsageError: it cannot be answered.
        """
        columns, rows = self._ask(sql)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def table(self, name: str) -> pandas.DataFrame:
        """Return one of its tables, or what a query gives, as a data frame.

        Args:
            name: `history`, `accounts`, `blocks`, `gauges`, `events`, or one SELECT.

        Raises:
            UsageError: pandas is missing, or the query cannot be answered.
        """
        try:
            import pandas
        except ImportError:
            cure = "pip install pandas, or use query(), which gives dictionaries"
            raise UsageError(f"pandas is not installed, which data frames take: {cure}") from None
        columns, rows = self._ask(_TABLES.get(name, name))
        return pandas.DataFrame(rows, columns=columns)

    def _ask(self, sql: str) -> Table:
        with contextlib.closing(make_database(self._with_events)) as database:
            return query(database, sql)

    @cached_property
    def _with_events(self) -> Session:
        return read_session(self.folder)

    @property
    def history(self) -> pandas.DataFrame:
        """Figures over time: a column for each, seconds since the start as index; the errors are those of `table`."""
        points = self.table("history").drop_duplicates(["figure", "time_s"], keep="last")
        return points.pivot(index="time_s", columns="figure", values="value")

    @property
    def accounts(self) -> pandas.DataFrame:
        """Seconds of work, of waits and of neither, by component; the errors are those of `table`."""
        return self.table("accounts")

    @property
    def blocks(self) -> pandas.DataFrame:
        """All blocks of all components; the errors are those of `table`."""
        return self.table("blocks")

    @property
    def gauges(self) -> pandas.DataFrame:
        """All gauges, with their extremes; the errors are those of `table`."""
        return self.table("gauges")

    def picture(self, name: str = "page") -> Picture:
        """Return a part of its page.

        Args:
            name: `curves`, `accounts`, `tree`, `verdict`, or `page` for all of it, as in report.html.

        Raises:
            UsageError: there is no such picture.
        """
        if name == "page":
            return Picture(f"all of {self.name}", format_html(self._report), height=700)
        if name not in _PICTURES:
            raise UsageError(f"there is no picture {name!r}; there are {', '.join(_PICTURES)} and page")
        return Picture(f"the {name} of {self.name}", page_html(self.name, _PICTURES[name](self._report)))

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()

    def __repr__(self) -> str:
        return printable(f"<run {self.name}, which {describe_state(self.session)}: {self._report.verdict.headline}>")

    def __str__(self) -> str:
        return printable_text(f"{self.name} {describe_state(self.session)}\n{self.verdict}")
