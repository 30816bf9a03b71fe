"""Log records on the terminal and in the file of a run."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys

import pytest
from rich.console import Console

from sample_profiler.cli.training import logs
from sample_profiler.cli.training.logs import RunFormatter, RunLog, log_to_console, log_to_file, make_console


def make_record(level, message, *args):
    record = logging.LogRecord("sample_profiler.test", level, "file.py", 1, message, args, None)
    record.process = 4711
    return record


@pytest.fixture
def added():
    """Remove handlers that a test has added."""
    handlers = []
    yield handlers
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=40, soft_wrap=True)


def test_a_line_says_when_which_process_and_what():
    text = RunFormatter().format(make_record(logging.INFO, "hello %s", "world"))
    assert re.fullmatch(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]\[4711\] hello world", text)


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR, logging.CRITICAL])
def test_warnings_and_worse_are_named_and_the_message_stays_whole(level):
    text = RunFormatter().format(make_record(level, "a [4711] bracket] and another"))
    assert text.endswith(f"[4711] {logging.getLevelName(level)}: a [4711] bracket] and another")


def test_a_record_keeps_the_process_that_it_comes_from():
    assert "][4711] " in RunFormatter().format(make_record(logging.INFO, "from a child"))


def test_what_a_terminal_would_obey_is_escaped_on_it_and_in_the_file_and_lines_stay_lines(added, console, tmp_path):
    added.extend([log_to_console(console), log_to_file(tmp_path / "log.txt")])
    try:
        raise ValueError("\x1b[2Jgone")
    except ValueError:
        logging.getLogger("sample_profiler.test").exception("grüße\x1b]52;c;aGk=\x07\n\tand \udcff more")
    for text in (console.file.getvalue(), (tmp_path / "log.txt").read_text(encoding="utf-8")):
        assert "grüße\\x1b]52;c;aGk=\\x07\n" in text
        assert "\n        and \\udcff more\nTraceback" in text
        assert text.endswith("ValueError: \\x1b[2Jgone\n")


def test_the_console_shows_messages_as_they_are(added, console):
    added.append(log_to_console(console))
    logging.getLogger("sample_profiler.test").info("[bold]not markup[/bold] :smile: %s", "x" * 100)
    assert f"[bold]not markup[/bold] :smile: {'x' * 100}\n" in console.file.getvalue()


def test_debug_messages_are_not_shown(added, console):
    added.append(log_to_console(console))
    logging.getLogger("sample_profiler.test").debug("detail")
    assert console.file.getvalue() == ""


def test_a_console_that_cannot_be_written_to_does_not_end_the_run(added, monkeypatch, tmp_path):
    console = Console(file=io.StringIO())
    console.file.close()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    added.extend([log_to_console(console), log_to_file(tmp_path / "log.txt")])
    logging.getLogger("sample_profiler.test").info("hello")
    assert "hello" in (tmp_path / "log.txt").read_text(), "the handler behind it has its turn"


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("open_output", "problem"),
    [(broken_pipe, "Broken pipe"), (lambda: os.open("/dev/full", os.O_WRONLY), "No space left")],
)
def test_a_standard_output_that_is_gone_or_full_is_given_up_once_and_the_run_goes_on(
    added, monkeypatch, tmp_path, capfd, open_output, problem
):
    with open(open_output(), "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        console = make_console()
        added.extend([log_to_console(console), log_to_file(tmp_path / "log.txt")])
        with console.status("as a progress bar"):
            for number in range(3):
                logging.getLogger("sample_profiler.test").info("record %d", number)
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [f"record {number}" in "".join(lines) for number in range(3)] == [True] * 3
    assert ["written to standard output" in line and problem in line for line in lines].count(True) == 1
    assert len(lines) == 4
    assert capfd.readouterr().err == ""


def test_a_standard_output_whose_reader_is_slow_is_written_to_again(added, monkeypatch):
    class Slow(io.StringIO):
        is_full = True

        def write(self, text):
            if self.is_full:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            return super().write(text)

    output = Slow()
    monkeypatch.setattr(sys, "stdout", output)
    added.append(log_to_console(make_console()))
    logging.getLogger("sample_profiler.test").info("lost")
    output.is_full = False
    logging.getLogger("sample_profiler.test").info("written")
    assert "lost" not in output.getvalue() and "written" in output.getvalue()


def test_without_a_standard_output_nothing_is_shown(added, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdout", None)
    added.append(log_to_console(make_console()))
    logging.getLogger("sample_profiler.test").info("hello")
    assert capfd.readouterr() == ("", "")


def test_the_file_gets_every_record_after_those_that_are_there(added, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("of the run before\n")
    added.append(log_to_file(path))
    logging.getLogger("sample_profiler.test").warning("grüße")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "of the run before"
    assert lines[1].endswith("WARNING: grüße")


def test_the_file_has_a_limit_and_one_older_one_stays(added, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_MOST_BYTES", 1000)
    path = tmp_path / "log.txt"
    added.append(log_to_file(path))
    for number in range(100):
        logging.getLogger("sample_profiler.test").info("record %03d", number)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.txt", "log.txt.1"]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.iterdir())
    text = (tmp_path / "log.txt.1").read_text() + path.read_text()
    numbers = [int(line[-3:]) for line in text.splitlines()]
    assert numbers == list(range(numbers[0], 100))


def test_a_more_talkative_root_logger_stays_so(added, console):
    logging.getLogger().setLevel(logging.DEBUG)
    added.append(log_to_console(console))
    logging.getLogger("sample_profiler.test").debug("detail")
    assert "detail" in console.file.getvalue()


def test_the_log_of_a_run_is_in_its_file_once_there_is_one_and_ends_with_it(tmp_path, capsys):
    before = logging.getLogger().handlers[:]
    logger = logging.getLogger("sample_profiler.test")
    log = RunLog()
    logger.info("the folder is chosen")
    log.add_file(tmp_path / "log.txt")
    logger.info("it trains")
    log.close()
    logger.info("nobody hears of it")
    assert logging.getLogger().handlers == before
    assert [line.split("] ")[1] for line in capsys.readouterr().out.splitlines()] == [
        *("the folder is chosen", "it trains"),
    ]
    assert (tmp_path / "log.txt").read_text().endswith("] it trains\n")
