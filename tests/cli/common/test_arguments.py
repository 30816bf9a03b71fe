"""Command lines: what the texts of arguments stand for, and which words a command leaves to others."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from sample_profiler.cli.common.arguments import (
    CommandParser,
    as_count,
    as_names,
    as_output_file,
    as_seconds,
    as_share,
    taken_literally,
)


@pytest.fixture
def commands():
    """Commands of a program, to be added."""
    program = CommandParser(prog="program")
    commands = program.add_subparsers(dest="command", required=True)
    commands.program = program
    return commands


@pytest.mark.parametrize(
    "words",
    [
        *([], ["CartPole-v1"], ["--help"], ["-h"], ["--version"], ["a", "--b", "c", "-1", "--", "--d=e f", ""]),
        *(["--", "a"], ["a", "--"], ["--command=other"]),
    ],
    ids=str,
)
def test_words_that_are_taken_literally_are_those_that_were_entered(commands, words):
    parser = commands.add_parser("own", add_help=False, prepare=taken_literally)
    parser.add_argument("words", nargs="*")
    assert commands.program.parse_args(["own", *words]) == argparse.Namespace(command="own", words=words)


def test_other_commands_read_their_words_as_argparse_does(commands):
    commands.add_parser("own", prepare=taken_literally)
    commands.add_parser("other").add_argument("--flag")
    assert commands.program.parse_args(["other", "--flag", "1"]).flag == "1"


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        *((as_count, "1", 1), (as_count, "0012", 12), (as_seconds, "0.5", 0.5), (as_seconds, "86400", 86_400.0)),
        *((as_names, " a, b,,a ", ["a", "b", "a"]), (as_names, "", [])),
    ],
)
def test_texts_stand_for_values(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [*((as_count, text) for text in ("0", "-1", "1.5", "", "²")), *((as_seconds, text) for text in ("0", "nan", "x"))],
)
def test_a_text_that_stands_for_no_value_is_told(read, text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{text!r}: give a number"):
        read(text)


def test_a_percentage_is_a_share_with_its_sign_and_without():
    assert as_share("5%", lambda percent: percent > 0) == as_share("5", lambda percent: percent > 0) == 0.05
    for text in ("0", "nan", "five", "%"):
        with pytest.raises(argparse.ArgumentTypeError, match="give a percentage between 0 and 40, such as 5%"):
            as_share(text, lambda percent: percent > 0, 40)


def test_an_output_is_where_a_link_to_a_file_leads_to(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    assert as_output_file(str(link)) == link, "it leads nowhere yet, and is replaced"
    file.touch()
    assert as_output_file(str(link)) == file
    assert as_output_file("a/../b") == Path("a/../b")
