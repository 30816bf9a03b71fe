"""What a process asks of its libraries."""

from __future__ import annotations

import os

from sample_profiler.runtime.machine.libraries import share_gpu_memory, tame_numerical_libraries


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


def test_a_gpu_is_left_to_others_unless_its_user_has_said_something_else(monkeypatch):
    names = ("XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    share_gpu_memory()
    assert [os.environ.get(name) for name in names] == ["false", "true"]
    monkeypatch.setenv(names[0], "true")
    share_gpu_memory()
    assert os.environ[names[0]] == "true"
