"""Owns `Timing` whose values are attributes, too, as scripts read them that were written for Sample Factory."""

from __future__ import annotations

from sample_profiler import profiling

__all__ = ["Timing"]


class Timing(profiling.Timing):
    """Measures named blocks; `timing.step` is what `timing["step"]` is, seconds."""

    def __getattr__(self, name: str) -> float:
        """Return the value of a block: whatever else there is has been found before this is asked."""
        if not name.startswith("_") and name in self:
            return self[name]
        raise AttributeError(f"no block {name!r} has been measured")
