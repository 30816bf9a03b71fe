"""Owns captures of the operators of PyTorch, which is imported when one is made, not before."""

from __future__ import annotations

from pathlib import Path

from sample_profiler.errors import CaptureError
from sample_profiler.profiling.captures.torch_profile import TorchProfile, check_none_is_prepared
from sample_profiler.profiling.captures.torch_state import activities_in_use

__all__ = ["Torch"]


class Torch:
    """PyTorch's operators, and its ranges, of all threads; where the process uses a GPU its kernels, too."""

    def __init__(self) -> None:
        try:
            from torch.profiler import ProfilerActivity

            names = activities_in_use()
        except ImportError as error:
            raise CaptureError(f"torch cannot be imported: {error}: install torch") from error
        self._own = TorchProfile(activities=[getattr(ProfilerActivity, name.upper()) for name in names])

    def start(self) -> None:
        """Begin.

        Raises:
            ValueError: another profiler is in its way.
        """
        check_none_is_prepared()
        self._own.start()

    def stop(self) -> None:
        """End.

        Raises:
            CaptureError: it has given way to somebody else's.
        """
        self._own.stop()

    def write(self, path: Path) -> bool:
        """Write what was seen; return whether there is anything."""
        self._own.profile.export_chrome_trace(str(path))
        # Not profile.events(): for a million events that takes a minute, in which the component stands still. Traces of
        # nothing have one category alone.
        with path.open("rb") as trace:
            return any(b'"cat": "' in line and b'"cat": "Trace"' not in line for line in trace)
