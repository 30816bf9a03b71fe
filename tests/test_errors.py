"""Tests of the error tree: messages, and the way through a pickle that errors of other processes take."""

from __future__ import annotations

import pickle

import pytest

from sample_profiler import errors
from sample_profiler.errors import (
    ConfigError,
    EnvContractError,
    EnvError,
    RunFailed,
    SampleProfilerError,
    UnknownEnvError,
)


def test_every_error_is_a_sample_profiler_error():
    classes = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, Exception)]
    assert len(classes) == 8
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


def test_run_failed_says_where_and_why():
    error = RunFailed("RolloutWorker_w3", "doom_basic, environment 5", "Traceback …\nValueError: no map\n")
    assert str(error) == "RolloutWorker_w3 (doom_basic, environment 5) failed:\nTraceback …\nValueError: no map"


def test_run_failed_without_environment_and_traceback():
    message = str(RunFailed("Learner_0", None, ""))
    assert message.startswith("Learner_0 failed:\n") and "killed" in message and "None" not in message


@pytest.mark.parametrize(
    "error", [ConfigError(["a", "b"]), RunFailed("Batcher_0", "env 1", "trace"), EnvContractError("no reset")]
)
def test_errors_survive_pickling(error: SampleProfilerError):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error)
    assert vars(copy) == vars(error)
