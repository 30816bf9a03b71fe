"""Owns how an error that an environment's values led to becomes one that names the environment and what is wrong.

What each step returns is not checked, since that would cost as much as the step of a quick environment. A value that
cannot be read raises anyway, somewhere; only then does somebody look for the cause.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sample_profiler.errors import SampleProfilerError

__all__ = ["checks_contract_on_error"]


class _Checking(Protocol):
    def check_returned(self) -> None:
        """Raise an EnvContractError if what environments returned last breaks the contract."""


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Owner = TypeVar("Owner", bound=_Checking)


def checks_contract_on_error(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Decorate a method that reads what environments return, and whose owner offers `check_returned`.

    Args:
        method: Any error of it, those of this package aside, has the owner look for a broken contract first. Where
            there is none the error stays what it is.

    Returns:
        The method that does so.
    """

    @functools.wraps(method)
    def checking(self: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(self, *args, **kwargs)
        except SampleProfilerError:
            raise
        except Exception:
            self.check_returned()
            raise

    return checking
