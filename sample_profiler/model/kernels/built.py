"""Owns whether loops of our own are there: all of them, or none.

Some are missing where the package is newer than what was compiled at its installation, as after an update of a
checkout. What they do would be left to PyTorch in silence, so none is used then, and the log says why.
"""

from __future__ import annotations

import importlib.util

__all__ = ["ARE_BUILT", "KERNELS"]

ARE_BUILT = True
try:
    from sample_profiler.model.kernels import _objective, _perceptrons  # noqa: F401
    from sample_profiler.model.kernels._kernels import scale_to_pixels  # noqa: F401, the latest that was added
except ImportError:
    ARE_BUILT = False

KERNELS = "compiled" if ARE_BUILT else "PyTorch's"
"""Whose loops are used."""

if not ARE_BUILT and importlib.util.find_spec("sample_profiler.model.kernels._kernels") is not None:
    KERNELS += ", those compiled are of an earlier version: install again"
