"""Commands: whatever goes wrong in a component is part of its answer."""

from __future__ import annotations

import pickle
import threading
import time

import pytest

from sample_profiler.runtime.commands import commands
from sample_profiler.runtime.commands.commands import Command, CommandResult, Patience, portable, run_command


class Calculator:
    name = "Calculator_0"

    def commands(self):
        return {"add": lambda a, b: a + b, "divide": lambda a, b: a / b, "give_function": lambda: lambda: None}


def run(method, *arguments):
    return run_command(Calculator(), Command(7, method, arguments))


def test_the_answer_names_the_command_the_component_and_the_value():
    assert run("add", 1, 2) == CommandResult(number=7, component="Calculator_0", value=3, error=None)


def test_what_the_component_raises_is_in_the_answer_with_its_traceback():
    result = run("divide", 1, 0)
    assert result.value is None
    assert "Traceback" in result.error
    assert result.error.strip().endswith("ZeroDivisionError: division by zero")


def test_wrong_arguments_are_an_answer_too():
    assert "TypeError" in run("add", 1).error


def test_an_answer_that_cannot_travel_is_an_error():
    result = run("give_function")
    assert result.value is None
    assert "lambda" in result.error


def test_an_unknown_command_is_told_which_there_are():
    error = run("subtract").error
    assert error.startswith("Calculator_0 has no command 'subtract'; allowed are add, divide, give_function, ")
    assert "start_capture" in error


@pytest.mark.parametrize("method", ["set_profiling_enabled", "set_recording_enabled", "start_capture", "stop_capture"])
def test_every_process_has_commands_of_its_own(monkeypatch, method):
    asked = []
    monkeypatch.setitem(commands.PROCESS_COMMANDS, method, lambda *arguments: asked.append(arguments))
    assert run(method, 1).error is None
    assert asked == [(1,)]


def test_commands_and_answers_travel_between_processes():
    for message in (Command(1, "add", (1, 2)), run("divide", 1, 0)):
        assert pickle.loads(pickle.dumps(message)) == message


def test_a_portable_command_takes_its_arguments_along_lambdas_included():
    offset = 40
    received = pickle.loads(pickle.dumps(portable(Command(1, "apply", (lambda value: value + offset, 2)))))
    function, value = received.arguments
    assert (received.number, received.method, function(value)) == (1, "apply", 42)


def test_arguments_that_cannot_be_sent_are_told_with_a_cure():
    with pytest.raises(ValueError, match=r"cannot be sent to the worker processes: TypeError.*--serial_mode=True"):
        portable(Command(1, "add", (threading.Lock(), 2)))


@pytest.mark.parametrize(("seconds", "with_capture"), [(6.0, 120.0), (300.0, 300.0)])
def test_patience_is_longer_while_a_capture_may_have_to_be_written_and_never_shorter(
    seconds, with_capture, monkeypatch
):
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    patience = Patience(seconds)
    patience.note(Command(1, "add", (1, 2)))
    assert patience.seconds == seconds
    patience.note(Command(2, "start_capture", ("yappi", "path", 1000.0)))
    patience.note(Command(3, "stop_capture", ("torch",)))
    now_s[0] += 1100.0
    assert patience.seconds == with_capture, "one of the two may go on"
    now_s[0] += 21.0
    assert patience.seconds == seconds, "over and written, or never begun"
    patience.note(Command(4, "enable_profile", ()))
    now_s[0] += 700.0
    assert patience.seconds == with_capture
    now_s[0] += 21.0
    assert patience.seconds == seconds
