"""What a process asks of its libraries."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sample_profiler.runtime.machine.libraries import tame_numerical_libraries


def test_libraries_are_limited_to_the_threads_that_are_asked_for(monkeypatch):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    tame_numerical_libraries()
    assert [os.environ.get(name) for name in names] == [None, None, None, "PASSIVE"]
    tame_numerical_libraries(3)
    assert [os.environ.get(name) for name in names] == ["3", "3", "3", "PASSIVE"]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    tame_numerical_libraries(3)
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE", "what the user chose is left alone"


_WHERE_A_PIECE_LIES = """
import ctypes, sys
from sample_profiler.runtime.machine import libraries
libraries.keep_freed_memory()
if sys.argv[1] == "apart":
    libraries.keep_small_memory_apart()
    libraries.keep_small_memory_apart()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
large = library.malloc(20 << 20)
library.malloc(1 << 20)
library.free(large)
pieces = [library.malloc(num_bytes) for num_bytes in [70 << 10] * 100 + [300 << 10] * 20]
print(sum(large <= piece < large + (20 << 20) for piece in pieces))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc's malloc")
def test_small_pieces_of_memory_come_to_lie_apart_from_large_ones():
    found = {}
    for how in ("apart", "as usual"):
        command = [sys.executable, "-c", _WHERE_A_PIECE_LIES, how]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[how] = [int(number) for number in output.split()]
    assert found["apart"][0] == 0 < found["as usual"][0]
    assert found["apart"][1] - found["as usual"][1] < 4096, "kB: gaps are addresses, not memory"
