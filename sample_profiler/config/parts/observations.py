"""Options of observations: how they are scaled before the network sees them."""

from __future__ import annotations

from dataclasses import dataclass

from sample_profiler.config.limits import option


@dataclass(frozen=True, kw_only=True)
class ObservationOptions:
    """Observations."""

    obs_subtract_mean: float = 0.0
    """Number subtracted from the observation `obs` (entries of other names have units of their own)."""

    obs_scale: float = option(1.0, minimum=1e-6)
    """Number by which the observation `obs` is divided, after the subtraction; 255 suits images."""

    normalize_input: bool = True
    """Shift and scale observations by their running mean and deviation."""

    normalize_input_keys: tuple[str, ...] | None = None
    """Which keys of a dictionary observation normalize_input applies to; None means all of them."""
