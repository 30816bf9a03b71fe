"""Shows definitions as Markdown: signatures as they are written, docstrings in Google's style as lists."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence

from api_docs.definitions import Definition, Function, find_members

_WIDTH = 110
_SPECIAL = ("__getitem__", "__contains__", "__iter__", "__next__", "__call__")
_BLOCK = re.compile(r"^(?P<before>.*?):?:\n\n(?P<lines>(?:(?: .*)?\n)+)", re.MULTILINE)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):\n", re.MULTILINE)


def format_definition(name: str, definition: Definition, chosen: Sequence[str] = ()) -> str:
    """Return what is to say of a name beyond the first sentence of its docstring; empty: nothing is.

    Args:
        name: as somebody writes it who uses it.
        definition: of it.
        chosen: of a class that users are only given: the members that they may use, and nothing else of it.
    """
    title = f"### `{name.rpartition('.')[2]}`"
    node, docstring = definition.node, definition.docstring
    if isinstance(node, Function):
        return "\n\n".join([title, _block(_signature(name, definition)), _format_docstring(docstring)])
    members = find_members(definition)
    shown = chosen or [key for key in members if not key.startswith("_") or key in _SPECIAL]
    if not isinstance(node, ast.ClassDef) or not (shown or "\n" in docstring):
        return ""
    signature = f"class {name}"
    if "__init__" in members and not chosen:
        signature = _format_call(signature, _parameters(members["__init__"])[1:], "")
    parts = [title, _block(signature), _format_docstring(_summary(docstring) if chosen else docstring, definition)]
    return "\n\n".join([*parts, *(_format_member(key, members[key]) for key in shown)])


def format_summary(definition: Definition) -> str:
    """Return the first sentence of a docstring in one line."""
    return format_text(_summary(definition.docstring)).replace("\n", " ")


def format_text(text: str) -> str:
    """Return a docstring, or a part of one, as Markdown: blocks after `::` as such, names as code."""

    def show(match: re.Match[str]) -> str:
        before = f"{match['before']}:\n\n" if match["before"] else ""
        return f"{before}{_block(textwrap.dedent(match['lines']).strip())}\n\n"

    return _BLOCK.sub(show, re.sub(r":\w+:`|``", "`", text) + "\n").strip()


def _summary(docstring: str) -> str:
    return docstring.partition("\n\n")[0]


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


def _format_member(name: str, definition: Definition) -> str:
    signature, docstring = _signature(name, definition, is_method=True), _format_docstring(definition.docstring)
    if "\n" in signature:
        return f"#### `{name}`\n\n{_block(signature)}\n\n{docstring}"
    return f"#### `{signature}`\n\n{docstring}"


def _signature(name: str, definition: Definition, *, is_method: bool = False) -> str:
    node, decorators = definition.node, definition.decorators()
    assert isinstance(node, Function)
    returned = definition.source(node.returns) if node.returns else ""
    if decorators & {"property", "cached_property"}:
        return f"{name}: {returned}"
    if "contextmanager" in decorators:
        returned = re.sub(r"^\w+\[", "AbstractContextManager[", returned)
    kinds = "async " * isinstance(node, ast.AsyncFunctionDef) + "classmethod " * ("classmethod" in decorators)
    parameters = _parameters(definition)[is_method and "staticmethod" not in decorators :]
    return _format_call(f"{kinds}{name}", parameters, returned)


def _format_call(name: str, parameters: list[str], returned: str) -> str:
    end = f") -> {returned}" if returned else ")"
    line = f"{name}({', '.join(parameters)}{end}"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + end


def _parameters(definition: Definition) -> list[str]:
    assert isinstance(definition.node, Function)
    arguments = definition.node.args

    def show(argument: ast.arg, default: ast.expr | None = None, stars: str = "") -> str:
        text = f"{stars}{argument.arg}"
        if argument.annotation is not None:
            text += f": {definition.source(argument.annotation)}"
        return text if default is None else f"{text} = {definition.source(default)}"

    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    shown = [show(*pair) for pair in zip(positional, defaults, strict=True)]
    if arguments.posonlyargs:
        shown.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        shown.append(show(arguments.vararg, stars="*"))
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += [show(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return shown + ([show(arguments.kwarg, stars="**")] if arguments.kwarg else [])


def _format_docstring(docstring: str, owner: Definition | None = None) -> str:
    """Return a docstring as Markdown.

    Args:
        docstring: in Google's style, without its indentation.
        owner: the class whose attributes it tells of.
    """
    body, *rest = _SECTION.split(docstring + "\n")
    types = _types_of_fields(owner) if owner else {}
    parts = [format_text(body)]
    for title, indented in zip(rest[::2], rest[1::2], strict=True):
        text = format_text(textwrap.dedent(indented))
        is_list = title in ("Args", "Attributes", "Raises")
        parts += [f"**{title}**", "\n".join(_list_entries(text, types)) if is_list else text]
    return "\n\n".join(filter(None, parts))


def _types_of_fields(owner: Definition) -> dict[str, str]:
    assert isinstance(owner.node, ast.ClassDef)
    fields = (node for node in owner.node.body if isinstance(node, ast.AnnAssign))
    return {ast.unparse(field.target): owner.source(field.annotation) for field in fields}


def _list_entries(text: str, types: dict[str, str]) -> Iterator[str]:
    for line in text.split("\n"):
        if entry := re.match(r"(\*{0,2}\w[\w, ]*): (.*)", line):
            kind = f" (`{types[entry[1]]}`)" if entry[1] in types else ""
            yield f"- `{entry[1]}`{kind}: {entry[2]}"
        else:  # it goes on
            yield f"  {line.strip()}"
