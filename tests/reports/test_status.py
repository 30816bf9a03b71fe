"""The picture of a run: who lives, who sits where, and what is not known."""

from __future__ import annotations

import pytest

from sample_profiler.profiling.record.process_record import Anchor, OpenBlock, ProcessRecord
from sample_profiler.profiling.session.session import Session
from sample_profiler.profiling.tree.gauges import GaugeNode
from sample_profiler.profiling.tree.tree import TreeNode
from sample_profiler.reports.sections.distance import is_running
from sample_profiler.reports.status import format_status

S = 1_000_000_000


def make_record(component="RolloutWorker_w0", state="alive", *, gauges=None, open_blocks=None):
    root = TreeNode()
    root.statistics.add([100 * S])
    for key, seconds in (("env_step", 60), ("wait_inference", 37), ("wait_for_trajectories", 2)):
        root.children[key] = TreeNode(key)
        root.children[key].statistics.add([seconds * S])
    since_ns = 105 * S - S // 4
    return ProcessRecord(
        name=component,
        pid=4711,
        host="",
        is_compiled=True,
        is_closed=state == "ended",
        state=state,
        process_started_ns=5 * S,
        read_ns=105 * S,
        start_anchor=Anchor(5 * S, 0, 0),
        end_anchor=None,
        trees={component: root},
        gauges={name: GaugeNode(value) for name, value in (gauges or {}).items()},
        open_blocks=[OpenBlock(component, ("env_step",), since_ns, 1)] if open_blocks is None else open_blocks,
    )


def make_session(*records, **run):
    return Session(0.0, run=run, processes=list(records))


def test_a_component_shows_its_state_its_block_and_its_time():
    gauges = {"memory_mib": 1234.5, "cpu_s": 75.0, "run_delay_s": 1.25, "RolloutWorker_w0/fps": 5160.25}
    text = format_status(make_session(make_record(gauges=gauges)))
    headline, components, processes, gauge = text.split("\n\n")
    assert headline == "The run is running; 1 min 40 s; processes: 1 alive; recorder: compiled"
    assert components.splitlines()[1].split() == [
        *("RolloutWorker_w0", "alive", "60%", "1.0%", "env_step", "250", "ms", "inference", "37%"),
    ]
    assert processes.splitlines()[1].split() == ["RolloutWorker_w0", "4711", "1,234", "75.0", "75%", "1.2"]
    assert gauge == "RolloutWorker_w0: fps 5,160.25"


@pytest.mark.parametrize(
    ("states", "headline"),
    [
        (["alive", "stopped"], "is running"),
        (["alive", "gone"], "is running"),
        (["stopped", "stopped"], "is stopped"),
        (["gone", "ended"], "was killed"),
        (["ended", "ended"], "has ended"),
        (["unknown"], "is on another machine"),
    ],
)
def test_the_headline_says_whether_the_run_lives(states, headline):
    session = make_session(*(make_record(f"A{index}", state) for index, state in enumerate(states)))
    text = format_status(session)
    assert text.startswith(f"The run {headline}")
    assert all(f"1 {state}" in text or f"2 {state}" in text for state in states)
    assert is_running(session) == any(state in ("alive", "stopped") for state in states)


def test_the_headline_says_which_recorder_there_was():
    records = [make_record(f"A{number}") for number in range(3)]
    for record in records:
        record.is_compiled = False
    assert format_status(make_session(*records)).split("\n")[0].endswith("; recorder: pure Python")
    records[1].is_compiled = True
    assert format_status(make_session(*records)).split("\n")[0].endswith("; recorder: pure Python and compiled")


def make_timers(wall_s, **seconds):
    root = TreeNode()
    root.statistics.add([wall_s * S])
    for key, value in seconds.items():
        root.children[key] = TreeNode(key)
        root.children[key].statistics.add([value * S])
    return root


def test_timers_have_a_row_below_the_components_of_their_process():
    quiet, busy = make_record("Runner"), make_record()
    quiet.trees["timers"] = make_timers(100)
    busy.trees |= {"timers.1": make_timers(50, fetch=50), "timers": make_timers(100, render=20, sort=5)}
    busy.open_blocks += [
        OpenBlock("timers", ("render",), 95 * S, 1),
        OpenBlock("timers.1", ("fetch",), 103 * S, 2),
        OpenBlock("timers.1", ("fetch", "decode"), 103 * S, 2),
    ]
    assert busy.timers == ["timers", "timers.1"]
    _, runner, worker, timers = format_status(make_session(quiet, busy)).split("\n\n")[1].splitlines()
    assert runner.startswith("Runner ") and worker.startswith("RolloutWorker_w0 ")
    assert timers.startswith("  timers ")
    assert timers.split() == ["timers", "alive", "50%", "fetch/decode", "2.0", "s"]


