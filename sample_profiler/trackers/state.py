"""Owns what is kept of a tracker in a run's folder: which run of it this one is, and how much of it is there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sample_profiler.files import read_small_text, written_whole

__all__ = ["TrackingState"]


@dataclass
class TrackingState:
    """How far a tracker has been told of a run.

    Attributes:
        run_id: which run of the tracker this one is; empty: none yet.
        num_points: that it has been told of.
        positions: up to which byte of each event file, by policy and name.
    """

    run_id: str = ""
    num_points: int = 0
    positions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> TrackingState:
        """Read what was saved; where nothing was, the tracker knows nothing.

        Raises:
            OSError: it is there, and cannot be read.
            ValueError: it is nothing that was saved here.
        """
        if not path.exists():
            return cls()
        saved = json.loads(read_small_text(path))
        try:
            positions = {str(name): int(position) for name, position in saved["positions"].items()}
            return cls(str(saved["run_id"]), int(saved["num_points"]), positions)
        except (TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} is no state of a tracker: remove it to have a run begun anew there") from None

    def save(self, path: Path) -> None:
        """Write it as a whole.

        Raises:
            OSError: it cannot be written.
        """
        with written_whole(path) as partial:
            partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
