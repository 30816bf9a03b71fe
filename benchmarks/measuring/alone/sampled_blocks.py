"""Which blocks a sampling profiler from outside finds a process in: py-spy's stacks against the source's with blocks.

A sample lies in a block if one of its frames stands on a line of a ``with timing.add_time("…")`` with that key. The
recorder has no part in it. Blocks whose key is that of a wait count together, as `WAITS`.
"""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r".* \((.*):(\d+)\)")
WAITS = "wait_*"

_METHODS = {"add_time", "timeit", "time_avg"}


@dataclass(frozen=True)
class Samples:
    """What a sampling profiler saw of a thread.

    Attributes:
        num_samples: of all.
        in_block: samples in each block, by key.
        num_unreadable: samples that were taken and could not be read; they are in none of the others.
    """

    num_samples: int
    in_block: Counter[str]
    num_unreadable: int = 0

    def share(self, key: str) -> float:
        """Return the share of samples in a block."""
        return self.in_block[key] / self.num_samples

    def standard_error(self, key: str) -> float:
        """Return the standard error of that share, as if samples were drawn one independent of the other."""
        share = self.share(key)
        return float((share * (1 - share) / self.num_samples) ** 0.5)


def find_py_spy() -> str | None:
    """Return where py-spy is: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def sample_blocks(py_spy: str, pid: int, seconds: int, rate: int, source: Path) -> Samples:
    """Sample the main thread of a process.

    Args:
        py_spy: the program.
        pid: of the process.
        seconds: how long.
        rate: samples per second.
        source: folder of the sources whose blocks are of interest.

    Raises:
        RuntimeError: py-spy could not.
    """
    command = [
        py_spy,
        "record",
        "--idle",
        "--threads",
        "--full-filenames",
        "--format",
        "raw",
        "--output",
        "/dev/stdout",
    ]
    command += ["--duration", str(seconds), "--rate", str(rate), "--pid", str(pid)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if result.returncode:
        raise RuntimeError(f"py-spy says: {result.stderr.strip()}")
    num_samples, in_block = 0, Counter[str]()
    for line in result.stdout.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        if count.isdigit() and frames and _is_main(thread, pid):
            num_samples += int(count)
            for key in {key for frame in frames for key in _blocks_of_frame(frame, source)}:
                in_block[key] += int(count)
    errors = re.findall(r"Errors: (\d+)", result.stderr)
    return Samples(num_samples, in_block, int(errors[-1]) if errors else 0)


def _is_main(thread: str, pid: int) -> bool:
    return "MainThread" in thread or f"({pid})" in thread


def _blocks_of_frame(frame: str, source: Path) -> Iterator[str]:
    match = _FRAME.fullmatch(frame)
    if match and match[1].startswith(str(source)):
        yield from (key for key, first, last in _blocks_of_file(match[1]) if first <= int(match[2]) <= last)


@functools.cache
def _blocks_of_file(path: str) -> list[tuple[str, int, int]]:
    """Return key, first and last line of each block with a literal key."""
    return [
        (key, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if isinstance(node, ast.With)
        for item in node.items
        if (key := _key_of(item.context_expr)) is not None
    ]


def _key_of(expression: ast.expr) -> str | None:
    match expression:
        case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(key)), *_]) if method in _METHODS:
            return WAITS if key.startswith("wait_") else key
        case ast.Call(args=[ast.Call(func=ast.Attribute(attr="wait_block"))]):
            return WAITS
    return None
