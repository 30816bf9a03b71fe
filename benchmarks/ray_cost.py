"""Measure what the way over Ray costs: a run with an actor of Ray on the same machine against one without.

Both have as many workers, of which one is in the actor. Runs are made in turn, and throughput is taken over a while in
which all of them sample. The ratio of each pair counts: what else the machine does comes and goes within minutes. Every
pair is kept in results/ray-cost-TASK.jsonl. The exit status is 1 if the ratio is below nine tenths.

    python -m benchmarks.ray_cost --task doom --pairs 4

needs sample_profiler[ray].
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring.peer_runs import RESULTS
from benchmarks.measuring.statistic import ratio_interval
from harness.faults import progress
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines
from harness.remote_runs import find_sampling
from harness.runs import LiveRun, live_run
from sample_profiler.profiling.session.session import read_session

TASKS = {
    "cartpole": ("sf_examples.gym.train_gym", "--env=CartPole-v1"),
    "doom": (
        *("sf_examples.vizdoom.train_vizdoom", "--env=doom_basic", "--num_envs_per_worker=16"),
        *("--batch_size=2048", "--rollout=32"),
    ),
}
ARMS = {
    "without": ("--num_workers=2",),
    "over Ray": ("--num_workers=1", "--backend=ray", "--ray_actors=1", "--ray_actor_cpus=1"),
}
_LEAST = 0.9
_START_S = 120.0
_SETTLE_S = 6.0
_END_S = 90.0


def measure(task: str, arm: str, seconds: float, folder: Path) -> tuple[float, dict[str, Any]]:
    """Return frames a second of a run, and what it told of itself at its end.

    Raises:
        TimeoutError: it does not begin.
    """
    folder.mkdir()
    module, *flags = TASKS[task]
    with live_run(module, *flags, *ARMS[arm], "--device=cpu", folder=folder) as live:
        live.wait_until_training(_START_S)
        if arm == "over Ray":
            _wait(live, lambda: find_sampling(live.output)[0])
        time.sleep(_SETTLE_S)
        begin, begin_s = progress(live)
        time.sleep(seconds)
        end, end_s = progress(live)
        live.process.send_signal(signal.SIGINT)
        live.wait(_END_S)
        return (end - begin) / (end_s - begin_s), read_session(live.folder, with_events=False).run


def _wait(live: LiveRun, condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > end_s or live.process.poll() is not None:
            raise TimeoutError(f"the actor does not begin:\n{live.output}")
        time.sleep(0.2)


def main(argv: Sequence[str] | None = None) -> int:
    """Make pairs of runs, and say what all that are kept come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="doom", help="default: doom")
    parser.add_argument("--pairs", type=int, default=4, help="of runs, one of each arm; default: 4")
    parser.add_argument("--seconds", type=float, default=25.0, help="for which throughput is taken; default: 25")
    parser.add_argument("--output", type=Path, help="file of the pairs; default: in results")
    options = parser.parse_args(argv)
    path = options.output or RESULTS / f"ray-cost-{options.task}.jsonl"
    origin = describe_origin()
    for number in range(len(read_lines(path)), options.pairs):
        arms = list(ARMS)[:: -1 if number % 2 else 1]  # what drifts favours neither
        with tempfile.TemporaryDirectory(prefix="sample_profiler_ray_", ignore_cleanup_errors=True) as folder:
            found = {arm: measure(options.task, arm, options.seconds, Path(folder, arm)) for arm in arms}
        rates = {arm: round(fps, 1) for arm, (fps, _) in found.items()}
        sizes = {name: found["over Ray"][1][name] for name in ("dataset_bytes", "weights_bytes")}
        append_line(path, {"fps": rates, **sizes, **origin})
        print(f"pair {number}: {rates}, {sizes}", flush=True)
    pairs = [line["fps"] for line in read_lines(path)]
    ratio = ratio_interval([pair["over Ray"] for pair in pairs], [pair["without"] for pair in pairs])
    each = ", ".join(f"{pair['over Ray'] / pair['without']:.2f}" for pair in pairs)
    print(f"over Ray to without: {ratio.estimate:.3f} ({ratio.lower:.3f} to {ratio.upper:.3f}); pair by pair {each}")
    return int(ratio.estimate < _LEAST)


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
