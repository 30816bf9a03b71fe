"""What is told of a component that has failed."""

from __future__ import annotations

import errno

import pytest
import torch

from sample_profiler.errors import ConfigError, EnvError
from sample_profiler.runtime.machine.memory_limits import MemoryLimit, ProcessMemory
from sample_profiler.runtime.processes import failure as failure_module
from sample_profiler.runtime.processes.failure import Failure, FailureLog, HangError


class BrokenError(Exception):
    def __str__(self):
        raise ValueError


def failure_of(action):
    try:
        action()
    except Exception as error:
        return Failure.from_exception("Learner_0", error)
    raise AssertionError("nothing was raised")


def fail(error):
    raise error


def test_options_that_cannot_be_used_need_no_traceback():
    failure = Failure.from_exception("Learner_0", ConfigError(["--device=gpu: no GPU"]))
    assert failure == Failure("Learner_0", "ConfigError: --device=gpu: no GPU", "", was_raised=True)


def test_a_bug_has_its_traceback():
    failure = failure_of(lambda: fail(RuntimeError("odd")))
    assert failure.message == "RuntimeError: odd"
    assert "in fail" in failure.traceback_text


@pytest.mark.parametrize(
    "action",
    [
        lambda: torch.empty(2**58),
        lambda: fail(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore about it")),
        lambda: fail(MemoryError()),
        lambda: fail(RuntimeError("std::bad_alloc")),
        lambda: fail(OSError(errno.ENOMEM, "Cannot allocate memory")),
    ],
    ids=["PyTorch", "GPU", "Python", "C++", "system"],
)
def test_memory_that_is_used_up_is_one_line_with_a_cure(action):
    failure = failure_of(action)
    assert failure.traceback_text == ""
    assert "there is not enough memory: use a smaller network (--rnn_size" in failure.message
    assert len(failure.message.splitlines()) == 1


@pytest.mark.parametrize("is_caught", [False, True])
def test_memory_that_an_environment_wants_is_told_with_its_traceback_and_no_advice_about_networks(is_caught):
    def step():
        try:
            raise MemoryError
        except MemoryError as error:
            if is_caught:
                raise ValueError("what a simulator makes of it") from error
            raise

    def step_named():
        try:
            step()
        except Exception as error:
            raise EnvError("environment 3 (game) raised in step: MemoryError: ") from error

    failure = failure_of(step_named)
    assert failure.lacks_memory
    assert "MemoryError" in failure.traceback_text
    beginning = "EnvError: environment 3 (game) raised in step: MemoryError: there is not enough memory"
    assert failure.message.startswith(beginning)
    assert "environments that leak" in failure.message and "--rnn_size" not in failure.message


def test_memory_that_a_worker_wants_is_that_of_its_environments_and_that_of_a_gpu_is_not_the_machine_s():
    failure = Failure.from_exception("RolloutWorker_w1", MemoryError())
    assert failure.lacks_memory and "environments that leak" in failure.message
    assert "--rnn_size" in Failure.from_exception("Learner_0", MemoryError()).message
    assert not Failure.from_exception("Learner_0", RuntimeError("CUDA out of memory")).lacks_memory
    assert not Failure.from_exception("RolloutWorker_w1", EnvError("environment 3 broke")).lacks_memory


def test_memory_is_told_with_the_limit_of_the_process(monkeypatch):
    limit = MemoryLimit(2 << 30, "of addresses", used=(2 << 30) - 1)
    monkeypatch.setattr(failure_module, "read_process_memory", lambda _: ProcessMemory(1 << 30, (limit,)))
    message = Failure.from_exception("Learner_0", MemoryError("all of it")).message
    assert message.startswith(
        "MemoryError: all of it: there is not enough memory, 2.0 GiB of 2.0 GiB of addresses: use"
    )


def test_an_exception_that_cannot_be_printed_is_told_by_its_type():
    assert Failure.from_exception("Learner_0", BrokenError()).message == "BrokenError"


def test_a_traceback_is_written_down_once(caplog):
    log = FailureLog()
    first, second, other = (
        failure_of(lambda text=text: fail(EnvError(text))) for text in ("game 0", "game 1", "game 2")
    )
    for failure in (first, second):
        log.write(failure)
    assert "EnvError: game 0" in caplog.messages[0] and "in fail" in caplog.messages[0]
    assert "EnvError: game 1" in caplog.messages[1] and "as above" in caplog.messages[1]
    assert "in fail" not in caplog.messages[1]
    FailureLog().write(other)
    assert "in fail" in caplog.messages[2], "what one run has written is not in the log of another"


def test_failures_without_a_traceback_do_not_refer_to_one(caplog):
    log = FailureLog()
    for _ in range(2):
        log.write(Failure("RolloutWorker_w0", "its process was killed", ""))
    assert caplog.messages == ["RolloutWorker_w0 failed: its process was killed"] * 2


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("broken"), "Slot note, stopped: ValueError: broken"),
        (HangError(), "Slot note, stopped: it hangs"),
        (BrokenError(), "Slot note, stopped: BrokenError"),
        (MemoryError(), "Slot note, stopped: MemoryError: there is not enough memory"),
    ],
)
def test_a_part_of_a_component_is_named(error, message):
    assert Failure.from_exception("Runner", error, "Slot note, stopped").message.startswith(message)
