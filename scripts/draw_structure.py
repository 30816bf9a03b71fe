"""Draws how a package is built: how many files lie in a folder, what imports what, and whether imports go in a circle.

Of each package within it, by what lies at its top (modules and folders): the longest chain of imports, in floors, and
from how many of these to how many others imports go, in arrows. What a module loads when it is imported counts; imports
within functions and for type checkers alone do not, and are only told of where they close a circle.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Graph = dict[Key, set[Key]]

_PACKAGE = Path(__file__).resolve().parents[1] / "sample_profiler"
_SOURCES = {".py", ".pyi", ".c"}


@dataclass(frozen=True)
class Drawing:
    """A package, or one within it.

    Attributes:
        name: dotted.
        num_files: in all of its folders, type stubs and C among them.
        num_entries: at its top, folders and files.
        largest_folder: with the most files directly in it.
        num_files_in_largest: directly in that one.
        num_floors: the longest chain of imports among its entries.
        num_arrows: pairs of entries of which the first imports the second.
    """

    name: str
    num_files: int
    num_entries: int
    largest_folder: str
    num_files_in_largest: int
    num_floors: int
    num_arrows: int


def read_imports(package: Path, *, with_late: bool = False) -> Graph[str]:
    """Return which modules of a package each of its modules loads when it is imported.

    Args:
        package: its folder.
        with_late: those within functions and for type checkers, too.
    """
    paths = {_name_of(path, package): path for path in sorted(package.rglob("*.py"))}
    return {name: set(_imported_by(path, paths, with_late)) - {name} for name, path in paths.items()}


def draw(package: Path, folder: Path, imports: Graph[str]) -> Drawing:
    """Return the figures of a folder of a package."""
    name = _name_of(folder / "__init__.py", package)
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES)
    folders = Counter(path.parent for path in files)
    largest = max(folders, key=lambda each: folders[each])
    entries = {path.name for path in folder.iterdir() if path.suffix in _SOURCES or path in folders}
    arrows = _among_entries(name, imports)
    return Drawing(
        name=name,
        num_files=len(files),
        num_entries=len(entries),
        largest_folder=str(largest.relative_to(package.parent)),
        num_files_in_largest=folders[largest],
        num_floors=count_floors(arrows),
        num_arrows=sum(map(len, arrows.values())),
    )


def find_circles(imports: Mapping[Key, set[Key]]) -> list[list[Key]]:
    """Return the groups of those that import each other, by one way or another."""
    reached = {name: _reach(name, imports) for name in imports}
    circles: list[list[Key]] = []
    for name in imports:
        circle = [other for other in imports if other in reached[name] and name in reached[other]]
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def count_floors(imports: Mapping[Key, set[Key]]) -> int:
    """Return the length of the longest chain of imports; a circle counts as one."""
    groups = {name: frozenset(circle) for circle in find_circles(imports) for name in circle}
    floors: dict[frozenset[Key], int] = {}

    def floor(group: frozenset[Key]) -> int:
        if group not in floors:
            below = {groups.get(each, frozenset({each})) for name in group for each in imports.get(name, ())}
            floors[group] = 1 + max(map(floor, below - {group}), default=0)
        return floors[group]

    return max((floor(groups.get(name, frozenset({name}))) for name in imports), default=0)


def _name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_by(path: Path, paths: Mapping[str, Path], with_late: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if with_late else _run_at_import(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in paths)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in paths:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield module if module in paths else node.module


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        is_for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not is_for_types:
            yield child
            yield from _run_at_import(child)


def _among_entries(name: str, imports: Graph[str]) -> Graph[str]:
    """Return the arrows among what lies at the top of a package; its face, `__init__`, is left out."""
    arrows: Graph[str] = {}
    for module, targets in imports.items():
        if module.startswith(f"{name}."):
            entry = _entry_of(module, name)
            others = {_entry_of(target, name) for target in targets if target.startswith(f"{name}.")}
            arrows.setdefault(entry, set()).update(others - {entry})
    return arrows


def _entry_of(module: str, package: str) -> str:
    return module.removeprefix(f"{package}.").partition(".")[0]


def _reach(start: Key, imports: Mapping[Key, set[Key]]) -> set[Key]:
    reached: set[Key] = set()
    rest = list(imports[start])
    while rest:
        name = rest.pop()
        if name not in reached:
            reached.add(name)
            rest.extend(imports.get(name, ()))
    return reached


def main() -> int:
    """Print the table; return 1 if modules import each other in a circle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, default=_PACKAGE, help="folder of a package; this one's")
    package = parser.parse_args().path.resolve()
    if not (package / "__init__.py").is_file():
        parser.error(f"{package} is no package: give a folder with an __init__.py")
    imports = read_imports(package)
    folders = [package, *sorted(path.parent for path in package.glob("*/__init__.py"))]
    print(f"{'package':<32}{'files':>7}{'at top':>8}{'floors':>8}{'arrows':>8}  most files in one folder")
    for each in (draw(package, folder, imports) for folder in folders):
        figures = f"{each.num_files:>7}{each.num_entries:>8}{each.num_floors:>8}{each.num_arrows:>8}"
        print(f"{each.name:<32}{figures}  {each.num_files_in_largest} in {each.largest_folder}")
    circles = find_circles(imports)
    print("\nImports in a circle:" if circles else "\nNo module imports itself by way of others.")
    _print_circles(circles)
    if late := [circle for circle in find_circles(read_imports(package, with_late=True)) if circle not in circles]:
        print("With imports within functions and for type checkers these do:")
        _print_circles(late)
    return int(bool(circles))


def _print_circles(circles: list[list[str]]) -> None:
    for circle in circles:
        print(f"  {', '.join(circle)}")


if __name__ == "__main__":
    sys.exit(main())
