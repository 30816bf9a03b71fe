"""The device clock of CUDA (and ROCm) through PyTorch. Imported only where such a device was chosen."""

from __future__ import annotations

from typing import Any

from sample_profiler.errors import TimingError

__all__ = ["CudaDevice"]

_NS_PER_MS = 1_000_000


class CudaDevice:
    """Events on the streams of one CUDA device.

    Args:
        device: ``cuda``, which is the current one at this moment, or ``cuda:<index>``.

    Raises:
        TimingError: PyTorch is missing, or sees no such device.
    """

    def __init__(self, device: str = "cuda") -> None:
        try:
            import torch
        except ImportError as error:
            raise TimingError(
                f"device times of {device!r} need PyTorch, which cannot be imported ({error}): install torch, or "
                "leave the device clock out"
            ) from error
        num_devices = torch.cuda.device_count()
        index: int | None = torch.device(device).index
        if index is None and num_devices:
            index = torch.cuda.current_device()
        if index is None or index >= num_devices:
            raise TimingError(
                f"there is no device {device!r}: PyTorch sees {num_devices} CUDA devices; measure 'cpu' instead"
            )
        self._torch: Any = torch
        self._index = index

    def make_event(self) -> Any:
        """Return a new event that knows its time."""
        return self._torch.cuda.Event(enable_timing=True)

    def record(self, event: Any) -> int:
        """Put the event on the current stream and return the stream's number.

        Raises:
            RuntimeError: The device is in trouble, or a graph is being captured, in which events have no time.
        """
        if self._torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a CUDA graph is being captured")
        stream = self._torch.cuda.current_stream(self._index)
        event.record(stream)
        return int(stream.cuda_stream)

    def is_done(self, event: Any) -> bool:
        """Tell whether the device has passed the event; not while this thread captures a graph, which asking ends."""
        return not self._torch.cuda.is_current_stream_capturing() and bool(event.query())

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Return the time between two events; CUDA resolves about half a microsecond."""
        milliseconds: float = start.elapsed_time(end)
        return round(milliseconds * _NS_PER_MS)

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        self._torch.cuda.synchronize(self._index)
