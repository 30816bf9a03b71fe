"""Lets tests meet folders that they may not use, also where they are run by root, who may use all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Give root's privileges up for a while; whoever has none is somebody without privileges already."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@contextlib.contextmanager
def folder_of_nobody() -> Iterator[Path]:
    """Make a folder that :func:`as_nobody` may use, with what it will hold; whatever its permissions, it goes away."""
    folder = Path(tempfile.mkdtemp(prefix="unprivileged_"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    try:
        yield folder
    finally:
        folder.chmod(0o700)
        for parent, names, _ in os.walk(folder):
            for name in names:
                (Path(parent) / name).chmod(0o700)
        shutil.rmtree(folder)
