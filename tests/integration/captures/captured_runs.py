"""A training script whose observer captures rollouts of the run that it observes. Run by test_live_captures.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from sample_profiler import RunObserver, register_env

FOLDER = Path(os.environ.get("TRACES", "."))
ENDLESS = 1_000_000
START_S = 100.0  # for all components to start, on a busy machine


def make(name, cfg, placement, render_mode=None):
    import gymnasium

    return gymnasium.make("CartPole-v1")


register_env("pole", make)


class Hook:
    """Notes every rollout of a worker, and which object it is that does so."""

    def __call__(self, worker, rollout):
        with open(f"{FOLDER}/hook_{worker}", "a") as file:
            file.write(f"{rollout} {id(self)}\n")


def written(*names):
    while not all((FOLDER / name).exists() for name in names):
        yield


def rollouts(worker, number):
    """Wait for more rollouts of a worker."""
    path = FOLDER / f"hook_{worker}"
    before = len(path.read_text().splitlines())
    while len(path.read_text().splitlines()) < before + number:
        yield


class CapturingObserver(RunObserver):
    """Asks for one capture after another, and ends the run after the last."""

    def __init__(self):
        self.results = {}

    def on_init(self, runner):
        runner.call("set_profiling_enabled", (False,), timeout_s=START_S)
        self.captures = self.capture(runner)

    def on_start(self, runner):
        next(self.captures)

    def on_status(self, status):
        next(self.captures, None)

    def on_stop(self, runner):
        (FOLDER / "results.json").write_text(json.dumps(self.results))

    def capture(self, runner):
        workers = [f"RolloutWorker_w{worker}" for worker in range(runner.num_workers)]
        runner.call("set_post_collect_hook", (Hook(),), workers)
        # 1. Ranges are off since before the start.
        runner.enable_profile(num_rollouts=2, with_stack=False, save_path=FOLDER / "off.json")
        self.results["errors"] = {
            "twice": self.error_of(runner),
            "worker": self.error_of(runner, workers=[runner.num_workers]),
            "counts": self.error_of(runner, num_rollouts=1),
            "name": self.error_of(runner, num_rollout=5),
        }
        yield from written("off.json")
        # 2. Two workers at once, while training goes on.
        runner.set_profiling_enabled(True)
        runner.enable_profile(
            workers=range(runner.num_workers), num_rollouts=3, warmup_rollouts=1, with_stack=False,
            save_path=FOLDER / "worker_{worker_idx}.json",
        )  # fmt: skip
        yield from written("worker_0.json", "worker_1.json")
        # 3. Ended early, twice; the trace is where it is by default.
        runner.set_profiling_enabled(False)
        runner.enable_profile(num_rollouts=ENDLESS, with_stack=False, record_shapes=False)
        yield from rollouts(0, 8)
        self.results["early"] = [str(path) for path in runner.disable_profile()]
        self.results["again"] = [str(path) for path in runner.disable_profile()]
        # 4. The run ends before the capture does.
        runner.set_profiling_enabled(True)
        runner.enable_profile(
            workers=[1], num_rollouts=ENDLESS, with_stack=False, record_shapes=False, save_path=FOLDER / "end.json"
        )
        yield from rollouts(1, 8)
        runner.interrupt("everything has been captured")

    def error_of(self, runner, **options):
        try:
            runner.enable_profile(**options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "none"


if __name__ == "__main__":
    from sample_profiler import train

    sys.exit(train(observers=[CapturingObserver()]))
