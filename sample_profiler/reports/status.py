"""Owns the picture of a run at one moment: who lives, who sits where, who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sample_profiler.analysis.accounts import account
from sample_profiler.profiling.record.process_record import PROCESS_GAUGES, TIMERS, ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.render import printable, printable_text
from sample_profiler.profiling.tree.statistics import NS_PER_S
from sample_profiler.reports.sections.accounts import describe_parts
from sample_profiler.reports.sections.distance import describe_distance, is_running
from sample_profiler.reports.sections.tables import format_duration, format_percent, format_table, shorten
from sample_profiler.vocabulary import MAIN_LOOP

__all__ = ["describe_state", "format_status"]

_COMPONENT_WIDTH = 21
_BLOCK_WIDTH = 22
_WAITS_WIDTH = 19
_UNKNOWN = "unknown"


def format_status(session: Session) -> str:
    """Return a text of at most 100 columns, unless names are very long.

    Args:
        session: from `read_session`; needs no events or histograms.
    """
    parts = [_headline(session), _component_table(session.processes), _process_table(session.processes)]
    gauges = "\n".join(_gauge_lines(session.processes))
    parts += [gauges] if gauges else []
    parts += session.describe_problems()
    return printable_text("\n\n".join(parts))  # reasons and problems are whatever a file says


def describe_state(session: Session) -> str:
    """Return how a run is, in words that come after its name: "is running", "was killed"."""
    states = {_shown_state(record) for record in session.processes}
    if is_running(session):
        return " ".join(filter(None, ("is running" if "alive" in states else "is stopped", describe_distance(session))))
    if "unknown" in states:
        distance = describe_distance(session) or "on another machine"
        return f"is {distance}; its processes cannot be seen from here"
    if "gone" in states and not session.run.get("reason"):
        return "was killed"  # nobody was left to say why it ended
    return "has ended"


def _headline(session: Session) -> str:
    records = session.processes
    states = [_shown_state(record) for record in records]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    wall_ns = max((tree.statistics.total_ns for record in records for tree in record.trees.values()), default=0)
    reason = f" ({session.run['reason']})" if session.run.get("reason") else ""
    lasted = format_duration(wall_ns / NS_PER_S)
    recorders = " and ".join(dict.fromkeys("compiled" if record.is_compiled else "pure Python" for record in records))
    told = f"The run {describe_state(session)}{reason}; {lasted}; processes: {counts}"
    return told + (recorders and f"; recorder: {recorders}")


def _shown_state(record: ProcessRecord) -> str:
    return "alive" if record.seems_alive and record.state == "unknown" else record.state


def _component_table(records: Sequence[ProcessRecord]) -> str:
    rows = []
    for record in records:
        for component in record.components:
            figures = account(record, component)
            rows.append(
                [
                    shorten(component, _COMPONENT_WIDTH) + ("*" if figures.is_parallel else ""),
                    _shown_state(record),
                    format_percent(figures.share(sum(figures.work_ns.values()))),
                    format_percent(figures.share(figures.unaccounted_ns)),
                    *_current_block(record, [component]),
                    describe_parts(figures, figures.waits_ns, _WAITS_WIDTH) or "nobody",
                ]
            )
        if record.timers:
            rows.append(_timers_row(record))
    titles = ["component", "state", "work", "unacc.", "in block", "for", "waits for"]
    table = format_table(titles, rows, right={2, 3, 5})
    if any("*" in row[0] for row in rows):
        table += "\n* several threads or tasks at once"
    return table


def _timers_row(record: ProcessRecord) -> list[str]:
    """Return how the timers of a process are, over all its threads: time in none of them is not unaccounted."""
    roots = [record.trees[name] for name in record.timers]
    wall_ns = sum(root.statistics.total_ns for root in roots)
    timed_ns = sum(block.statistics.total_ns for root in roots for block in root.children.values())
    share = format_percent(min(1.0, timed_ns / wall_ns)) if wall_ns else ""
    return [f"  {TIMERS}", _shown_state(record), share, "", *_current_block(record, record.timers), ""]


def _current_block(record: ProcessRecord, trees: Sequence[str]) -> tuple[str, str]:
    """Return the innermost open block, of those of several trees the one entered last, and for how long it is open."""
    blocks = [block for tree in trees if (block := record.innermost_open_block(tree)) is not None]
    block = max(blocks, key=lambda block: block.since_ns, default=None)
    if record.state == "ended" or block is None:
        return "-" if record.state == "ended" else "no block", ""
    # Everybody is in the main loop: that is not worth a word.
    path = block.path[1:] if len(block.path) > 1 and block.path[0] == MAIN_LOOP else block.path
    duration = format_duration((record.read_ns - block.since_ns) / NS_PER_S)
    return shorten("/".join(path), _BLOCK_WIDTH), duration


def _process_table(records: Sequence[ProcessRecord]) -> str:
    rows = []
    for record in records:
        gauges = {name: record.gauges[name].value for name in PROCESS_GAUGES if name in record.gauges}
        wall_s = (record.read_ns - record.process_started_ns) / NS_PER_S
        cpu_s, delay_s = gauges.get("cpu_s"), gauges.get("run_delay_s")
        rows.append(
            [
                shorten(record.name, _COMPONENT_WIDTH),
                str(record.pid or _UNKNOWN),
                f"{gauges['memory_mib']:,.0f}" if "memory_mib" in gauges else _UNKNOWN,
                f"{cpu_s:,.1f}" if cpu_s is not None else _UNKNOWN,
                format_percent(cpu_s / wall_s) if cpu_s is not None and wall_s > 0 else _UNKNOWN,
                f"{delay_s:,.1f}" if delay_s is not None else _UNKNOWN,
            ]
        )
    titles = ["process", "pid", "memory MiB", "CPU s", "CPU", "run delay s"]
    return format_table(titles, rows, right={1, 2, 3, 4, 5})


def _gauge_lines(records: Sequence[ProcessRecord]) -> Iterator[str]:
    for record in records:
        by_owner: dict[str, list[str]] = {}
        for name, (owner, short) in record.gauge_owners().items():
            gauge = record.gauges[name]
            if name not in PROCESS_GAUGES and gauge.count:
                by_owner.setdefault(owner or record.name, []).append(f"{printable(short)} {gauge.value:,.6g}")
        for owner, texts in by_owner.items():
            yield f"{printable(owner)}: {', '.join(texts)}"
