"""Owns the table of where the time of each component went."""

from __future__ import annotations

from collections.abc import Sequence

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.analysis.device_use import DeviceUse
from sample_profiler.analysis.findings import describe_sleeps
from sample_profiler.analysis.work_split import WorkSplit
from sample_profiler.reports.sections.tables import format_percent, format_table

__all__ = [
    *("SPLIT_NOTE", "SPLIT_TITLES", "describe_parts", "format_accounts", "format_device", "format_splits"),
    "split_rows",
]

SPLIT_TITLES = ("component", "work", "computes", "queues", "sleeps", "for")
"""Of the columns of `split_rows`; all but the first and the last are numbers."""
SPLIT_NOTE = (
    "Of the main thread: it had a processor; was ready and had none (others had them, or a quota was used up); or could"
    " not go on. What for was looked at five times a second, in all components of a kind together."
)

_NOT_TOLD = "not told"
_WORK_WIDTH = 22
_WAITS_WIDTH = 24


def format_accounts(accounts: Sequence[ComponentAccount]) -> str:
    """Return the table: of each component its wall time, and the shares of work, of waits and of neither in it.

    Args:
        accounts: in the order of the lines.
    """
    if not accounts:
        return "unknown: there are no record files of this run"
    rows = [
        [
            account.component + ("*" if account.is_parallel else ""),
            f"{account.wall_s:.1f} s",
            format_percent(account.share(sum(account.work_ns.values()))),
            describe_parts(account, account.work_ns, _WORK_WIDTH),
            describe_parts(account, account.waits_ns, _WAITS_WIDTH) or "nobody",
            format_percent(account.share(account.unaccounted_ns)),
            "unknown" if account.run_delay_s is None else f"{account.run_delay_s:.1f} s",
        ]
        for account in accounts
    ]
    titles = ["component", "wall", "work", "most of it in", "waits for", "unacc.", "run delay"]
    lines = [format_table(titles, rows, right={1, 2, 5, 6})]
    if any(account.is_parallel for account in accounts):
        lines.append("* several threads or tasks at once; where they add up to more than the wall, scaled down to it")
    if any(account.run_delay_s is None for account in accounts):
        lines.append("run delay unknown: the kernel, or the process, does not tell how long it had no processor")
    return "\n".join(lines)


def format_device(use: DeviceUse | None) -> str:
    """Return the line of the accelerator, which is nobody's process; empty where there is none.

    Args:
        use: in the steady part of the run.
    """
    if use is None:
        return ""
    parts = sorted(use.parts.items(), key=lambda part: -part[1])
    told = ", ".join(f"{what} {format_percent(share)}" for what, share in parts)
    return (
        f"device (steady part)  busy {format_percent(use.busy)}: {told}; idle {format_percent(use.idle)}; "
        f"the host waited for it {format_percent(use.waited)}"
    )


def describe_parts(account: ComponentAccount, parts_ns: dict[str, int], width: int) -> str:
    """Return the largest parts of an account with their shares of the wall: ``env_step 61%, overhead 2%``.

    Args:
        account: which the parts are of.
        parts_ns: its work or its waits.
        width: of characters; there is always one part, and a further one only if it fits.
    """
    text = ""
    for key, part_ns in sorted(parts_ns.items(), key=lambda part: -part[1]):
        longer = f"{text}{', ' if text else ''}{key} {format_percent(account.share(part_ns))}"
        if not part_ns or (text and len(longer) > width):
            break
        text = longer
    return text


def split_rows(accounts: Sequence[ComponentAccount]) -> list[list[str]]:
    """Return what each component did while it worked as text, in shares of its wall, by `SPLIT_TITLES`.

    Args:
        accounts: in the order of the rows.
    """
    rows = []
    for account in accounts:
        work = format_percent(account.share(sum(account.work_ns.values())))
        split = account.split
        parts = ("?", "?", "?") if split is None else (split.computing_ns, split.queued_ns, split.asleep_ns)
        shares = (format_percent(account.share(part)) if isinstance(part, int) else part for part in parts)
        rows.append([account.component, work, *shares, _NOT_TOLD if split is None else _describe_sleeps(split)])
    return rows


def format_splits(accounts: Sequence[ComponentAccount]) -> str:
    """Return the table of `split_rows`, and what it is about; empty without accounts."""
    if not accounts:
        return ""
    return f"{format_table(SPLIT_TITLES, split_rows(accounts), right={1, 2, 3, 4})}\n{SPLIT_NOTE}"


def _describe_sleeps(split: WorkSplit) -> str:
    if not split.asleep_ns:
        return ""
    return describe_sleeps(split.sleeps) or _NOT_TOLD
