"""Owns what is told of a component that has failed."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass

from sample_profiler.errors import (
    CheckpointError,
    ConfigError,
    EnvContractError,
    ModelError,
    TrainingError,
    is_out_of_memory,
)

__all__ = ["Failure", "FailureLog", "HangError"]

logger = logging.getLogger(__name__)


class HangError(BaseException):
    """The thread hangs here; raised in it from outside.

    No `Exception`: whatever it hangs in may catch all of these, and try again.
    """


@dataclass(frozen=True)
class Failure:
    """The component raised.

    Attributes:
        component: who.
        message: the exception in one line.
        traceback_text: the whole traceback, causes included; empty if there is none.
        was_raised: whether an exception is the cause; else the process was killed, hung, or was stuck.
    """

    component: str
    message: str
    traceback_text: str
    was_raised: bool = False

    @classmethod
    def from_exception(cls, component: str, error: BaseException) -> Failure:
        """Describe `error`, which `component` raised.

        Errors of our own need no traceback, their message says it all; what raised in foreign code before does. Where
        memory is used up it does not matter who wanted the last of it.
        """
        try:
            message = f"{type(error).__name__}: {error}"
        except Exception:  # whoever wrote the exception made a mistake in its __str__
            message = type(error).__name__
        if is_out_of_memory(error):
            return cls(component, _describe_lack_of_memory(message), "", was_raised=True)
        says_all = isinstance(error, ConfigError | CheckpointError)
        says_all |= isinstance(error, EnvContractError | ModelError | TrainingError) and error.__cause__ is None
        text = "" if says_all else "".join(traceback.format_exception(error))
        return cls(component, message, text, was_raised=True)


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


def _describe_lack_of_memory(message: str) -> str:
    return (
        f"{message.splitlines()[0]}: there is not enough memory. Use a smaller network (--rnn_size, "
        "--encoder_mlp_layers, --encoder_conv_mlp_layers, --decoder_mlp_layers), a smaller --batch_size or --rollout, "
        "or fewer --num_workers or --num_envs_per_worker"
    )
