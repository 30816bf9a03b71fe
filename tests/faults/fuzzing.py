"""What all tests with made-up input share: how much of it, and ways to spoil a document.

`make fuzz` tries 500 inputs of each kind (`FAULTS_EXAMPLES=500`); without it there are a few dozen. With
`FUZZ_RESULTS=FILE` only tests with made-up input run, those that are in the file and passed are left out, and each adds
a line of JSON to it.
"""

from __future__ import annotations

import copy
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

NUM_EXAMPLES = int(os.environ.get("FAULTS_EXAMPLES", "25"))
RESULTS = Path(os.environ["FUZZ_RESULTS"]) if "FUZZ_RESULTS" in os.environ else None
TRIED: Counter[str] = Counter()
"""How many inputs each test has had, by its name, since somebody asked."""

_settings = settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize=NUM_EXAMPLES <= 50,  # no surprises in CI
    database=None,
    phases=(Phase.explicit, Phase.generate),  # making a failure smaller takes minutes of runs
    suppress_health_check=list(HealthCheck),
)


def fuzzed(test: Callable[..., None]) -> Callable[..., None]:
    """Have a test get as much made-up input as is wanted, and count it; goes below `given`."""
    return _settings(_counted(test))


def _counted(test: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(test)
    def count(*arguments: Any, **named: Any) -> None:
        TRIED[test.__name__] += 1
        test(*arguments, **named)

    return count


def latest_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the latest line of each test, by its name."""
    return {line["test"]: line for line in lines}


def is_done(line: Mapping[str, Any] | None) -> bool:
    """Tell whether a test has had all the input that is wanted, and passed."""
    return line is not None and line["outcome"] == "passed" and line["asked"] >= NUM_EXAMPLES


def describe_fuzzing(names: Iterable[str], lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what came of tests, a line for each and one for all.

    Args:
        names: of the tests.
        lines: that were kept.
    """
    latest, names = latest_of(lines), list(names)
    texts = [
        f"{name}: {latest[name]['tried']} inputs, {latest[name]['outcome']}" if name in latest else f"{name}: not yet"
        for name in names
    ]
    done = [latest[name] for name in names if is_done(latest.get(name))]
    total = sum(line["tried"] for line in done)
    return [*texts, f"{len(done)} of {len(names)} kinds of input passed, with {total} inputs"]


WEIRD_TEXTS = st.sampled_from(
    [
        *(
            "",
            " ",
            "\0",
            "../x",
            "/",
            "~",
            "a/b",
            "x" * 300,
            "-",
            "--",
            "=",
            "nan",
            "inf",
            "-inf",
            "1e999",
            "-1",
            "0",
            "1",
        ),
        *(
            "None",
            "True",
            "False",
            "2e9",
            "9" * 30,
            "1" * 5000,
            "0.5",
            "<script>",
            "ü\ud800",
            "[]",
            "{}",
            "\n",
            "1,2,,3",
        ),
    ]
)
WEIRD_VALUES = (
    st.sampled_from([None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1e308, -0.5])
    | st.sampled_from([[], {}, [[]], {"a": []}])
    | WEIRD_TEXTS
    | st.integers()
    | st.floats(allow_subnormal=False)  # processors that train flush them
    | st.lists(st.integers() | st.none() | st.text(max_size=3), max_size=3)
)


def paths_in(document: Any) -> list[tuple[Any, ...]]:
    """Return the way to every value in a document, its own first."""
    found: list[tuple[Any, ...]] = []
    stack: list[tuple[Any, tuple[Any, ...]]] = [(document, ())]
    while stack:
        value, path = stack.pop()
        found.append(path)
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        stack.extend((child, (*path, key)) for key, child in children)
    return found


def spoil(document: Any, draw: st.DrawFn) -> Any:
    """Replace, remove or double some values of a document, in place where that is possible."""
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths_in(document)))
        if not path:
            if draw(st.integers(0, 9)) == 0:
                return copy.deepcopy(draw(WEIRD_VALUES))
            continue
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        how = draw(st.sampled_from(["replace", "replace", "remove", "double", "deepen"]))
        if how == "replace":
            holder[path[-1]] = copy.deepcopy(draw(WEIRD_VALUES))  # later ones may be put into it
        elif how == "remove":
            del holder[path[-1]]
        elif how == "deepen":
            value: Any = 1
            for _ in range(draw(st.sampled_from([5, 150, 450]))):
                value = {"children": [value]}
            holder[path[-1]] = value
            break  # every value in there would be a path of its own
        elif isinstance(holder, list):
            holder.append(holder[path[-1]])
        else:
            holder[draw(st.text(max_size=4))] = holder[path[-1]]
    return document


@st.composite
def spoiled_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Change some bytes of a file: bits, pieces, its length."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(changed) - 1)))
        how = draw(st.sampled_from(["bit", "piece", "zeros", "ones", "cut", "truncate", "insert"]))
        if how == "bit" and changed:
            changed[start] ^= 1 << draw(st.integers(0, 7))
        elif how == "piece":
            piece = draw(st.binary(max_size=16))
            changed[start : start + len(piece)] = piece
        elif how in ("zeros", "ones"):
            length = min(8, len(changed) - start)
            changed[start : start + length] = (b"\0" if how == "zeros" else b"\xff") * length
        elif how == "cut":
            del changed[start : start + draw(st.integers(1, 64))]
        elif how == "truncate":
            del changed[start:]
        else:
            changed[start:start] = draw(st.binary(max_size=8))
    return bytes(changed)
