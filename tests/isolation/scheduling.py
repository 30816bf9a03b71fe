"""Which tests several processes run where: those of a module that share something in one of them, others in any."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[2]


class SharedScheduling(LoadScopeScheduling):
    """Hands a process the next test when it has time for one; a module whose fixtures are made once is one piece."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, _ = nodeid.partition("::")
        return path if has_shared_fixture(path) else nodeid


@cache
def has_shared_fixture(path: str) -> bool:
    return 'scope="module"' in (ROOT / path).read_text(encoding="utf-8")
