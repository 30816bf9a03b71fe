"""Finds where names are defined, in sources alone: nothing is imported, so every version of Python finds the same."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

PACKAGE = "sample_profiler"
ROOT = Path(__file__).resolve().parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Definition(NamedTuple):
    """Where a name is defined.

    Attributes:
        node: a function, a class or an assignment.
        module: whose source it is in.
        docstring: of it, without its indentation.
    """

    node: ast.stmt
    module: str
    docstring: str

    def source(self, node: ast.expr) -> str:
        """Return an expression of the definition as it is written, in one line."""
        return " ".join((ast.get_source_segment(read_source(self.module), node) or "").split())

    def decorators(self) -> set[str]:
        """Return the last words of the names of its decorators: "contextmanager" for `@contextlib.contextmanager`."""
        if not isinstance(self.node, ast.ClassDef | Function):
            return set()
        calls = (
            decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in self.node.decorator_list
        )
        return {ast.unparse(call).rpartition(".")[2] for call in calls}


def find_definition(name: str) -> Definition:
    """Return where a name is defined.

    Args:
        name: with its module, "sample_profiler.config.option"; "A>B" is the B that the module of A defines or imports.

    Raises:
        LookupError: it is not there.
    """
    first, *others = name.split(">")
    module, _, own = first.rpartition(".")
    definition = _find_in(module, own)
    for other in others:
        definition = _find_in(definition.module, other)
    return definition


def find_members(definition: Definition) -> dict[str, Definition]:
    """Return the methods and properties of a class, its own first, then those of its bases in the package."""
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        return {}
    own = (_define(inner, definition.module) for inner in node.body if isinstance(inner, Function))
    found = {name: member for member in own for name in _names_of(member)}
    for base in node.bases:
        try:
            inherited = _find_in(definition.module, ast.unparse(base))
        except LookupError:  # of another package
            continue
        found |= {name: member for name, member in find_members(inherited).items() if name not in found}
    return found


def find_public_names(module: str) -> list[str]:
    """Return what a module's `__all__` says.

    Raises:
        LookupError: it has none.
    """
    node = _find_in(module, "__all__").node
    assert isinstance(node, ast.Assign)
    names: list[str] = ast.literal_eval(node.value)
    return names


@functools.cache
def read_source(module: str) -> str:
    """Return the source of a module of the package."""
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text(encoding="utf-8")


@functools.cache
def read_module(module: str) -> ast.Module:
    """Return the source of a module of the package, parsed."""
    return ast.parse(read_source(module))


def _find_in(module: str, name: str) -> Definition:
    body = [inner for node in read_module(module).body for inner in (node.body if isinstance(node, ast.If) else [node])]
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            imported = [alias.name for alias in node.names if (alias.asname or alias.name) == name]
            if imported:
                return _find_in(str(node.module), imported[0])
        definition = _define(node, module, following)
        if name in _names_of(definition):
            return definition
    raise LookupError(f"{module} neither defines nor imports {name}")


def _define(node: ast.stmt, module: str, following: ast.stmt | None = None) -> Definition:
    if isinstance(node, ast.ClassDef | Function):
        return Definition(node, module, ast.get_docstring(node) or "")
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):  # a literal under an assignment
        return Definition(node, module, str(following.value.value))
    return Definition(node, module, "")


def _names_of(definition: Definition) -> list[str]:
    """Return what a statement defines; an overload nothing, since what it is one of follows."""
    node = definition.node
    if isinstance(node, ast.ClassDef | Function):
        return [] if "overload" in definition.decorators() else [node.name]
    if isinstance(node, ast.Assign):
        return [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return []
