"""Builds the package. Its name, dependencies and extras are in pyproject.toml; here is only what needs Python."""

from __future__ import annotations

from setuptools import Extension, setup

# Compiled parts have optional=True: without a compiler the package installs and works all the same.
EXTENSIONS: list[Extension] = []

setup(ext_modules=EXTENSIONS)
