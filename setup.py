"""Builds the package. Its name, dependencies and extras are in pyproject.toml; here is only what needs Python."""

from __future__ import annotations

from setuptools import Extension, setup

# optional=True: without a compiler the package installs and works all the same, with the recorder in pure Python.
EXTENSIONS = [
    Extension("sample_profiler.profiling._core", ["sample_profiler/profiling/_core.c"], optional=True),
]

setup(ext_modules=EXTENSIONS)
