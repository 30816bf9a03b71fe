"""Device time: how long an accelerator worked on what a block gave it. For scripts, the names below."""

from __future__ import annotations

from sample_profiler.profiling.device_clock.clock import DeviceClock, NoDevice, device_clock_for, set_device_clock

__all__ = ["DeviceClock", "NoDevice", "device_clock_for", "set_device_clock"]
