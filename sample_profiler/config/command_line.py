"""Command lines cut into flags and the words of their values; nothing is converted here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sample_profiler.config.flags import Flag, describe_unknown
from sample_profiler.config.foreign_flags import is_harmless

_HELP_WORDS = ("-h", "--help")
_NEGATIVE_NUMBER = re.compile(r"-\.?\d")


def wants_help(argv: Sequence[str]) -> bool:
    """Return whether a command line asks for the help text instead of a run."""
    return any(word in _HELP_WORDS for word in argv)


def read_command_line(argv: Sequence[str], flags: Mapping[str, Flag]) -> tuple[dict[str, list[str]], list[str]]:
    """Cut a command line into the words of each flag's value.

    Understands ``--flag=value``, ``--flag value``, a bare ``--flag`` for True, and any number of words after a list's
    flag. Of a flag given twice the last counts. Flags of Sample Factory that ask for nothing here are left out.

    Args:
        argv: The command line without the program's name.
        flags: All flags by name.

    Returns:
        The words of each known flag, exactly one unless the flag takes a list; and all problems found.
    """
    words_of_flag: dict[str, list[str]] = {}
    problems: list[str] = []
    position = 0
    while position < len(argv):
        word = argv[position]
        position += 1
        if not word.startswith("--") or word == "--":
            problems.append(f"{word!r} belongs to no flag: write options as --flag=value")
            continue
        name, equals, text = word[2:].partition("=")
        flag = flags.get(name)
        words = [text] if equals else []
        # The words after an unknown flag are taken to be its value, so that they are not a second problem.
        takes_many = flag.value_type.is_list if flag is not None else not equals
        while position < len(argv) and _is_value(argv[position]) and (takes_many or not words):
            words.append(argv[position])
            position += 1
        if flag is not None:
            words_of_flag[name] = words
        elif not is_harmless(name, words):
            problems.append(describe_unknown(name, flags))
    return _complete(words_of_flag, flags, problems), problems


def _complete(
    words_of_flag: dict[str, list[str]], flags: Mapping[str, Flag], problems: list[str]
) -> dict[str, list[str]]:
    """Give bare flags their value, and drop and report those that cannot do without one."""
    complete: dict[str, list[str]] = {}
    for name, words in words_of_flag.items():
        value_type = flags[name].value_type
        if words or value_type.is_list:
            complete[name] = words
        elif value_type.scalar is bool:
            complete[name] = ["True"]
        else:
            cure = "" if flags[name].is_required else f", for example {flags[name].show_example()}"
            problems.append(f"--{name} has no value. Allowed: {value_type.describe()}; write --{name}=value{cure}")
    return complete


def _is_value(word: str) -> bool:
    """Return whether a word is a value: no flag, but perhaps a negative number."""
    return not word.startswith("-") or _NEGATIVE_NUMBER.match(word) is not None
