"""Is what `sample-profiler forecast` says of more nodes true? Ask it of a run on one, and train on several.

Nodes are all on this machine, over loopback. Environments sleep in each step, so that as many as there are together
still leave the cores idle, as machines of their own would be. Each size is a run of its own: ranks that find each
other, or one Learner with an actor of Ray on each other node. The exit status is 1 if a forecast is off by more than a
tenth of what is seen. Every run is kept in results/forecast-check.jsonl.

    python -m benchmarks.checks.forecast_check

takes some seven minutes, and needs sample_profiler[ray].
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring.frameworks.peer_runs import RESULTS
from harness.kept_lines import append_line, describe_origin, end_when_told
from sample_profiler.analysis.forecast import Kind, Network, Pipeline, forecast
from sample_profiler.cli.forecast import read_pipeline
from sample_profiler.profiling.session.session import read_session

KINDS: tuple[Kind, ...] = ("ranks", "actors")
_LOOPBACK = Network(5e9, 0.0001)
_TOLERANCE = 0.1
_SLEEP_MS = 5.0
_BATCH = 64  # frames of a minibatch on one node
_SECONDS = {"ranks": 45, "actors": 80}  # actors begin later, and half of the run is to be with all of them
_SPARE_S = 120.0
_MOST_OUTPUT = 3000
_MODULE = "benchmarks.measuring.runs.injected_run"
_FLAGS = (
    *("--env=slowed_cartpole", "--num_workers=1", "--num_envs_per_worker=4", "--rollout=16", "--device=cpu"),
    *("--num_batches_per_epoch=1", "--num_epochs=1", "--learning_rate=1e-9"),
)


def train(kind: Kind, num_nodes: int, folder: Path) -> Path:
    """Train on so many nodes, and return the folder of the run.

    Raises:
        SystemExit: it failed.
    """
    flags = [*_FLAGS, f"--train_dir={folder}", "--experiment=run", f"--train_for_seconds={_SECONDS[kind]}"]
    if kind == "actors" and num_nodes > 1:
        flags += ["--backend=ray", f"--ray_actors={num_nodes - 1}"]
    num_processes = num_nodes if kind == "ranks" else 1
    flags.append(f"--batch_size={_BATCH * num_processes}")
    logs = [folder / f"log_{rank}.txt" for rank in range(num_processes)]
    places = _places(num_processes)
    processes = [_start(flags, place, log) for place, log in zip(places, logs, strict=True)]
    try:
        statuses = [process.wait(_SECONDS[kind] + _SPARE_S) for process in processes]
    finally:
        for process in processes:
            process.terminate()
    if any(statuses):
        raise SystemExit(f"{kind}, {num_nodes} nodes: {statuses}\n{logs[0].read_text()[-_MOST_OUTPUT:]}")
    return folder / "run"


def _places(num_ranks: int) -> list[dict[str, str]]:
    """Return the variables that tell ranks of each other, each as if it had a machine; nothing for one."""
    if num_ranks == 1:
        return [{}]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    return [{"RANK": str(rank), "WORLD_SIZE": str(num_ranks), **meeting} for rank in range(num_ranks)]


def _start(flags: Sequence[str], place: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("w") as output:
        return subprocess.Popen(
            [sys.executable, "-m", _MODULE, *flags],
            env={**os.environ, "INJECTED": json.dumps({"env_ms": _SLEEP_MS}), **place},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def check(pipeline: Pipeline, kind: Kind, num_nodes: int) -> dict[str, Any]:
    """Return what is expected of so many nodes, and what is seen."""
    (expected,) = forecast(pipeline, kind, [num_nodes], _LOOPBACK)
    with tempfile.TemporaryDirectory(prefix="sample_profiler_forecast_") as folder:
        seen = read_session(train(kind, num_nodes, Path(folder)), with_events=False).run["steady_fps"]
    return {
        "kind": kind,
        "nodes": num_nodes,
        "expected_fps": round(expected.fps, 1),
        "interval": [round(end, 1) for end in expected.fps_interval],
        "seen_fps": round(seen, 1),
        "off_by": round(expected.fps / seen - 1, 4),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Check all sizes and print them; the exit status is 1 if one is off by more than a tenth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="default: both")
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 2, 4], help="default: 1 2 4")
    parser.add_argument("--output", type=Path, default=RESULTS / "forecast-check.jsonl", help="file of the runs")
    options = parser.parse_args(argv)
    origin, num_off = describe_origin(), 0
    with tempfile.TemporaryDirectory(prefix="sample_profiler_forecast_") as folder:
        pipeline = read_pipeline(train("ranks", 1, Path(folder)))
    for kind in options.kinds:
        for num_nodes in options.nodes:
            found = check(pipeline, kind, num_nodes)
            append_line(options.output, found | origin)
            num_off += abs(found["off_by"]) > _TOLERANCE
            print(
                "{kind}, {nodes}: {expected_fps:,} frames/s expected, {seen_fps:,} seen, {off_by:+.1%}".format(**found),
                flush=True,
            )
    print(f"{num_off} forecasts are off by more than {_TOLERANCE:.0%}" if num_off else "all within a tenth")
    return int(num_off > 0)


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
