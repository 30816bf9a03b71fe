"""Owns what a breakage is: a change of one place in the package, and the tests that have to notice it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Breakage"]


@dataclass(frozen=True)
class Breakage:
    """A mistake in the package.

    Attributes:
        name: what goes wrong, in words.
        path: of the file, from the root of the repository.
        old: text that stands there once.
        new: what takes its place; the file stays a program.
        tests: files of tests, or tests as pytest names them, of which at least one has to fail.
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def find_problem(self, root: Path) -> str:
        """Say why it cannot be made in a repository; empty: it can be."""
        text = (root / self.path).read_text(encoding="utf-8") if (root / self.path).is_file() else ""
        if (number := text.count(self.old)) != 1:
            return f"its old text stands {number} times in {self.path}"
        try:
            compile(text.replace(self.old, self.new), self.path, "exec")
        except SyntaxError as error:
            return f"{self.path} is no program with its new text: {error}"
        return "" if self.new != self.old else "its new text is the old one"

    def find_missing_tests(self, root: Path) -> list[str]:
        """Return those of its tests that are not there."""
        return [test for test in self.tests if not _is_there(root, test)]

    @contextlib.contextmanager
    def made(self, root: Path) -> Iterator[None]:
        """Make it in a copy of the repository, and undo it in the end."""
        path = root / self.path
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(self.old, self.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(whole, encoding="utf-8")


def _is_there(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    path = root / file
    return path.is_file() and (not name or f"def {name}(" in path.read_text(encoding="utf-8"))
