"""Problems on standard error, and those of files among them."""

from __future__ import annotations

import pytest

from sample_profiler.cli.common.problems import files_told_of, note
from sample_profiler.errors import SessionError, UsageError


def test_a_note_is_on_standard_error_as_a_terminal_may_show_it(capsys):
    note("a name\x1b[2J\nand more")
    assert capsys.readouterr() == ("", "a name\\x1b[2J\nand more\n")


def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path):
    path = tmp_path / "missing"
    with pytest.raises(UsageError) as caught, files_told_of():
        path.read_text()
    assert str(caught.value) == f"{path}: No such file or directory"
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_what_the_system_refuses_of_no_file_in_particular_is_told_in_its_words():
    with pytest.raises(UsageError, match=r"^No space left on device$"), files_told_of():
        raise OSError(28, "No space left on device")


def test_other_errors_stay_what_they_are():
    with pytest.raises(SessionError), files_told_of():
        raise SessionError("it is no run")
