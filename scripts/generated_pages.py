"""What the scripts share that write a page of the documentation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["write_or_check"]


def write_or_check(argv: Sequence[str], path: Path, make_page: Callable[[], str]) -> int:
    """Write a page, or with ``--check`` compare it.

    Args:
        argv: the command line without the program's name.
        path: of the page.
        make_page: returns its text.

    Returns:
        The exit status: 1 if the page is out of date, 2 if the command line is none.
    """
    if list(argv) not in ([], ["--check"]):
        print(f"unknown arguments {list(argv)}: none writes the page, --check compares it", file=sys.stderr)
        return 2
    page = make_page()
    if not argv:
        path.parent.mkdir(exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == page:
        return 0
    print(f"{path} is out of date: run make docs", file=sys.stderr)
    return 1
