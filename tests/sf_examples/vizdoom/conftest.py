"""Lets spawned processes find the modules of this folder: they get the parent's list of places to look."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
