"""Owns what is told of a component that has failed."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from sample_profiler.component_id import rollout_worker_index
from sample_profiler.errors import (
    CheckpointError,
    ConfigError,
    EnvContractError,
    EnvError,
    Interruption,
    ModelError,
    RankError,
    TrainingError,
    describe_error,
    is_out_of_machine_memory,
    is_out_of_memory,
    shorten,
)
from sample_profiler.runtime.machine.memory_limits import format_bytes, read_process_memory

__all__ = ["ENVIRONMENTS_CURE", "NETWORKS_CURE", "Failure", "FailureLog", "HangError", "RemoteError"]

logger = logging.getLogger(__name__)

ENVIRONMENTS_CURE = (
    "environments that leak, or too many of them: mend the environment, use fewer --num_envs_per_worker or "
    "--num_workers, or allow for more memory"
)
NETWORKS_CURE = (
    "use a smaller network (--rnn_size, --encoder_mlp_layers, --encoder_conv_mlp_layers, --decoder_mlp_layers), a "
    "smaller --batch_size or --rollout, or fewer --num_workers or --num_envs_per_worker"
)
_MOST_CAUSES = 10
_MOST_TRACEBACK = 64_000  # characters


class HangError(Interruption):
    """The thread hangs here."""


class RemoteError(Exception):
    """Shows, as the cause of an error, what another process knows of it."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class Failure:
    """The component raised.

    Attributes:
        component: who.
        message: the exception in one line.
        traceback_text: the whole traceback, causes included, or where its threads were; empty if that is not known.
        was_raised: whether an exception is the cause; else the process was killed, hung, or was stuck.
        lacks_memory: whether the machine's memory, or what the process may have of it, was not enough.
        is_hang: whether it gave no sign of life.
        is_crash: whether native code ended the process, which has left word where that was.
    """

    component: str
    message: str
    traceback_text: str
    was_raised: bool = False
    lacks_memory: bool = False
    is_hang: bool = False
    is_crash: bool = False

    @classmethod
    def from_exception(cls, component: str, error: BaseException, part: str = "") -> Failure:
        """Describe `error`, which `component` raised, or a part of it that has a name.

        Errors of our own need no traceback, their message says it all; what raised in foreign code before does. Where
        memory is used up it does not matter who wanted the last of it. Where it hangs has been told already.
        """
        begin = part and f"{part}: "
        if isinstance(error, HangError):
            return cls(component, begin + (str(error) or "it hangs"), "", is_hang=True)
        message = begin + describe_error(error)
        lacks_memory = any(map(is_out_of_machine_memory, _causes_of(error)))
        if lacks_memory or is_out_of_memory(error):
            message = _describe_lack_of_memory(message, _find_cure(component, error))
        if is_out_of_memory(error):
            return cls(component, message, "", was_raised=True, lacks_memory=lacks_memory)
        says_all = isinstance(error, ConfigError | CheckpointError)
        says_why = isinstance(error, EnvContractError | ModelError | RankError | TrainingError)
        says_all |= says_why and error.__cause__ is None
        text = "" if says_all else shorten("".join(traceback.format_exception(error)), _MOST_TRACEBACK)
        return cls(component, message, text, was_raised=True, lacks_memory=lacks_memory)


class FailureLog:
    """Writes down why components failed, each traceback once: all workers may fail of the same thing."""

    def __init__(self) -> None:
        self._told: set[tuple[str, ...]] = set()

    def write(self, failure: Failure) -> None:
        """Write down why a component failed."""
        text = failure.traceback_text.rstrip()
        places = tuple(line for line in text.splitlines() if line.startswith("  File "))
        if places and places in self._told:
            logger.error("%s failed: %s (with the same traceback as above)", failure.component, failure.message)
            return
        self._told.add(places)
        logger.error("%s", f"{failure.component} failed: {failure.message}\n{text}".rstrip())


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from or while that was handled, and so on."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _find_cure(component: str, error: BaseException) -> str:
    # Networks are PyTorch's, which has an error of its own; what else a worker keeps is small.
    is_of_worker = rollout_worker_index(component) is not None and isinstance(error, MemoryError | OSError)
    return ENVIRONMENTS_CURE if is_of_worker or isinstance(error, EnvError) else NETWORKS_CURE


def _describe_lack_of_memory(message: str, cure: str) -> str:
    first_line = (message.splitlines() or [""])[0].rstrip(": ")
    return f"{first_line}: there is not enough memory{_describe_own_limits()}: {cure}"


def _describe_own_limits() -> str:
    memory = read_process_memory(os.getpid())
    limits = memory.limits if memory else ()
    return "".join(f", {format_bytes(limit.used)} of {limit.describe()}" for limit in limits)
