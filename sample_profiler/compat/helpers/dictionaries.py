"""Owns what turns dictionaries and lists of them inside out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = [
    *("dict_of_lists_append", "dict_of_lists_append_idx", "iterate_recursively", "list_of_dicts_to_dict_of_lists"),
]


def iterate_recursively(tree: MutableMapping[str, Any]) -> Iterator[tuple[MutableMapping[str, Any], str, Any]]:
    """Yield each value of nested dictionaries, after the dictionary that it is in and its key there."""
    for key, value in tree.items():
        if isinstance(value, MutableMapping):
            yield from iterate_recursively(value)
        else:
            yield tree, key, value


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


def list_of_dicts_to_dict_of_lists(list_of_dicts: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return, by key, the values that the dictionaries have there."""
    result: dict[str, list[Any]] = {}
    for entry in list_of_dicts:
        dict_of_lists_append(result, entry)
    return result
