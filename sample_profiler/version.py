"""The version of the package. A module of its own: whoever needs it needs nothing else of the package."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "1.0.0"
