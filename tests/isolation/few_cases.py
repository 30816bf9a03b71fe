"""Which cases of a test are tried where there is no time for all of them: those that differ from each other most."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def choose_few(items: Sequence[Any], num_cases: int) -> list[Any]:
    """Return the items with at most so many cases of each test, in their order.

    Which comes first follows from the name of the test, so that some are tried with a parallel run and others with
    a serial one, the same ones each time. Then comes, again and again, the first case of those with most values of
    parameters that no other has yet.

    Args:
        items: as pytest collects them.
        num_cases: of each test.
    """
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen = {id(item) for name, several in cases.items() for item in _most_different(name, several, num_cases)}
    return [item for item in items if id(item) in chosen]


def _most_different(name: str, items: Sequence[Any], num_cases: int) -> Iterator[Any]:
    left, seen = list(items), set[tuple[str, int]]()
    best = left[zlib.crc32(name.encode()) % len(left)]
    for _ in range(min(num_cases, len(items))):
        left.remove(best)
        seen |= _values_of(best)
        yield best
        best = max(left, key=lambda item: len(_values_of(item) - seen), default=None)  # the first of them


def _values_of(item: Any) -> set[tuple[str, int]]:
    """Return which value of each parameter a case has: cases of one test share the objects themselves."""
    values: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return {(name, id(value)) for name, value in values.items()}
