"""Tests of the error tree: messages, and the way through a pickle that errors of other processes take."""

from __future__ import annotations

import asyncio
import errno
import pickle

import pytest

from sample_profiler import errors
from sample_profiler.errors import (
    FROM_OUTSIDE,
    ConfigError,
    EnvContractError,
    EnvError,
    SampleProfilerError,
    UnknownEnvError,
    describe_error,
    is_out_of_machine_memory,
    is_out_of_memory,
)


def test_every_error_is_a_sample_profiler_error():
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)]
    assert len(classes) >= 10
    assert all(issubclass(error, SampleProfilerError) for error in classes)
    assert issubclass(UnknownEnvError, EnvError) and issubclass(EnvContractError, EnvError)


def test_every_error_is_in_the_drawn_tree():
    classes = [name for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, Exception)]
    assert all(name in errors.__doc__ for name in classes)


def test_one_config_problem_is_the_message_itself():
    assert str(ConfigError(["--rollout=0 is out of range"])) == "--rollout=0 is out of range"


def test_several_config_problems_are_counted_and_numbered():
    error = ConfigError(["first", "second"])
    assert str(error).splitlines() == ["2 problems with the options:", "  1. first", "  2. second"]
    assert error.problems == ("first", "second")


def test_a_config_problem_given_as_text_is_one_problem():
    assert ConfigError("abc").problems == ("abc",)


@pytest.mark.parametrize("error", [ConfigError(["a", "b"]), EnvContractError("no reset")])
def test_errors_survive_pickling(error: SampleProfilerError):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("error", "is_of_machine", "is_any"),
    [
        (MemoryError(), True, True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True, True),
        (OSError(errno.ENOSPC, "No space left"), False, False),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True, True),
        (RuntimeError("std::bad_alloc"), True, True),
        (ImportError("libx.so: failed to map segment from shared object: Cannot allocate memory"), True, True),
        (RuntimeError("CUDA out of memory"), False, True),
        (ImportError("no module named memory"), False, False),
        (ValueError("out of memory"), False, False),
    ],
)
def test_the_words_of_each_library_for_want_of_memory_are_known(error, is_of_machine, is_any):
    assert (is_out_of_machine_memory(error), is_out_of_memory(error)) == (is_of_machine, is_any)


def test_an_error_that_cannot_be_printed_is_no_want_of_memory():
    class BrokenError(RuntimeError):
        def __str__(self):
            raise ValueError

    assert not is_out_of_memory(BrokenError())


def test_what_is_raised_into_code_from_outside_is_told_from_its_own_errors():
    class PanicError(BaseException):
        """Of code in Rust."""

    own = (ValueError, SystemExit, GeneratorExit, asyncio.CancelledError, PanicError)
    assert not any(issubclass(kind, FROM_OUTSIDE) for kind in own)
    assert all(issubclass(kind, FROM_OUTSIDE) for kind in (KeyboardInterrupt, errors.Interruption))


def test_an_error_is_described_whatever_it_says():
    class MuteError(ValueError):
        def __str__(self):
            raise KeyError("of no use")

    assert describe_error(ValueError("of a kind")) == "ValueError: of a kind"
    assert describe_error(MuteError()) == "MuteError"
    told = describe_error(RuntimeError("can't start new thread"))
    assert told.startswith("RuntimeError: can't start new thread: the limit of processes and threads")
    told = describe_error(ValueError("a" * 1_000_000 + "b" * 1_000_000))
    assert told.startswith("ValueError: aaa")
    assert told.endswith("bbb")
    assert "… (1,995,000 characters are left out) …" in told
    assert len(told) < 5_100
