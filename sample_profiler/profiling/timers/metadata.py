"""What a document of timers says about the process that it comes from."""

from __future__ import annotations

import contextlib
import functools
import sys
import time

FORMAT_VERSION = "0.1.0"
START_TIME = "start_time_seconds"

_PACKAGES = ("torch", "numpy", "gymnasium")


def describe_process(start_time_s: float) -> dict[str, str]:
    """Return the metadata of a recording that ends now; a package that is not installed has no version.

    Args:
        start_time_s: When it began, seconds since the epoch.
    """
    description = {
        "timer_format_version": FORMAT_VERSION,
        START_TIME: str(int(start_time_s)),
        "end_time_seconds": str(int(time.time())),
        "python_version": sys.version,
        "command_line_arguments": " ".join(sys.argv),
    }
    return {**description, **_package_versions()}


@functools.cache
def _package_versions() -> dict[str, str]:
    # Imported here: most processes never write a document.
    from importlib import metadata

    from sample_profiler.version import __version__

    versions = {"sample_profiler_version": __version__}
    for package in _PACKAGES:
        # Read from the files of the installation: PyTorch is not imported for its version.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[f"{package}_version"] = metadata.version(package)
    return versions