def test_blocks_for_which_there_was_no_room_are_told():
    record = make_record()
    record.num_nodes_dropped = 1200
    text = format_status(make_session(record))
    assert "\n\n1,200 blocks are missing from the records of RolloutWorker_w0, whose file is full" in text


def test_a_stopped_component_is_told_with_the_block_that_it_sits_in():
    blocks = [
        OpenBlock("RolloutWorker_w0", ("main_loop",), 6 * S, 1),
        OpenBlock("RolloutWorker_w0", ("main_loop", "env_step"), 45 * S, 1),
        OpenBlock("RolloutWorker_w0", ("main_loop", "env_step", "act"), 45 * S, 1),
    ]
    text = format_status(make_session(make_record(state="stopped", open_blocks=blocks)))
    assert "stopped" in text
    assert "env_step/act  1 min 00 s" in text


def test_what_is_missing_is_unknown_and_not_zero():
    lines = format_status(make_session(make_record())).split("\n\n")[2].splitlines()
    assert lines[1].split()[2:] == ["unknown"] * 4


def test_a_run_that_has_ended_shows_why_and_no_blocks():
    text = format_status(make_session(make_record(state="ended", open_blocks=[]), reason="enough frames"))
    assert text.startswith("The run has ended (enough frames); 1 min 40 s")
    assert "env_step" not in text


def test_a_run_that_went_on_without_a_killed_process_was_not_killed():
    text = format_status(make_session(make_record(state="ended"), make_record("B", "gone"), reason="enough frames"))
    assert text.startswith("The run has ended (enough frames)")
    assert "1 ended, 1 gone" in text


def test_a_component_outside_of_all_blocks_says_so():
    assert "no block" in format_status(make_session(make_record(open_blocks=[])))


def test_gauges_stand_with_their_components():
    gauges = {"Learner_0/lag": 2.0, "Learner_0/queue": 3.0, "Batcher_0/slots": 8.0, "mine": 0.5, "train/loss": 3.0}
    record = make_record("serial", gauges=gauges)
    record.trees |= {"Learner_0": TreeNode(), "Batcher_0": TreeNode()}
    text = format_status(make_session(record))
    assert text.endswith("Learner_0: lag 2, queue 3\nBatcher_0: slots 8\nserial: mine 0.5, train/loss 3")


def test_names_of_blocks_and_gauges_cannot_command_the_terminal():
    block = OpenBlock("RolloutWorker_w0", ("main_loop", "\x1b[2J\nblock"), 0, 1)
    text = format_status(make_session(make_record(gauges={"\x1b[31mred\nX": 1.0}, open_blocks=[block])))
    assert text.endswith("\\x1b[31mred\\nX 1")
    assert "\\x1b[2J\\nblock" in text
    assert "\x1b" not in text


def test_what_a_session_says_of_its_end_cannot_command_the_terminal():
    text = format_status(make_session(make_record(state="ended"), reason="\x1b]0;owned\x07 \ud800"))
    text.encode()
    assert "(\\x1b]0;owned\\x07 \\ud800)" in text


def test_problems_are_told():
    session = make_session(make_record())
    session.problems.append("x.rec is truncated")
    assert format_status(session).endswith("cannot be read: x.rec is truncated")


def test_the_tables_fit_into_100_columns():
    gauges = {"memory_mib": 123_456.0, "cpu_s": 123_456.0, "run_delay_s": 12_345.0}
    names = ["RolloutWorker_w127", "InferenceWorker_p0-w0", "Learner_0", "A_component_with_a_very_long_name"]
    blocks = [OpenBlock(name, ("main_loop", "handle_policy_step", "deserialize"), 0, 1) for name in names]
    session = make_session(*(make_record(name, "stopped", gauges=gauges, open_blocks=blocks) for name in names))
    for record in session.processes:
        (root,) = record.trees.values()
        root.is_parallel = True
        root.children["wait_rollout_workers"] = root.children.pop("wait_inference")
    assert max(map(len, format_status(session).splitlines())) <= 100
