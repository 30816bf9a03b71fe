"""Measure what the way over Ray costs: a run with an actor of Ray on the same machine against one without.

Both have as many workers, of which one is in the actor. Runs are made in turn, and throughput is taken over a while in
which all of them sample. The ratio of each pair counts: what else the machine does comes and goes within minutes. What
a frame takes of the processors, in all processes together, depends less on that, and is told, too. Every pair is kept
in results/ray-cost-TASK.jsonl. The exit status is 1 if the ratio of throughputs is below nine tenths.

    python -m benchmarks.nodes.ray_cost --task doom --pairs 4

needs sample_profiler[ray].
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring.frameworks.peer_runs import RESULTS
from benchmarks.measuring.machine.processor_time import processor_time_s
from benchmarks.measuring.statistic import ratio_interval
from harness.faults import progress
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines
from harness.remote_runs import find_sampling
from harness.runs import LiveRun, live_run
from sample_profiler.errors import SessionError
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
_SETTLE_S = 30.0  # until memory everywhere is full: what is sampled ahead meanwhile is not trained on in the end
_EARLIEST_S = 60.0  # after the start: what a policy has learned changes what steps cost
_END_S = 90.0
_LOOK_S = 1.0


@dataclass(frozen=True)
class Measured:
    """What was seen of a run.

    Attributes:
        fps: frames trained on in a second.
        processor_us: that all of its processes took for one, those of Ray included.
        sizes: of its messages, in bytes.
    """

    fps: float
    processor_us: float
    sizes: dict[str, int]


def measure(task: str, arm: str, seconds: float, folder: Path) -> Measured:
    """Return what is seen of a run over a while.

    Raises:
        TimeoutError: it does not begin.
    """
    folder.mkdir()
    module, *flags = TASKS[task]
    started_s = time.monotonic()
    with live_run(module, *flags, *ARMS[arm], "--device=cpu", folder=folder) as live:
        _wait(live, lambda: _trains(live) and (arm == "without" or find_sampling(live.output)[0]))
        time.sleep(max(_SETTLE_S, started_s + _EARLIEST_S - time.monotonic()))
        (begin, begin_s), before_s = progress(live), _processor_times_s(live)
        time.sleep(seconds)
        (end, end_s), after_s = progress(live), _processor_times_s(live)
        live.process.send_signal(signal.SIGINT)
        live.wait(_END_S)
        run = read_session(live.folder, with_events=False).run
    took_s = sum(time_s - before_s.get(pid, 0.0) for pid, time_s in after_s.items())
    sizes = {name: run[name] for name in ("dataset_bytes", "weights_bytes")}
    return Measured((end - begin) / (end_s - begin_s), 1e6 * took_s / (end - begin), sizes)


def _processor_times_s(live: LiveRun) -> dict[int, float]:
    """Return what each process of a run has taken so far."""
    times_s = {}
    for process in (live.find("Runner"), *live.everybody()):
        with contextlib.suppress(OSError):  # it ends just now
            times_s[process.pid] = processor_time_s(process.pid)
    return times_s


def _wait(live: LiveRun, condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > end_s or live.process.poll() is not None:
            raise TimeoutError(f"not all of them sample within {_START_S:g} s:\n{live.output}")
        time.sleep(_LOOK_S)


def _trains(live: LiveRun) -> bool:
    try:
        return progress(live)[0] > 0
    except SessionError:  # nobody records yet
        return False


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
        rates = {arm: round(measured.fps, 1) for arm, measured in found.items()}
        costs_us = {arm: round(measured.processor_us, 1) for arm, measured in found.items()}
        append_line(path, {"fps": rates, "processor_us": costs_us, **found["over Ray"].sizes, **origin})
        print(f"pair {number}: frames/s {rates}, processor microseconds a frame {costs_us}", flush=True)
    lines = read_lines(path)
    for name in ("processor_us", "fps"):
        these, those = ([line[name][arm] for line in lines] for arm in ("over Ray", "without"))
        ratio = ratio_interval(these, those)
        each = ", ".join(f"{first / second:.2f}" for first, second in zip(these, those, strict=True))
        print(f"{name}, over Ray to without: {ratio.estimate:.3f} ({ratio.lower:.3f} to {ratio.upper:.3f}); {each}")
    return int(ratio.estimate < _LEAST)


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
