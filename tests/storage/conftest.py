"""Makes modules of this folder importable for the processes that its tests spawn."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:  # spawned processes get this list
    sys.path.insert(0, FOLDER)
