"""Breaks a training with actors on several nodes, part by part at random moments, and looks whether it goes on.

The nodes of the cluster of Ray are all on this machine: the run's own, and others with room for an actor each, of which
one may be spare. The run is CartPole. When all its actors sample, something befalls it; then all of them have to sample
again within 30 s, and bring what they make. A node that was frozen for 30 s has so long from when it goes on; the run
has to train on meanwhile. Where the Learner or the Runner is killed, the run and all its actors have to be gone within
30 s, and the next start has to go on from the newest checkpoint. In the end mean returns have to reach the threshold,
and Ctrl+C has to end everything.

Every case adds a line to the results as soon as its outcome is known; those that are there are not made again. Exit
status 0: all are there, without problems; 1: some have problems; 3: none has, but some are not there yet.

    python -m benchmarks.nodes.kill_nodes --rounds 3 --seconds 480
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.learning import TASKS, read_curve
from benchmarks.measuring.frameworks.peer_runs import RESULTS
from benchmarks.measuring.machine.local_nodes import LocalNodes, SamplingNode, wait_for_ends
from harness.faults import progress
from harness.kept_lines import append_line, describe_origin, end_when_told, read_lines, tell_origins
from harness.remote_runs import count_brought, find_sampling
from harness.runs import LiveRun, left_shared_memory, load_all_checkpoints, running, unused_shared_memory
from sample_profiler.run_folder import RunFolder
from sample_profiler.storage.checkpoint_names import newest_steps

LAYOUTS = {"1 actor": (1, 0), "1 actor, 1 spare node": (1, 1), "2 actors": (2, 0)}
"""How many actors, and nodes beside theirs and the run's own, there are."""

FAULTS = ("actor", "raylet", "node", "frozen", "RemoteSampler", "Learner_0", "Runner", "own raylet")
"""What is killed, or, of a node, frozen; the last one comes last in a run, since its own node is not renewed."""

_TIMES = ("noticed", "back", "brought")

END = "end"  # of a run, as a case
ENDING = ("Learner_0", "Runner")
LATEST_MOMENT_S = 6.0
FROZEN_S = 30.0
LIMIT_S = 30.0
_HANG_TIMEOUT_S = 20.0  # less than a node is frozen for
_PATIENCE_S = 120.0  # after which it counts as a hang
_START_S = 120.0
_LEARN_S = 240.0
_MOST_OUTPUT = 3000
_LOADED = re.compile(r"Loaded the checkpoint \S*checkpoint_(\d+)_\d+\.pth")
_FLAGS = (
    *("--env=CartPole-v1", "--backend=ray", "--ray_actors=1", "--ray_actor_cpus=1", "--num_workers=1", "--device=cpu"),
    *("--max_worker_restarts=1000", f"--hang_timeout={_HANG_TIMEOUT_S:g}", "--save_every_sec=1"),
    *("--keep_checkpoints=3", "--experiment_summaries_interval=2", "--train_for_seconds=3600"),
)


@dataclass(frozen=True)
class Plan:
    """One thing that befalls a run.

    Attributes:
        layout: one of LAYOUTS.
        fault: one of FAULTS, or END.
        number: of the round.
    """

    layout: str
    fault: str
    number: int

    @property
    def rng(self) -> random.Random:
        """The same for the same case."""
        return random.Random(f"{self.layout} {self.fault} {self.number}")


