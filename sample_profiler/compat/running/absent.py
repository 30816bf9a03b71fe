"""Owns names at the top of scripts that are copies of the original's: what they name is not here, and seldom used.

Importing them is no mistake, and nothing is an instance of one; whoever makes one, or derives from it, is told so.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sample_profiler.errors import UsageError

__all__ = [
    *("BatchedVectorEnvRunner", "NonBatchedVectorEnvRunner", "PopulationBasedTraining", "SequentialVectorizeWrapper"),
    "SerialSampler",
]


def _absent(name: str, reason: str) -> type[Any]:
    """Return a class that says why there is none of it."""

    def refuse(*_arguments: Any, **_keywords: Any) -> NoReturn:
        raise UsageError(f"{name} is not served by sample_profiler.compat: {reason}")

    described = f"It is not here: {reason}."
    return type(name, (), {"__init__": refuse, "__init_subclass__": classmethod(refuse), "__doc__": described})


_SAMPLING = "sampling is one piece here; see sample_profiler.Collector"

BatchedVectorEnvRunner = _absent("BatchedVectorEnvRunner", _SAMPLING)
NonBatchedVectorEnvRunner = _absent("NonBatchedVectorEnvRunner", _SAMPLING)
SequentialVectorizeWrapper = _absent("SequentialVectorizeWrapper", _SAMPLING)
SerialSampler = _absent("SerialSampler", _SAMPLING)
PopulationBasedTraining = _absent("PopulationBasedTraining", "there is no population-based training here")
