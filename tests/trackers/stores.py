"""What is in the stores of trackers on this machine, read without their packages."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["ENVIRONMENT", "READERS"]

Curve = list[tuple[int, float]]

ENVIRONMENT = {"TRACKIO_DIR": "trackio", "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}
"""Where stores are made, from the folder that a run is started in; and nothing leaves the machine."""


def read_mlflow(folder: Path, run_id: str, name: str) -> tuple[Curve, list[str]]:
    """Return a curve of a run, and the names of its files."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as store:
        assert store.execute("SELECT run_uuid, status FROM runs").fetchall() == [(run_id, "FINISHED")]
        assert store.execute("SELECT value FROM params WHERE key = 'env'").fetchall() == [("CartPole-v1",)]
        curve = store.execute("SELECT step, value FROM metrics WHERE key = ?", (name,)).fetchall()
    return curve, [path.name for path in (folder / "mlruns").glob("*/*/artifacts/*.*")]


def read_trackio(folder: Path, run_id: str, name: str) -> tuple[Curve, list[str]]:
    """Return a curve of a run, and the names of its files."""
    with closing(sqlite3.connect(folder / "trackio" / "sample_profiler.db")) as store:
        rows = store.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
        manifests = store.execute("SELECT manifest FROM artifact_versions ORDER BY version").fetchall()
    assert {run for run, *_ in rows} == {run_id}
    points = [(step, json.loads(values)) for _, step, values in rows]
    return [(step, values[name]) for step, values in points if name in values], _paths_in(json.loads(manifests[-1][0]))


def read_wandb(folder: Path, run_id: str, name: str) -> tuple[Curve, list[str]]:
    """Return a curve of a run, of the files of all of its starts, and the names of its files."""
    messages = import_module("wandb.proto.wandb_internal_pb2")
    curve, files, steps = [], [], []
    for path in sorted((folder / "wandb" / "wandb").glob(f"offline-run-*-{run_id}/*.wandb")):
        for data in _records(path):
            record = messages.Record.FromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                told = record.run
                assert (told.run_id, told.project, told.run_group) == (run_id, "sample_factory", "CartPole-v1")
                assert (told.job_type, list(told.tags)) == ("SF", ["a", "b"])
            elif kind == "history":
                point = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                steps.append(point["_step"])
                curve += [(point["global_step"], point[name])] if name in point else []
            elif kind == "artifact":
                files = [entry.path for entry in record.artifact.manifest.contents]
            elif kind == "exit":
                assert record.exit.exit_code == 0
    assert steps == sorted(set(steps)), "its own steps never fall, or it drops the points"
    return curve, files


def _paths_in(manifest: Any) -> list[str]:
    return [entry["path"] for entry in manifest]


def _records(path: Path) -> Iterator[bytes]:
    """Yield what is in a file of records that go on from block to block, as LevelDB's log has them."""
    data, position, parts = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        if (left := 32768 - position % 32768) < 7:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


READERS = {"mlflow": read_mlflow, "trackio": read_trackio, "wandb": read_wandb}
