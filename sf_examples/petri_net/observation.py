"""Scales of the observation: numbers of about 1 whatever the place and the time."""

from __future__ import annotations

__all__ = ["KIND_SCALE", "NO_LIMIT", "PLACE_SCALE", "TIME_SCALE"]

PLACE_SCALE = 1 / 12
KIND_SCALE = 1 / 4
TIME_SCALE = 1 / 300
NO_LIMIT = 600
"""Time left to scrap where a wafer cannot be spoiled."""
