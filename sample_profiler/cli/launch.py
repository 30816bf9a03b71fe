"""Owns `sample-profiler launch`: ranks on the nodes of a cluster of Ray, started anew where one is lost."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sample_profiler.cli.common.arguments import Commands, as_count
from sample_profiler.cli.common.problems import note
from sample_profiler.errors import UsageError
from sample_profiler.runtime.machine.ray_cluster import as_remote, enter_cluster, import_ray
from sample_profiler.runtime.processes.launcher_gone import Launcher

__all__ = ["RankHost", "add_parser", "launch", "run"]

_END_S = 150.0  # a Learner may have two minutes for its step, and has to save
_ROOM_S = 60.0

_EXAMPLES = """\
example:
  sample-profiler launch --ray=auto --nodes=4 -- sf_examples.vizdoom.train_vizdoom --env=doom_basic

Each node runs `python -m` with these words, as a rank: docs/many_machines.md.
"""


def add_parser(commands: Commands) -> None:
    """Add what the command's line looks like."""
    parser = commands.add_parser(
        "launch",
        help="train one policy on several nodes of a cluster of Ray",
        description="Start a training module on several nodes of a cluster of Ray, as ranks that train one policy "
        "together. Where one is lost, all are started again, from the latest checkpoint.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ray", metavar="ADDRESS", required=True, help="of the cluster: auto, or host:port")
    parser.add_argument("--nodes", type=as_count, required=True, metavar="N", help="number of nodes, a rank on each")
    parser.add_argument(
        "--max-restarts", type=_as_restarts, default=3, metavar="N", help="of all ranks together; default: 3"
    )
    parser.add_argument("words", nargs="+", metavar="MODULE", help="-- and the training module, with its flags")
    parser.set_defaults(run=run)


def _as_restarts(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of restarts: give 0 or more")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Do what the command's line asks for; return its exit status, which is that of the training."""
    return launch(arguments.ray, arguments.nodes, arguments.words, arguments.max_restarts)


class RankHost:
    """Runs a rank on the node where it is, in a process of its own; an actor of Ray."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def address(self) -> tuple[str, int]:
        """Return where other ranks can find this one: its node, and a port that is free there."""
        host: str = import_ray().util.get_node_ip_address()
        with socket.create_server((host, 0)) as server:
            return host, server.getsockname()[1]

    def train(self, words: Sequence[str], variables: Mapping[str, str], folder: str) -> int:
        """Run a module to its end, and return its exit status."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**os.environ, **variables, **Launcher.this().variables()},
            cwd=folder if Path(folder).is_dir() else None,
            start_new_session=True,
        )
        return self._process.wait()

    def stop(self) -> None:
        """Let it end in order, and return once it has."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()


def launch(address: str, num_nodes: int, words: Sequence[str], max_restarts: int) -> int:
    """Train on several nodes.

    Args:
        address: of the cluster.
        num_nodes: a rank on each.
        words: the training module and its flags.
        max_restarts: how often all ranks are started anew after one was lost.

    Returns:
        The exit status of the training: 0, or that of the rank that failed first.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: there is no such cluster, or it has fewer nodes.
    """
    ray = import_ray()
    try:
        enter_cluster(ray, address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"--ray={address}: there is no cluster of Ray to join ({error}): see `ray status`") from error
    try:
        for attempt in range(max_restarts + 1):
            status = _train_once(ray, num_nodes, words, attempt)
            if status is not None:
                return status
            if attempt < max_restarts:
                note(f"A rank was lost: all are started again (number {attempt + 1} of at most {max_restarts})")
        return 1
    finally:
        ray.shutdown()


def _train_once(ray: Any, num_nodes: int, words: Sequence[str], attempt: int) -> int | None:
    """Return the exit status of all ranks; None: one was lost, or failed, and it is worth another try."""
    group = ray.util.placement_group([{"CPU": 1}] * num_nodes, strategy="STRICT_SPREAD")
    hosts: list[Any] = []
    try:
        if not group.wait(_ROOM_S):
            raise UsageError(
                f"--nodes={num_nodes}: the cluster has no {num_nodes} nodes with a processor that is free "
                f"({len(ray.nodes())} nodes, {ray.available_resources().get('CPU', 0):g} processors free)"
            )
        hosts = [_make_host(ray, group, index) for index in range(num_nodes)]
        return _run_all(ray, hosts, words, attempt)
    finally:
        _end_all(ray, hosts)
        ray.util.remove_placement_group(group)


def _make_host(ray: Any, group: Any, index: int) -> Any:
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=index
    )
    # One thread for the training, and one to end it.
    return as_remote(RankHost, num_cpus=1, scheduling_strategy=strategy, max_concurrency=2).remote()


def _run_all(ray: Any, hosts: Sequence[Any], words: Sequence[str], attempt: int) -> int | None:
    lost = ray.exceptions.RayError
    try:
        address, port = ray.get(hosts[0].address.remote())
    except lost:
        return None
    running = []
    for rank, host in enumerate(hosts):
        variables = {
            **{"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
            **{"MASTER_ADDR": address, "MASTER_PORT": str(port), "TORCHELASTIC_RESTART_COUNT": str(attempt)},
        }
        running.append(host.train.remote(list(words), variables, os.getcwd()))
    while running:
        ended, running = ray.wait(running, num_returns=1)
        try:
            status: int = ray.get(ended[0])
        except lost:
            return None
        if status:
            return None if status == 1 or status < 0 else status  # 2: it cannot be begun, 1: it failed on its way
    return 0


def _end_all(ray: Any, hosts: Sequence[Any]) -> None:
    endings = [host.stop.remote() for host in hosts]
    ray.wait(endings, num_returns=len(endings), timeout=_END_S) if endings else None
    for host in hosts:
        ray.kill(host)
