"""Every error the package raises on purpose, so that one ``except`` can tell them from bugs.

::

    SampleProfilerError
    ├── ConfigError            options that cannot be used: all problems at once
    ├── UsageError             a command that cannot do what it is asked for
    ├── TooSlowError           a run that is slower than it may be
    ├── EnvError               an environment that cannot be used
    │   ├── UnknownEnvError    no environment is registered under that name
    │   └── EnvContractError   an environment breaks the rules it has to keep
    ├── TimingError            timers used in a way that has no meaning
    ├── RecordError            a record file that cannot be read
    ├── SessionError           a session, or a run's folder, that cannot be read
    ├── CommandError           a command to a component that failed there, or was not answered
    │   ├── RunEndedError      a component is asked for something, and the run has ended
    │   └── ComponentLostError a component is asked for something, and its process has ended
    ├── CaptureError           a profiler that cannot capture
    ├── CheckpointError        a checkpoint that cannot be read or does not fit
    ├── MessageError           a message between components that cannot be sent
    ├── ModelError             a part of a network of one's own that cannot be used
    ├── PolicyError            observations, states or a device that a policy cannot take
    ├── RankError              processes that train together, and have lost each other
    ├── TrainingError          a training step that cannot be taken
    └── VideoError             a video that cannot be written

Interruption is none of them: it is raised into a thread from outside.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

MOST_PROBLEMS = 50
"""That one message lists: a damaged file can have a million."""

_MOST_TEXT = 5_000
"""Characters of an exception: some have all the data in them that they are about."""

_OUT_OF_MEMORY = ("can't allocate memory", "Cannot allocate memory", "bad_alloc")
_OUT_OF_GPU_MEMORY = "out of memory"
"""How PyTorch and other libraries in C++ say it: of the machine, and of a GPU. All are RuntimeErrors."""
_NO_THREAD = "can't start new thread"
"""How Python says it, which has no number of the system for it."""


class SampleProfilerError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(SampleProfilerError):
    """Options that cannot be used.

    Attributes:
        problems: Every problem found, one sentence or two each, in the order they were found.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        """Join the problems into one message.

        Args:
            problems: At least one problem; each says what is wrong, the value, what is allowed and the cure.
        """
        # A lone string is a sequence of letters: one problem per letter would be an absurd message.
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        lines = [f"{len(self.problems)} problems with the options:"]
        lines += [f"  {number}. {problem}" for number, problem in enumerate(self.problems[:MOST_PROBLEMS], start=1)]
        if len(self.problems) > MOST_PROBLEMS:
            lines.append(f"  and {len(self.problems) - MOST_PROBLEMS} more")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[str, ...]]]:
        # Exception would rebuild from args, which holds the joined message.
        return type(self), (self.problems,)


class UsageError(SampleProfilerError):
    """A command of `sample-profiler` that cannot do what it is asked for."""


class TooSlowError(SampleProfilerError):
    """A run that is slower than another one by more than it may be."""


class EnvError(SampleProfilerError):
    """An environment that cannot be used."""


class UnknownEnvError(EnvError):
    """No environment is registered under the requested name."""


class EnvContractError(EnvError):
    """An environment breaks the rules of the environment interface."""


class TimingError(SampleProfilerError):
    """Timers used in a way that has no meaning."""


class RecordError(SampleProfilerError):
    """A record file that is truncated, damaged, foreign, of another version or of another byte order."""


class SessionError(SampleProfilerError):
    """A session that cannot be read, or a folder that is no run's."""


class CommandError(SampleProfilerError):
    """A command to a component that raised there, or that was not answered in time."""


class RunEndedError(CommandError):
    """A component is asked for something, and the run has ended."""


class ComponentLostError(CommandError):
    """A component is asked for something, and its process has ended."""


class CaptureError(SampleProfilerError):
    """A profiler that cannot capture: it is missing, unknown, or in use."""


class CheckpointError(SampleProfilerError):
    """A checkpoint that cannot be read or does not fit the run."""


class MessageError(SampleProfilerError):
    """A message between components that cannot be sent: there is no room for it."""


class ModelError(SampleProfilerError):
    """A part of a network of one's own that cannot be used."""


class PolicyError(SampleProfilerError):
    """Observations, states or a device that a policy cannot take, or a policy that there is none of."""


class RankError(SampleProfilerError):
    """Processes that train one policy together have lost each other, or never met."""


class TrainingError(SampleProfilerError):
    """A training step that cannot be taken: its numbers are not finite."""


class VideoError(SampleProfilerError):
    """A video that cannot be written."""


class Interruption(BaseException):
    """Raised into a thread from outside, whatever code that is in: no error of that code, which shall not catch it."""


FROM_OUTSIDE = (KeyboardInterrupt, Interruption)
"""What is raised from outside into the code that it comes out of, as Ctrl+C is.

All others are errors of that code: libraries have some that are no `Exception`, such as asyncio's `CancelledError` or a
panic of code in Rust, and `SystemExit` may only end who calls it.
"""


def describe_error(error: BaseException) -> str:
    """Return the type of an exception, and what it says, as far as it can; of others' than our own not too much."""
    text = _text_of(error)
    if not isinstance(error, SampleProfilerError):
        text = shorten(text, _MOST_TEXT)
    if is_out_of_threads(error):
        text += (
            ": the limit of processes and threads is reached (ulimit -u, pids.max of a container), or there is no "
            "memory for its stack (ulimit -v)"
        )
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shorten(text: str, most: int) -> str:
    """Leave out the middle of a text that has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half:,} characters are left out) … {text[-half:]}"


def is_out_of_threads(error: BaseException) -> bool:
    """Tell whether a thread could not begin, since there may be no more of them."""
    return isinstance(error, RuntimeError) and _text_of(error) == _NO_THREAD


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether there was not enough memory, of the machine or of a GPU."""
    return is_out_of_machine_memory(error) or (
        isinstance(error, RuntimeError) and _OUT_OF_GPU_MEMORY in _text_of(error)
    )


def is_out_of_machine_memory(error: BaseException) -> bool:
    """Tell whether the machine had not enough memory, or the process was not allowed any more of it."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # ImportError: of a library that could not be mapped.
    words_of_libraries = isinstance(error, RuntimeError | ImportError)
    return words_of_libraries and any(words in _text_of(error) for words in _OUT_OF_MEMORY)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # whoever wrote the exception made a mistake in its __str__
        return ""
