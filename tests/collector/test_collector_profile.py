"""Rollout-counted captures in the workers of a Collector, over both wirings: rules TR6 and TR9 to TR17.

Ranges are armed when Python starts, so each wiring is driven once by a program of its own; the tests read what it left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sample_profiler.profiling.captures.rollouts.profiler import ROLLOUT_END
from sample_profiler.switches import RANGES_VARIABLE

pytestmark = pytest.mark.whole_run

ROLLOUT = 8
NUM_ENVS = 4

PROGRAM = """
import json
import logging
import sys
from pathlib import Path

import sample_profiler

NUM_WORKERS = 2
# Of a worker: the warm-up, one of its other group, which began before the capture did, and some that count.
ENOUGH = 6


def make(name, cfg, placement, *, render_mode=None):
    import gymnasium

    return gymnasium.make("CartPole-v1")


class Hook:
    def __init__(self, folder):
        self.folder = folder

    def __call__(self, worker, rollout):
        with open(f"{self.folder}/hook_{worker}", "a") as file:
            file.write(f"{rollout} {id(self)}\\n")


def mark_ready(profiler):
    import os

    Path(os.environ["READY"]).write_text(type(profiler).__name__)


class Messages(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


sample_profiler.register_env("pole", make)


def main():
    folder = Path(sys.argv[1])
    flags = sys.argv[2:]
    messages = Messages()
    logging.getLogger().addHandler(messages)
    logging.getLogger().setLevel(logging.INFO)
    results = {}

    def count_rollouts(worker):
        return len((folder / f"hook_{worker}").read_text().splitlines())

    def collect(collector, *paths, of_worker=0, num_rollouts=0):
        until = count_rollouts(of_worker) + num_rollouts if num_rollouts else 0
        for number, _ in enumerate(collector, 1):
            if all(Path(path).exists() for path in paths) and (not until or count_rollouts(of_worker) >= until):
                return
            assert number < 300, f"no trace: {messages.texts}"

    with sample_profiler.Collector(flags) as collector:
        collector.set_post_collect_hook(Hook(folder))
        # 1. Two workers at once, from the first rollout on.
        collector.enable_profile(
            workers=[0, 1], num_rollouts=3, warmup_rollouts=1, with_stack=False,
            save_path=folder / "both" / "worker_{worker_idx}.json",
        )
        collect(collector, *(folder / "both" / f"worker_{worker}.json" for worker in range(2)))
        # 2. Without warm-up, and while sampling goes on; with all that there is.
        path = folder / "all" / "worker_{worker_idx}.json.gz"
        collector.enable_profile(
            workers=[1], num_rollouts=2, warmup_rollouts=0, save_path=path, profile_memory=True,
            on_trace_ready=mark_ready,
        )
        collect(collector, folder / "all" / "worker_1.json.gz")
        # 3. Ranges off in all workers: nothing is left to record.
        results["switched"] = collector.map_fn("set_profiling_enabled", [(False,)] * collector.num_workers)
        collector.enable_profile(num_rollouts=2, with_stack=False, save_path=folder / "off.json")
        collect(collector, folder / "off.json")
        collector.map_fn("set_profiling_enabled", [(True,)] * collector.num_workers)
        # 4. Ended early, twice; the trace is where it is by default.
        collector.enable_profile(num_rollouts=1000, with_stack=False)
        collect(collector, num_rollouts=ENOUGH)
        results["early"] = [str(path) for path in collector.disable_profile()]
        results["again"] = [str(path) for path in collector.disable_profile()]
        next(collector)
        # 5. What is not possible is an error here, and sampling goes on.
        collector.enable_profile(workers=[1], num_rollouts=1000, with_stack=False, save_path=folder / "end.json")
        errors = {}
        for name, options in {
            "twice": {"workers": [1]}, "worker": {"workers": [2]}, "counts": {"num_rollouts": 1},
            "activity": {"activities": ["gpu"]}, "cuda": {"activities": ["cuda"]}, "path": {"workers": [0, 1],
            "save_path": "x.json"},
        }.items():
            try:
                collector.enable_profile(**options)
            except Exception as error:
                errors[name] = f"{type(error).__name__}: {error}"
        results["errors"] = errors
        # 6. Shut down before the end.
        collect(collector, of_worker=1, num_rollouts=ENOUGH)
    results["messages"] = messages.texts
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
"""


@dataclass
class Driven:
    """What the program left behind.

    Attributes:
        folder: its traces; the run's folder is `run` in it.
        results: what it noted.
        is_serial: all workers were in one process.
        num_groups: groups of environments of each worker.
    """

    folder: Path
    results: dict[str, Any]
    is_serial: bool
    num_groups: int

    def trace(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        if name.endswith(".gz"):
            import gzip

            return json.loads(gzip.decompress(path.read_bytes()))
        return json.loads(path.read_text())

    def ranges(self, name: str) -> list[dict[str, Any]]:
        """Return the named ranges of a trace, outermost first."""
        events = self.trace(name)["traceEvents"]
        found = [event for event in events if event.get("cat") == "user_annotation" and event["ph"] == "X"]
        return sorted(found, key=lambda event: (event["ts"], -event["dur"]))

    def count(self, name: str) -> Counter[str]:
        return Counter(event["name"] for event in self.ranges(name))


def drive(folder: Path, armed: str, *flags: str) -> dict[str, Any]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    small = [
        "--env=pole", "--num_workers=2", f"--num_envs_per_worker={NUM_ENVS}", f"--rollout={ROLLOUT}",
        f"--batch_size={4 * ROLLOUT}", "--encoder_mlp_layers", "8", "--use_rnn=False", "--device=cpu",
        "--decorrelate_envs_on_one_worker=False", f"--train_dir={folder}", "--experiment=run",
    ]  # fmt: skip
    environment = {**os.environ, RANGES_VARIABLE: armed, "READY": str(folder / "ready")}
    result = subprocess.run(
        [sys.executable, str(program), str(folder), *small, *flags],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    return json.loads((folder / "results.json").read_text())


WIRINGS = {
    "serial": ("--serial_mode=True", "--worker_num_splits=1", "--async_rl=False"),
    "parallel": ("--serial_mode=False", "--worker_num_splits=1", "--async_rl=True"),
    "parallel with two groups": ("--serial_mode=False", "--worker_num_splits=2", "--async_rl=True"),
}


@pytest.fixture(scope="module", params=WIRINGS)
def driven(request, tmp_path_factory) -> Driven:
    folder = tmp_path_factory.mktemp("driven")
    flags = WIRINGS[request.param]
    return Driven(folder, drive(folder, "1", *flags), "serial" in request.param, 2 if "two" in request.param else 1)


def nests(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def test_tr11_exactly_the_rollouts_that_count_are_in_the_trace(driven):
    for worker in range(2):
        name = f"both/worker_{worker}.json"
        described = driven.trace(name)["sample_profiler"]
        counts = driven.count(name)
        assert described["worker"] == worker
        assert len(described["rollouts"]) == counts[ROLLOUT_END] == 2
        assert described["rollouts"][0] >= 1, "the first one is warm-up"
        if driven.is_serial:
            continue  # its trace shows the other worker's rollouts as well
        if driven.num_groups == 1:
            # Which ones they are depends on how many batches each worker had a part in.
            assert described["rollouts"][1] == described["rollouts"][0] + 1
        assert counts["SteppingGroup.step"] == 2 * ROLLOUT
        assert counts["AgentsEnv.step"] == 2 * ROLLOUT * NUM_ENVS // driven.num_groups


def test_tr11_without_warm_up_all_rollouts_are_in_the_trace(driven):
    described = driven.trace("all/worker_1.json.gz")["sample_profiler"]
    counts = driven.count("all/worker_1.json.gz")
    assert described["warmup_rollouts"] == 0
    assert len(described["rollouts"]) == counts[ROLLOUT_END] == 2
    if not driven.is_serial:
        assert counts["SteppingGroup.step"] == 2 * ROLLOUT


def test_tr16_names_and_nesting_are_those_of_the_code(driven):
    ranges = driven.ranges("both/worker_0.json")
    by_name: dict[str, list[dict[str, Any]]] = {}
    for event in ranges:
        by_name.setdefault(event["name"], []).append(event)
    for inner, outer in [
        ("SteppingGroup.step", "RolloutWorker.rollout"),
        ("AgentsEnv.step", "SteppingGroup.step"),
    ]:
        assert by_name[inner], inner
        assert all(any(nests(event, around) for around in by_name[outer]) for event in by_name[inner]), (inner, outer)
    ends = by_name[ROLLOUT_END]
    assert not any(nests(end, step) for end in ends for step in by_name["RolloutWorker.rollout"])
    per_step = driven.count("both/worker_0.json")
    assert per_step["AgentsEnv.step"] == per_step["SteppingGroup.step"] * NUM_ENVS // driven.num_groups


def test_tr16_a_trace_is_whole_json_as_viewers_want_it(driven):
    trace = driven.trace("both/worker_0.json")
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= set(event)
        assert event["ph"] != "X" or event["dur"] >= 0
    assert {event["tid"] for event in driven.ranges("both/worker_0.json")} == {
        event["tid"] for event in driven.ranges("both/worker_0.json")[:1]
    }, "a worker has one thread"


def test_tr9_the_options_reach_the_profiler_in_the_worker(driven):
    categories = Counter(event.get("cat") for event in driven.trace("all/worker_1.json.gz")["traceEvents"])
    assert categories["python_function"], "with_stack"
    assert "python_function" not in {e.get("cat") for e in driven.trace("both/worker_0.json")["traceEvents"]}
    assert (driven.folder / "ready").read_text() == "profile", "on_trace_ready"


def test_tr9_what_cannot_be_is_an_error_in_the_caller(driven):
    errors = driven.results["errors"]
    assert errors["twice"].startswith("CommandError: ")
    assert "a capture of rollout worker 1 is on already" in errors["twice"]
    assert errors["worker"].startswith("ValueError: there is no rollout worker 2")
    assert errors["counts"].startswith("ValueError: num_rollouts=1")
    assert errors["activity"].startswith("ValueError: unknown activity 'gpu'")
    assert errors["path"].startswith("ValueError: save_path='x.json' is the same file")


def test_tr15_an_activity_that_nobody_can_record_is_an_error(driven):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("it can be recorded here")
    assert "no activity can be recorded" in driven.results["errors"]["cuda"]


def test_tr6_switching_ranges_off_reaches_the_workers(driven):
    assert driven.results["switched"] == [None, None]
    assert set(driven.count("off.json")) <= {ROLLOUT_END}
    assert driven.count(Path(driven.results["early"][0]).relative_to(driven.folder).as_posix())["AgentsEnv.step"]


def test_tr15_a_trace_with_nothing_in_it_says_so_in_the_callers_log(driven):
    trace = driven.trace("off.json")
    if driven.is_serial:
        assert any(event.get("cat") == "cpu_op" for event in trace["traceEvents"]), "inference is in this process"
        return
    assert trace["sample_profiler"]["note"].startswith("nothing was recorded in 1 rollouts of rollout worker 0")
    assert any("off.json is empty: nothing was recorded" in text for text in driven.results["messages"])


def test_tr10_and_tr13_disabling_exports_early_to_the_default_and_is_a_no_op_when_off(driven):
    assert driven.results["early"] == [str(driven.folder / "run" / "profile" / "worker_0.json")]
    assert driven.results["again"] == []
    assert driven.count("run/profile/worker_0.json")[ROLLOUT_END] >= 1


def test_tr13_the_hook_that_was_there_runs_all_the_time_and_is_the_same_object(driven):
    for worker in range(2):
        lines = [line.split() for line in (driven.folder / f"hook_{worker}").read_text().splitlines()]
        numbers = [int(number) for number, _ in lines]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "not one rollout was left out"
        assert len({identity for _, identity in lines}) == 1
        described = driven.trace(f"both/worker_{worker}.json")["sample_profiler"]
        assert set(described["rollouts"]) < set(numbers), "before, during and after the capture"
        assert max(numbers) > max(described["rollouts"])


def test_tr14_a_shutdown_exports_what_there_is(driven):
    described = driven.trace("end.json")["sample_profiler"]
    assert described["worker"] == 1
    assert 1 <= len(described["rollouts"]) == driven.count("end.json")[ROLLOUT_END] < 999


def test_tr12_and_tr14_no_unfinished_trace_is_left(driven):
    names = sorted(path.name for path in driven.folder.rglob("*.json*"))
    assert names == sorted(
        ["worker_0.json", "worker_1.json", "worker_1.json.gz", "off.json", "worker_0.json", "end.json", "results.json"]
    )


def test_tr17_every_backend_offers_what_a_collector_asks_of_it():
    from sample_profiler.collector.backends import CollectorBackend, SerialBackend
    from sample_profiler.collector.processes import ProcessBackend

    asked = {name for name in vars(CollectorBackend) if not name.startswith("_")}
    assert {"call", "collect", "components", "publish", "shutdown"} <= asked
    for backend in (SerialBackend, ProcessBackend):
        assert asked <= set(dir(backend))
