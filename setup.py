"""Builds the package. Its name, dependencies and extras are in pyproject.toml; here is only what needs Python."""

from __future__ import annotations

import os

from setuptools import Extension, setup

# Loops of plain arithmetic, for the compiler to vectorize: they look at no floating-point exceptions, but at NaN.
_VECTORIZING = ["/O2"] if os.name == "nt" else ["-O3", "-fno-fast-math", "-fno-math-errno", "-fno-trapping-math"]

# Without a compiler the package installs and works all the same, with the recorder in pure Python and PyTorch's own
# functions in the networks. Wheels for others have all extensions, or are not built.
_OPTIONAL = os.environ.get("SAMPLE_PROFILER_REQUIRE_EXTENSIONS") != "1"

EXTENSIONS = [
    Extension(
        "sample_profiler.profiling.recorder._core", ["sample_profiler/profiling/recorder/_core.c"], optional=_OPTIONAL
    ),
    Extension(
        "sample_profiler.profiling.captures.interpreter._interpreter",
        ["sample_profiler/profiling/captures/interpreter/_interpreter.c"],
        optional=_OPTIONAL,
    ),
    *(
        Extension(
            f"sample_profiler.{module}",
            [f"sample_profiler/{module.replace('.', '/')}.c"],
            depends=["sample_profiler/model/kernels/loops.h"],
            extra_compile_args=_VECTORIZING,
            optional=_OPTIONAL,
        )
        for module in ("model.kernels._kernels", "model.kernels._perceptrons", "model.kernels._objective")
    ),
]

setup(ext_modules=EXTENSIONS)
