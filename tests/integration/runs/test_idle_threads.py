"""Threads of numerical libraries sleep while they wait, in every process of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.runs import CARTPOLE, SMALL, run

pytestmark = pytest.mark.whole_run

# Every process of the run begins with this. Those that are started import PyTorch at once, as they do where the main
# module imports it.
_AT_THE_BEGINNING = """
import os, sys

class Notes:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            sys.meta_path.remove(self)
            with open(os.environ["NOTES"], "a") as file:
                print(os.environ.get("OMP_WAIT_POLICY"), file=file)

sys.meta_path.insert(0, Notes())
if "--multiprocessing-fork" in sys.argv:
    import torch
"""


@pytest.mark.parametrize("serial", [True, False])
def test_pytorch_is_imported_after_threads_have_been_told_to_sleep(serial: bool, tmp_path: Path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    notes = tmp_path / "notes"
    (tmp_path / "sitecustomize.py").write_text(_AT_THE_BEGINNING)
    search = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    flags = (*CARTPOLE, *SMALL, f"--serial_mode={serial}", "--train_for_env_steps=64")
    done = run(*flags, folder=tmp_path, PYTHONPATH=search, NOTES=str(notes))

    assert done.returncode == 0, done.stdout
    told = notes.read_text().split()
    assert set(told) == {"PASSIVE"}
    assert len(told) == 1 if serial else len(told) >= 5, (
        "the Learner, the InferenceWorker, two RolloutWorkers, the Batcher"
    )