@dataclass
class Case:
    """What came of it.

    Attributes:
        plan: what befell the run.
        after_s: when, from the moment when all actors sampled.
        noticed_s: until the loss was told; None: nothing was.
        back_s: until all actors sampled again, or the run had ended.
        brought_s: until as many datasets of theirs as there are actors had been brought.
        saved: optimizer steps that were in a checkpoint before the run was ended.
        begun: optimizer steps that the next start has gone on from.
        mean_return: the highest that was reached, of an end.
        problems: what was not as it has to be.
        output: the end of what the run said, if there are some.
    """

    plan: Plan
    after_s: float = 0.0
    noticed_s: float | None = None
    back_s: float | None = None
    brought_s: float | None = None
    saved: int | None = None
    begun: int | None = None
    mean_return: float | None = None
    problems: list[str] = field(default_factory=list)
    output: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, what was planned first."""
        seen = asdict(self)
        return {**seen.pop("plan"), **seen}


class HangError(Exception):
    """What has to come does not."""


class BrokenRun:
    """A run over several nodes to which things happen; a context, which ends it and its cluster."""

    def __init__(self, layout: str) -> None:
        self._layout = layout
        self._num_actors, num_spare = LAYOUTS[layout]
        self._stack = contextlib.ExitStack()
        directory = tempfile.TemporaryDirectory(prefix="sample_profiler_nodes_", ignore_cleanup_errors=True)
        self._folder = Path(self._stack.enter_context(directory))
        self._memory = unused_shared_memory()
        self._nodes = self._stack.enter_context(LocalNodes(self._num_actors + num_spare))
        self._num_starts = 0
        self._begun_s = time.time()
        self._live = self._start()

    def __enter__(self) -> BrokenRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, plan: Plan) -> Case:
        """Let something befall the run, and see what comes of it."""
        case = Case(plan)
        try:
            self._wait(self._is_whole, _START_S, "all actors sample")
            if plan.fault == END:
                self._finish(case)
            else:
                case.after_s = plan.rng.uniform(0, LATEST_MOMENT_S)
                time.sleep(case.after_s)
                self._break(case)
        except Exception as error:
            case.problems.append(f"{type(error).__name__}: {error}")
        if case.problems:
            case.output = self._live.output[-_MOST_OUTPUT:].replace(str(self._folder), "TRAIN_DIR")
        return case

    def _start(self) -> LiveRun:
        self._num_starts += 1
        flags = [*_FLAGS, f"--ray_address={self._nodes.address}", f"--max_nodes={self._num_actors}"]
        words = [sys.executable, "-m", TASKS["cartpole"].module, *flags, f"--train_dir={self._folder}"]
        log = self._folder / f"log_{self._num_starts}.txt"
        return self._stack.enter_context(running([*words, "--experiment=run"], log, self._folder / "run"))

    def _break(self, case: Case) -> None:
        self._look()
        fault = case.plan.fault
        if fault in ENDING:
            self._end_by(case)
            return
        num_lost, begin_s = self._num_lost(), time.monotonic()
        if fault in ("RemoteSampler", "own raylet"):
            gone = self._hit_sampler(fault)
        else:
            gone = self._hit_node(fault, self._nodes.choose(case.plan.rng))
        if fault == "frozen":  # nobody could do anything before
            begin_s = time.monotonic()
        self._go_on(case, num_lost, begin_s)
        case.problems += [f"left over: {left}" for left in wait_for_ends(gone, LIMIT_S)]

    def _hit_sampler(self, fault: str) -> Sequence[psutil.Process]:
        """Hit whoever brings what actors sample; return who has to be gone soon."""
        gone = self._nodes.left_over()
        if fault == "own raylet":
            self._nodes.kill_own_raylet()
            # All nodes are on this machine: the run takes another one for its own then, and grows to the rest.
            self._num_actors = max(1, self._num_actors - 1)
        else:
            pids = re.findall(r"Started RemoteSampler as process (\d+)", self._live.output)
            psutil.Process(int(pids[-1])).kill()
        return gone

    def _hit_node(self, fault: str, node: SamplingNode) -> Sequence[psutil.Process]:
        """Hit a node with an actor; return who has to be gone soon."""
        gone = [node.actor, *node.actor.children(recursive=True)]
        if fault == "actor":
            node.actor.kill()
        elif fault == "frozen":
            self._freeze(node)
            return ()
        else:
            kill = node.kill if fault == "node" else node.kill_raylet
            kill()
            self._nodes.renew()
        return gone

    def _freeze(self, node: SamplingNode) -> None:
        begin_s, (frames, _) = time.monotonic(), progress(self._live)
        node.send(signal.SIGSTOP)
        try:
            self._wait(lambda: progress(self._live)[0] > frames, FROZEN_S, "there is training meanwhile")
            time.sleep(max(0.0, begin_s + FROZEN_S - time.monotonic()))
        finally:
            node.send(signal.SIGCONT)

    def _go_on(self, case: Case, num_lost: int, begin_s: float) -> None:
        """Wait until all actors sample, those that were lost, too, and bring something."""
        if case.plan.fault != "frozen":
            self._wait(lambda: self._num_lost() > num_lost, _PATIENCE_S, "the loss is noticed")
            case.noticed_s = time.monotonic() - begin_s
        self._wait(self._is_whole, _PATIENCE_S, "all actors sample again")
        case.back_s = time.monotonic() - begin_s
        if case.back_s > LIMIT_S:
            case.problems.append(f"late: it took {case.back_s:.0f} s")
        enough = count_brought(self._live) + self._num_actors
        self._wait(lambda: count_brought(self._live) >= enough, _PATIENCE_S, "what they sample is brought")
        case.brought_s = time.monotonic() - begin_s
        self._nodes.renew()  # a node that was frozen may have been given up

    def _end_by(self, case: Case) -> None:
        """Kill what ends the run, and start it again."""
        folder, gone = self._folder / "run", self._nodes.left_over()
        case.saved = newest_steps(folder, 1)[0]
        begin_s = time.monotonic()
        self._live.find(case.plan.fault).kill()
        try:
            status = self._live.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise HangError("the run has not ended") from None
        left = [*self._live.left_over(LIMIT_S), *map(str, wait_for_ends(gone, LIMIT_S))]
        case.back_s = time.monotonic() - begin_s
        case.problems += [f"left over: {each}" for each in left]
        case.problems += ["the run has ended with status 0"] if not status else []
        case.problems += [f"late: it took {case.back_s:.0f} s"] if case.back_s > LIMIT_S and not left else []
        load_all_checkpoints(folder)
        self._live = self._start()
        self._wait(lambda: _LOADED.search(self._live.output), _START_S, "a checkpoint is loaded")
        loaded = _LOADED.search(self._live.output)
        assert loaded is not None
        case.begun = int(loaded[1])
        if case.begun < case.saved:
            case.problems.append(f"lost: {case.saved} steps were saved, it goes on from {case.begun}")

    def _finish(self, case: Case) -> None:
        """Let it learn, and end it in order."""
        threshold = TASKS["cartpole"].threshold
        with contextlib.suppress(HangError):
            self._wait(lambda: self._best_return() >= threshold, _LEARN_S, "the threshold is reached")
        case.mean_return = self._best_return()
        if case.mean_return < threshold:
            case.problems.append(f"it has learned no more than {case.mean_return:g} in {_LEARN_S:g} s")
        self._look()
        begin_s = time.monotonic()
        self._live.process.send_signal(signal.SIGINT)
        try:
            status = self._live.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise HangError("it has not ended after Ctrl+C") from None
        case.problems += [f"after Ctrl+C the exit status is {status}"] if status != 130 else []
        left = [*self._live.left_over(LIMIT_S), *map(str, self._nodes.left_over(LIMIT_S))]
        case.back_s = time.monotonic() - begin_s
        left += sorted(left_shared_memory(self._memory))
        case.problems += [f"left over: {each}" for each in left]
        load_all_checkpoints(self._folder / "run")

    def _best_return(self) -> float:
        try:
            curve = read_curve(RunFolder(self._folder / "run").summary_of(0), self._begun_s)
        except KeyError:  # no episode has ended yet
            return 0.0
        return max(reward for _, _, reward in curve)

    def _is_whole(self) -> bool:
        return len(find_sampling(self._live.output)[0]) == self._num_actors

    def _num_lost(self) -> int:
        """Return how many actors were lost, and how many of who asks them."""
        return find_sampling(self._live.output)[1] + self._live.output.count("RemoteSampler is lost")

    def _look(self) -> None:
        self._live.everybody()
        self._nodes.look()

    def _wait(self, condition: Callable[[], object], limit_s: float, what: str) -> None:
        """Wait for something, while the run goes on.

        Raises:
            HangError: it does not come, or the run has ended.
        """
        end_s = time.monotonic() + limit_s
        while not condition():
            if (status := self._live.process.poll()) is not None:
                raise HangError(f"the run has ended with status {status} before {what}")
            if time.monotonic() >= end_s:
                raise HangError(f"not within {limit_s:g} s: {what}")
            self._look()
            time.sleep(0.2)


def play_round(plans: Sequence[Plan]) -> Generator[Case, None, None]:
    """Let one thing after the other befall a run, in any order, and end it.

    What comes after a problem is not about that case: the others are for another run, and so is the end.

    Args:
        plans: of a layout and a round.
    """
    ordered = sorted(plans, key=lambda plan: (plan.fault == END, plan.fault == FAULTS[-1], plan.rng.random()))
    while ordered:
        with BrokenRun(ordered[0].layout) as run:
            while ordered:
                case = run.play(ordered.pop(0))
                yield case
                if case.problems:
                    break


def choose(wanted: Sequence[Plan], lines: Sequence[dict[str, Any]]) -> list[list[Plan]]:
    """Return the cases that are not there yet, by round and layout."""
    kept = {(line["layout"], line["fault"], line["number"]) for line in lines}
    rounds: dict[tuple[int, str], list[Plan]] = {}
    for plan in wanted:
        if (plan.layout, plan.fault, plan.number) not in kept:
            rounds.setdefault((plan.number, plan.layout), []).append(plan)
    return [rounds[key] for key in sorted(rounds)]


def describe(line: dict[str, Any]) -> str:
    """Return what came of one case in words."""
    seen = [f"{name} after {line[f'{name}_s']:.1f} s" for name in _TIMES if line[f"{name}_s"] is not None]
    problems = [f"\n  {problem}" for problem in line["problems"]]
    begin = f"{line['layout']}, {line['fault']}, {line['number']}: "
    return begin + ", ".join([*seen, "FAILED" if problems else "as it has to be"]) + "".join(problems)


def summarize(wanted: Sequence[Plan], lines: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """Return what all cases come to in words, and the exit status."""
    latest = {(line["layout"], line["fault"], line["number"]): line for line in lines}
    found = [latest[key] for plan in wanted if (key := (plan.layout, plan.fault, plan.number)) in latest]
    texts = []
    for fault in (*FAULTS, END):
        backs = sorted(line["back_s"] for line in found if line["fault"] == fault and line["back_s"] is not None)
        num_bad = sum(bool(line["problems"]) for line in found if line["fault"] == fault)
        if backs:
            texts.append(f"{fault}: {len(backs)} times, {num_bad} with problems; {backs[0]:.1f} to {backs[-1]:.1f} s")
    bad = [describe(line) for line in found if line["problems"]]
    missing = len(wanted) - len(found)
    texts += [f"{missing} cases are not there yet: the same command goes on with them"] if missing else []
    texts += [tell_origins(found), *(bad or ["no case has problems"])]
    return "\n".join(texts), 1 if bad else 3 if missing else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Make the cases that are not there yet, and say what all of them come to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="moments for each case; default: 3")
    parser.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS), help="default: all")
    parser.add_argument("--faults", nargs="+", choices=(*FAULTS, END), default=[*FAULTS, END], help="default: all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this time")
    parser.add_argument("--output", type=Path, default=RESULTS / "nodes.jsonl", help="file of the cases")
    options = parser.parse_args(argv)
    wanted = [
        Plan(layout, fault, number)
        for number in range(options.rounds)
        for layout in options.layouts
        for fault in options.faults
    ]
    origin, end_s = describe_origin(), time.monotonic() + options.seconds
    for plans in choose(wanted, read_lines(options.output)):
        if time.monotonic() >= end_s:
            break
        with contextlib.closing(play_round(plans)) as cases:
            for case in cases:
                line = case.to_dict() | origin
                append_line(options.output, line)
                print(describe(line), flush=True)
                if time.monotonic() >= end_s:
                    break
    text, status = summarize(wanted, read_lines(options.output))
    print(text)
    return status


if __name__ == "__main__":
    end_when_told()
    sys.exit(main())
