"""Owns that modules of Sample Factory's package of the same name are found, too, where a checkout of it is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pkgutil import extend_path

__all__ = ["path_with_others"]

_ITS_CODE_RUNS = os.path.join("sample_profiler", "compat", "site")


def path_with_others(path: Iterable[str], name: str) -> list[str]:
    """Return where the modules of a package are looked for: here, then in all others of its name on `sys.path`.

    Where `sample_profiler.compat` runs code written for Sample Factory, others come first: it means those.

    Args:
        path: Of the package, as it is.
        name: Of the package.
    """
    own = list(path)
    others = [folder for folder in extend_path(own, name) if folder not in own]
    return [*others, *own] if any(entry.endswith(_ITS_CODE_RUNS) for entry in sys.path) else [*own, *others]
