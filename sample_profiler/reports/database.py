"""Owns what a session is as tables: for questions that no report answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from sample_profiler.analysis.accounts import accounts
from sample_profiler.config import show_value
from sample_profiler.errors import UsageError
from sample_profiler.profiling.record.process_record import ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.sections.history import read_history

__all__ = ["SCHEMA", "Table", "make_database", "query"]

SCHEMA = """\
-- Seconds are wall time; *_s of moments count from when the first process of the run started.
CREATE TABLE processes (process TEXT, pid INTEGER, host TEXT, state TEXT, started_s REAL, read_s REAL);
CREATE TABLE blocks (
  process TEXT, component TEXT,
  path TEXT,      -- keys from the root on: main_loop/env_step
  block TEXT,     -- the last of them
  depth INTEGER,  -- 1: at the top of the component's tree
  count INTEGER, total_s REAL,
  self_s REAL,    -- without the blocks inside
  mean_s REAL, min_s REAL, max_s REAL, p50_s REAL, p99_s REAL
);
CREATE TABLE events (process TEXT, component TEXT, path TEXT, block TEXT, thread TEXT, start_s REAL, duration_s REAL);
CREATE TABLE gauges (process TEXT, component TEXT, gauge TEXT, value REAL, min REAL, max REAL, count INTEGER);
CREATE TABLE accounts (component TEXT, kind TEXT, part TEXT, seconds REAL);  -- kind: work, wait, unaccounted
CREATE TABLE history (figure TEXT, time_s REAL, value REAL);
CREATE TABLE flags (flag TEXT, value TEXT);
"""
"""Of the tables, as SQL."""

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension"}
_PATIENCE_S = 0.05

Table = tuple[list[str], list[tuple[Any, ...]]]
"""Names of the columns, and rows."""


def make_database(session: Session) -> sqlite3.Connection:
    """Return a database in memory with what a session holds; it can be read only.

    Args:
        session: with its events, if they are to be in it.
    """
    database = sqlite3.connect(":memory:", check_same_thread=False)  # a thread of `query` answers, one at a time
    database.executescript(SCHEMA)
    started_ns = min((record.wall_ns(record.process_started_ns) for record in session.processes), default=0)
    for record in session.processes:
        _insert(database, "processes", [_process(record, started_ns)])
        _insert(database, "blocks", _blocks(record))
        _insert(database, "events", _events(record, started_ns))
        _insert(database, "gauges", _gauges(record))
    _insert(database, "accounts", _accounts(session))
    history = read_history(session).items()
    _insert(database, "history", ((name, time_s, value) for name, points in history for time_s, value in points))
    _insert(database, "flags", ((_text(name), _text(show_value(value))) for name, value in session.config.items()))
    database.commit()
    database.set_authorizer(_authorize)
    return database


def query(database: sqlite3.Connection, sql: str) -> Table:
    """Answer a question; Ctrl+C ends one that takes too long, or for ever.

    Args:
        database: from `make_database`.
        sql: one SELECT.

    Raises:
        UsageError: it is none, or not about these tables.
    """
    # In a thread of its own: while SQLite computes, the one that called it notices no signal.
    with ThreadPoolExecutor(1, "query") as threads:
        answering = threads.submit(_answer, database, sql)
        try:
            return answering.result()
        except BaseException:
            while not answering.done():  # again: one that has not begun yet hears nothing
                database.interrupt()
                wait([answering], _PATIENCE_S)
            raise


def _answer(database: sqlite3.Connection, sql: str) -> Table:
    try:
        cursor = database.execute(sql)
        rows = cursor.fetchall()
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: a null character
        raise UsageError(
            f"the query cannot be answered: {error}; --schema shows the tables, which are read only"
        ) from None
    return [column[0] for column in cursor.description or ()], rows


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Let nothing be changed, and no file be opened."""
    names = {first, second}
    is_allowed = action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and names & _FORBIDDEN_FUNCTIONS)
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _insert(database: sqlite3.Connection, table: str, rows: Any) -> None:
    columns = database.execute(f"SELECT * FROM {table}").description
    database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)


def _text(value: str) -> str:
    """Return a text without what UTF-8 has no bytes for: names may be anything."""
    return str(value).encode(errors="backslashreplace").decode()


def _process(record: ProcessRecord, started_ns: int) -> tuple[Any, ...]:
    began_s, read_s = (
        (record.wall_ns(moment) - started_ns) / NS_PER_S for moment in (record.process_started_ns, record.read_ns)
    )
    return _text(record.name), record.pid, _text(record.host), record.state, began_s, read_s


def _blocks(record: ProcessRecord) -> Iterator[tuple[Any, ...]]:
    for component, root in record.trees.items():
        stack: list[tuple[TreeNode, tuple[str, ...]]] = [(child, (child.key,)) for child in root.children.values()]
        while stack:
            node, path = stack.pop()
            passes = node.statistics
            inside_ns = sum(child.statistics.total_ns for child in node.children.values())
            times_ns = (
                *(passes.total_ns, max(0, passes.total_ns - inside_ns)),
                *(passes.total_ns / passes.count if passes.count else 0, passes.min_ns, passes.max_ns),
                *(passes.quantile_ns(share) if passes.count else 0 for share in (0.5, 0.99)),
            )
            names = (_text(record.name), _text(component), _text("/".join(path)), _text(node.key))
            yield (*names, len(path), passes.count, *(time_ns / NS_PER_S for time_ns in times_ns))
            stack.extend((child, (*path, child.key)) for child in node.children.values())


def _events(record: ProcessRecord, started_ns: int) -> Iterator[tuple[Any, ...]]:
    name = _text(record.name)
    paths = [(_text(path[0]), _text("/".join(path[1:])), _text(path[-1])) for path in record.paths]
    for event in record.events:
        if not event.is_flow_point:
            thread = _text(record.thread_names.get(event.thread, str(event.thread)))
            start_s = (record.wall_ns(event.start_ns) - started_ns) / NS_PER_S
            yield (name, *paths[event.node], thread, start_s, (event.end_ns - event.start_ns) / NS_PER_S)


def _gauges(record: ProcessRecord) -> Iterator[tuple[Any, ...]]:
    for name, (owner, short) in record.gauge_owners().items():
        gauge = record.gauges[name]
        if gauge.count:
            figures = (gauge.value, gauge.min_value, gauge.max_value, gauge.count)
            yield (_text(record.name), _text(owner), _text(short), *figures)


def _accounts(session: Session) -> Iterator[tuple[Any, ...]]:
    for account in accounts(session):
        component = _text(account.component)
        yield from ((component, "work", _text(part), ns / NS_PER_S) for part, ns in account.work_ns.items())
        yield from ((component, "wait", _text(part), ns / NS_PER_S) for part, ns in account.waits_ns.items())
        yield component, "unaccounted", "", account.unaccounted_ns / NS_PER_S
