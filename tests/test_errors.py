"""Tests of the error tree: messages, and the way through a pickle that errors of other processes take."""

from __future__ import annotations

import pickle

import pytest

from sample_profiler import errors
from sample_profiler.errors import (
    ConfigError,
    EnvContractError,
    EnvError,
    SampleProfilerError,
    UnknownEnvError,
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
