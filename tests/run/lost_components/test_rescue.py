"""How a lost RolloutWorker's place is taken, with everybody else made up."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sample_profiler.components.messages import Counters
from sample_profiler.config import parse_config
from sample_profiler.profiling import Timing
from sample_profiler.profiling.recording.file import RecordFile
from sample_profiler.run.lost_components import rescue as rescue_module
from sample_profiler.run.lost_components.rescue import Rescue
from sample_profiler.run_folder import RunFolder
from sample_profiler.runtime.loop.transports import LocalTransport
from sample_profiler.runtime.machine.memory_limits import MemoryLimit
from sample_profiler.runtime.machine.memory_watch import LackOfMemory, MemoryUse
from sample_profiler.runtime.messages.channels import LocalChannel
from sample_profiler.runtime.messages.heartbeats import FIRST_SIGN_S
from sample_profiler.runtime.processes.failure import Failure

LACK = LackOfMemory(
    by_kernel=True,
    lost=MemoryUse("RolloutWorker_w1", 800 << 20, 0, 800 << 20, 0.0, 0),
    limit=MemoryLimit(1 << 30, "of a box"),
    others=(),
)


class Asked:
    """Whoever is asked for components: notes what for, and for how long it would wait."""

    def __init__(self):
        self.calls = []

    def call(self, method, arguments, components, timeout_s):
        self.calls.append((method, arguments, components, timeout_s))
        return {}


def test_what_others_still_held_of_a_lost_worker_is_gone_before_it_is_readmitted(monkeypatch):
    """Else its successor would take a slot for its own that goes to somebody else, too."""
    free, actions = LocalChannel(), LocalChannel()
    plan = SimpleNamespace(worker_slots=[0])
    channels = SimpleNamespace(free=[free], actions=[actions])
    blueprint = SimpleNamespace(config=parse_config(["--env=none"]), counters=None, plan=plan, channels=channels)
    steps = []

    def call(method, *_):
        if method == "forget_worker":  # until it answers, a component sends back what it holds
            free.send([3, 4])
            actions.send([1])
        steps.append((method, free.pending() + actions.pending()))

    supervisor = SimpleNamespace(bury=lambda _: steps.append("bury"), spawn=lambda *_: steps.append("spawn"))
    monkeypatch.setattr(rescue_module, "plan_worker", lambda *_, **__: SimpleNamespace(settings=None, make=None))
    Rescue(blueprint, supervisor).replace(SimpleNamespace(name="RolloutWorker_w0"), SimpleNamespace(call=call), [])
    assert steps == ["bury", ("forget_worker", [3, 4, 1]), ("readmit_worker", []), "spawn"]


def test_who_brings_trajectories_of_other_machines_is_replaced_as_the_worker_that_it_counts_as(monkeypatch):
    free, actions = [LocalChannel(), LocalChannel()], [LocalChannel()]
    free[0].send([1])
    free[1].send([3, 4])
    plan = SimpleNamespace(worker_slots=[0, 0], remote_worker=1)
    channels = SimpleNamespace(free=free, actions=actions)
    blueprint = SimpleNamespace(config=parse_config(["--env=none"]), counters=None, plan=plan, channels=channels)
    planned = []

    def plan_worker(_, worker, attempt):
        planned.append((worker, attempt))
        return SimpleNamespace(settings=None, make=None)

    monkeypatch.setattr(rescue_module, "plan_worker", plan_worker)
    asked, spawned = Asked(), []
    supervisor = SimpleNamespace(bury=lambda _: None, spawn=lambda *_: spawned.append(True))
    rescue = Rescue(blueprint, supervisor)
    assert rescue.replacements.covers("RemoteSampler")
    rescue.replace(SimpleNamespace(name="RemoteSampler"), asked, ["Batcher_0"])
    assert [(method, arguments) for method, arguments, *_ in asked.calls] == [
        ("forget_worker", (1,)),
        ("readmit_worker", (1,)),
    ]
    assert (free[0].pending(), free[1].pending()) == ([1], [])
    assert (planned, spawned) == ([(1, 0)], [True])


@pytest.mark.parametrize("hang_timeout_s", [5.0, 1000.0])
def test_others_have_as_long_to_answer_as_they_have_for_signs_of_life(hang_timeout_s, monkeypatch):
    channels = SimpleNamespace(free=[LocalChannel()], actions=[LocalChannel()])
    config = parse_config(["--env=none", f"--hang_timeout={hang_timeout_s:g}"])
    plan = SimpleNamespace(worker_slots=[0])
    blueprint = SimpleNamespace(config=config, counters=None, plan=plan, channels=channels)
    supervisor = SimpleNamespace(bury=lambda _: None, spawn=lambda *_: "successor")
    monkeypatch.setattr(rescue_module, "plan_worker", lambda *_, **__: SimpleNamespace(settings=None, make=None))
    asked, names = Asked(), ["Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "RolloutWorker_w0"]
    lost = SimpleNamespace(name="RolloutWorker_w0")
    assert Rescue(blueprint, supervisor).replace(lost, asked, names) == "successor"
    assert [call[:3] for call in asked.calls] == [
        ("forget_worker", (0,), ["Batcher_0", "InferenceWorker_p0-w0"]),
        ("readmit_worker", (0,), ["Batcher_0"]),
    ]
    assert all(timeout_s > max(hang_timeout_s, FIRST_SIGN_S) for *_, timeout_s in asked.calls)


def test_whoever_looks_into_many_that_hang_shows_the_others_that_the_runner_goes_on():
    config = parse_config(["--env=none", "--flight_recorder_mb=0"])
    blueprint = SimpleNamespace(config=config, counters=None, plan=SimpleNamespace(worker_slots=[0]))
    blueprint.run_folder = Path("none")
    blueprint.transport = LocalTransport()
    done = []
    supervisor = SimpleNamespace(children=[], beat=lambda: done.append("beat"), beating=contextlib.nullcontext)
    lost = SimpleNamespace(
        name="RolloutWorker_w0", pid=1, describe_obstacle=lambda: "", dump_stacks=lambda: done.append("a second") or ""
    )
    rescue = Rescue(blueprint, supervisor)
    for _ in range(2):
        assert "no sign of life for 5 s" in rescue.examine(lost, 5.0).message
    assert done == ["beat", "a second"] * 2


def test_who_hangs_is_told_with_what_others_hold_all_the_while():
    config = parse_config(["--env=none", "--flight_recorder_mb=0"])
    seen = iter([["the queue of A is held by B", "the queue of C is held by D"], ["the queue of A is held by B"]])
    transport = SimpleNamespace(describe_locks=lambda names: next(seen) if names == {5: "B (process 5)"} else [])
    blueprint = SimpleNamespace(config=config, counters=None, plan=SimpleNamespace(worker_slots=[0]))
    blueprint.transport, blueprint.run_folder = transport, Path("none")
    children = [SimpleNamespace(name="B", pid=5)]
    supervisor = SimpleNamespace(beat=lambda: None, beating=contextlib.nullcontext, children=children)
    lost = SimpleNamespace(name="A", pid=1, describe_obstacle=lambda: "", dump_stacks=lambda: "")
    message = Rescue(blueprint, supervisor).examine(lost, 5.0).message
    assert message == "it has shown no sign of life for 5 s and was ended; the queue of A is held by B"


def test_what_those_held_that_have_ended_is_open_before_anything_else_is_done_about_them():
    steps = []
    blueprint = SimpleNamespace(config=parse_config(["--env=none"]), counters=None)
    blueprint.plan = SimpleNamespace(worker_slots=[0])
    blueprint.transport = SimpleNamespace(release=lambda: steps.append("release"))
    supervisor = SimpleNamespace(await_ends=lambda ended: [*ended, steps.append("wait") or "another"])
    assert Rescue(blueprint, supervisor).await_ends(["one"]) == ["one", "another"]
    assert steps == ["wait", "release"]


def test_where_a_component_is_can_be_seen_from_outside(tmp_path):
    config = parse_config(["--env=none"])
    blueprint = SimpleNamespace(config=config, counters=None, run_folder=tmp_path)
    blueprint.plan = SimpleNamespace(worker_slots=[0])
    child = SimpleNamespace(name="RolloutWorker_w0", pid=7)
    rescue = Rescue(blueprint, SimpleNamespace(children=[child], beating=contextlib.nullcontext))
    assert rescue.locate("RolloutWorker_w0") == "", "it has not begun to record"
    folder = RunFolder(tmp_path).live().path
    folder.mkdir(parents=True)
    timing = Timing("RolloutWorker_w0 profile")
    record = RecordFile(folder / "RolloutWorker_w0.7.rec", process_name="RolloutWorker_w0", ring_bytes=0, num_slots=8)
    with contextlib.closing(record):
        record.attach(timing, "RolloutWorker_w0")
        with timing.add_time("env_step"), timing.add_time("env_reset"):
            record.flush()
            assert rescue.locate("RolloutWorker_w0").startswith("env_step/env_reset for ")
        record.flush()
        assert rescue.locate("RolloutWorker_w0") == ""
    assert rescue.locate("RolloutWorker_w1") == "", "it has no process"


@pytest.fixture
def watched(make_run):
    """A Rescue, and what its supervisor says that processes lacked."""
    plan, _ = make_run(num_workers=2, num_envs_per_worker=2)
    blueprint = SimpleNamespace(config=parse_config(["--env=game"]), counters=Counters(2, 1), plan=plan)
    child = SimpleNamespace(name="RolloutWorker_w1", describe_exit=lambda: "was killed", is_alive=lambda: False)
    child.describe_crash = lambda: ""
    supervisor = SimpleNamespace(children=[child], lack=None)
    supervisor.explain_end = lambda _: supervisor.lack
    supervisor.explain_refusal = lambda *_, **__: supervisor.lack
    return Rescue(blueprint, supervisor), supervisor, child


def test_the_end_of_a_process_is_told_as_far_as_it_can_be_explained(watched):
    rescue, supervisor, child = watched
    assert rescue.explain_end(child, tells_all=True) == Failure(child.name, "its process was killed", "")
    supervisor.lack = LACK
    message = "its process (environments 2 to 3 of game) was ended by the kernel for want of memory: it had 800 MiB"
    failure = rescue.explain_end(child, tells_all=False)
    assert failure == Failure(child.name, message, "", lacks_memory=True)
    whole = rescue.explain_end(child, tells_all=True).message
    assert whole.startswith(f"{message}; the limit is 1.0 GiB of a box")
    rescue.replacements.note(failure)
    assert "2 processes in its place" in rescue.explain_end(child, tells_all=True).message
    assert rescue.find_ended() == [child]


def test_a_failure_for_want_of_memory_is_told_with_what_its_process_had(watched):
    rescue, supervisor, _ = watched
    raised = Failure("RolloutWorker_w1", "MemoryError", "", was_raised=True, lacks_memory=True)
    assert rescue.explain(raised) == raised
    supervisor.lack = LACK
    assert rescue.explain(raised).message.startswith("MemoryError (the kernel has just ended a process of the run")
    assert rescue.explain(replace(raised, lacks_memory=False)).lacks_memory, "the kernel is sure"
    for other in ({"component": "Runner"}, {"was_raised": False}):
        assert rescue.explain(replace(raised, **other)) == replace(raised, **other)
    supervisor.lack = replace(LACK, by_kernel=False)
    guessed = rescue.explain(replace(raised, lacks_memory=False))
    assert "RolloutWorker_w1 (environments 2 to 3 of game) had 800 MiB" in guessed.message
    assert not guessed.lacks_memory, "it may be another bug, which would come again and again"
