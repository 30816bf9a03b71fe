"""The name under which code written for Sample Factory finds sample_profiler.compat: it is no part of Sample Factory.

Only `python -m sample_profiler.compat`, and `sample_profiler.compat.install()`, let this be found.
"""

from sample_profiler.compat.serving.modules import serve

__path__: list[str] = []

serve()
