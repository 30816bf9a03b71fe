"""`python -m sample_profiler` is `sample-profiler`."""

from __future__ import annotations

import sys

from sample_profiler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
