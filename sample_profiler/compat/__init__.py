"""Code written for Sample Factory runs with this package: its names are served by what is here.

`python -m sample_profiler.compat -m their.train_module --env=…` runs a module, `python -m sample_profiler.compat
their_script.py …` a script; in a notebook, call :func:`install` before anything is imported from `sample_factory`.
"""

from __future__ import annotations

import importlib
import sys

from sample_profiler.compat.serving.place import SITE

__all__ = ["SITE", "install"]


def install() -> None:
    """Let `sample_factory` be found from now on, in this process and in those that it starts.

    Raises:
        ImportError: The original has been imported already.
    """
    original = sys.modules.get("sample_factory")
    if original is not None and not (original.__file__ or "").startswith(SITE):
        raise ImportError(
            f"sample_factory has been imported already, from {original.__file__}: call install() before that"
        )
    if SITE not in sys.path:
        sys.path.insert(0, SITE)
    importlib.import_module("sample_factory")  # whatever comes before it on the path from now on
    from sample_profiler.compat.environments.older_gymnasium import supply_older_names  # here: it is in this package

    supply_older_names()
