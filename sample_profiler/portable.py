"""Functions of the user's own, on their way to another process of the same run.

A worker is a fresh process. It imports the main script again, which repeats what the script registers at import, but
not what it registered inside a function; so the function itself travels.
"""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any, ClassVar

from sample_profiler.errors import SampleProfilerError

__all__ = ["pack_by_value", "pack_function", "unpack_function"]


@dataclass(frozen=True)
class _NotPortable:
    """Stands for a function that could not be sent; says why when it is called."""

    what: str
    reason: str
    error_type: type[SampleProfilerError]

    def __call__(self, *_arguments: Any, **_options: Any) -> Any:
        raise self.error_type(
            f"the function that makes {self.what} cannot be sent to a worker process: {self.reason}. Register it "
            "where it runs whenever the script is imported (at the top level, not inside a function), or let it use "
            "only what can be pickled"
        )


def pack_by_value(thing: Any) -> bytes:
    """Pickle something of the user's, for `pickle.loads` in another process of the same run.

    Lambdas, functions and classes of the main script travel by value, others by their name. Their code keeps the name
    of its file: it is what tracebacks and captures show, and where TorchScript looks for its source.

    Raises:
        Exception: whatever an object's own pickling code may raise.
    """
    file = io.BytesIO()
    _make_pickler_class()(file).dump(thing)
    return file.getvalue()


@cache
def _make_pickler_class() -> Any:
    import cloudpickle  # not needed by those who only unpack

    reducers = cloudpickle.Pickler.dispatch_table

    def reduce_code(code: CodeType) -> tuple[Any, ...]:
        make, arguments = reducers[CodeType](code)
        return _make_code, (code.co_filename, make, arguments)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """That of cloudpickle, which gives all code the same file since version 3.1.3."""

        dispatch_table: ClassVar[Any] = ChainMap({CodeType: reduce_code}, reducers)

    return Pickler


def _make_code(filename: str, make: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return make(*arguments).replace(co_filename=filename)


def pack_function(function: Callable[..., Any], what: str, error_type: type[SampleProfilerError]) -> bytes:
    """Pack a function for `unpack_function` in another process.

    Lambdas and functions of the main script are packed by value, others by their name. A function that cannot be packed
    is no error yet, since the other process may know it by itself: the reason travels in its place.

    Args:
        function: of the user's.
        what: it makes, for the error that calling it raises then.
        error_type: of that error.
    """
    try:
        return pack_by_value(function)
    except Exception as error:  # whatever an object's own pickling code may raise
        return pickle.dumps(_NotPortable(what, f"{type(error).__name__}: {error}", error_type))


def unpack_function(payload: bytes, what: str, error_type: type[SampleProfilerError]) -> Callable[..., Any]:
    """Return the function that `pack_function` packed.

    Args:
        payload: of a process of the same run: unpacking executes code.
        what: it makes, for the error that calling it raises if it cannot be unpacked.
        error_type: of that error.
    """
    try:
        function: Callable[..., Any] = pickle.loads(payload)
    except Exception as error:  # a module that cannot be found here, for example
        return _NotPortable(what, f"{type(error).__name__}: {error}", error_type)
    return function
