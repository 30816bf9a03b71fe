"""Owns what turns dictionaries and lists of them inside out, however nested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = [
    *("copy_dict_structure", "dict_of_lists_append", "dict_of_lists_append_idx", "get_first_present"),
    *("iter_dicts_recursively", "iterate_recursively", "iterate_recursively_with_prefix"),
    "list_of_dicts_to_dict_of_lists",
]

Tree = MutableMapping[str, Any]


def iterate_recursively(tree: Tree) -> Iterator[tuple[Tree, str, Any]]:
    """Yield each value of nested dictionaries, after the dictionary that it is in and its key there."""
    for inner, key, value, _ in iterate_recursively_with_prefix(tree):
        yield inner, key, value


def iterate_recursively_with_prefix(
    tree: Tree, prefix: list[str] | None = None
) -> Iterator[tuple[Tree, str, Any, list[str]]]:
    """Yield the same, and behind it the keys that lead to that dictionary."""
    path = prefix or []
    for key, value in tree.items():
        if isinstance(value, MutableMapping):
            yield from iterate_recursively_with_prefix(value, [*path, key])
        else:
            yield tree, key, value, path


def iter_dicts_recursively(one: Tree, other: Tree) -> Iterator[tuple[Tree, Tree, str, Any, Any]]:
    """Yield of each value of one what it is in here and there, its key, and what is under it here and there.

    Args:
        one: Nested dictionaries.
        other: Has all keys of these, too.
    """
    for key, value in one.items():
        if isinstance(value, MutableMapping):
            yield from iter_dicts_recursively(value, other[key])
        else:
            yield one, other, key, value, other[key]


def copy_dict_structure(tree: Tree) -> Tree:
    """Return dictionaries of the same kinds with the same keys, whose values are None."""
    copied = type(tree)()
    for key, value in tree.items():
        copied[key] = copy_dict_structure(value) if isinstance(value, MutableMapping) else None
    return copied


def dict_of_lists_append(
    dict_of_lists: MutableMapping[str, list[Any]], new_data: Mapping[str, Any]
) -> MutableMapping[str, list[Any]]:
    """Append each value to the list of its key; return the dictionary."""
    for key, value in new_data.items():
        dict_of_lists.setdefault(key, []).append(value)
    return dict_of_lists


def dict_of_lists_append_idx(
    dict_of_lists: MutableMapping[str, list[Any]], new_data: Mapping[str, Any], index: int
) -> MutableMapping[str, list[Any]]:
    """Append the entry at an index of each value to the list of its key; return the dictionary."""
    return dict_of_lists_append(dict_of_lists, {key: values[index] for key, values in new_data.items()})


def list_of_dicts_to_dict_of_lists(list_of_dicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return, by key, the values that the dictionaries have there; of nested ones such a dictionary again."""
    result: dict[str, list[Any]] = {}
    for entry in list_of_dicts:
        dict_of_lists_append(result, entry)
    return {
        key: list_of_dicts_to_dict_of_lists(values) if all(isinstance(each, Mapping) for each in values) else values
        for key, values in result.items()
    }


def get_first_present(entries: Mapping[str, Any], keys: Iterable[str], default: Any = None) -> Any:
    """Return the value of the first key that is there."""
    return next((entries[key] for key in keys if key in entries), default)
