"""Runs whose figures are made up, and the verdict on them."""

from __future__ import annotations

import itertools

from sample_profiler.analysis.accounts import ComponentAccount
from sample_profiler.analysis.facts import ComponentLoad, ProcessorLimits, RunFacts
from sample_profiler.analysis.verdict import judge
from sample_profiler.profiling.record.process_record import Anchor, ProcessRecord
from sample_profiler.profiling.tree.gauges import GaugeNode

SECONDS = 60.0
_pids = itertools.count(1)  # each component has a process of its own


def make_record(trees, *, name="Test", process_started_ns=0, read_ns=0, **gauges):
    """The record of a process that has ended, with these trees by component."""
    return ProcessRecord(
        name=name,
        pid=1,
        host="",
        is_compiled=False,
        is_closed=True,
        state="ended",
        process_started_ns=process_started_ns,
        read_ns=read_ns,
        start_anchor=Anchor(0, 0, 0),
        end_anchor=None,
        trees=trees,
        gauges={name: GaugeNode(value) for name, value in gauges.items()},
    )


def load(
    name, busy, waits=None, blocks=None, counts=None, cpu=0.5, starved=0.1, gauges=None, device=None, children_cpu=None,
    asleep=None, queued=None, system=None, wall_s=SECONDS, work_s=None, pid=None,
):  # fmt: skip
    work_ns = {block: round(seconds * 1e9) for block, seconds in (work_s or {}).items()}
    process = ("Serial", pid) if pid else (name, next(_pids))
    account = ComponentAccount(name, *process, round(wall_s * 1e9), work_ns, {}, 0, 0, is_parallel=False)
    kind = name.partition("_")[0]
    return ComponentLoad(
        name, kind, account, busy, waits or {}, blocks or {}, counts or {}, cpu, starved, gauges or {}, device or {},
        children_cpu, asleep, queued, system,
    )  # fmt: skip


def worker(index, busy=0.5, inference=0.3, learner=0.2, env_step=0.45, steps=1000, cpu=0.5, asleep=None, **gauges):
    return load(
        f"RolloutWorker_w{index}",
        busy,
        {"inference": inference, "learner": learner},
        {"env_step": env_step},
        {"env_step": steps},
        cpu=cpu,
        gauges=gauges,
        asleep=asleep,
    )


def self_serving_worker(index, busy=0.98, drawing=0.9, env_step=0.08, rows=16.0, **options):
    """A worker that draws its actions itself: its tree has inference beside the steps of its environments."""
    waits = {"inference": 0.0, "learner": round(1 - busy, 3)}
    blocks = {"handle_policy_step": drawing, "handle_policy_step/forward": 0.7 * drawing, "env_step": env_step}
    name = f"RolloutWorker_w{index}"
    return load(name, busy, waits, blocks, {"env_step": 1000}, gauges={"batch_rows": rows}, **options)


def learner(busy, more_blocks=None, more_counts=None, **options):
    forward_head = "train/calculate_losses/forward_head"
    blocks = {"train": 0.9 * busy, "train/update": 0.6 * busy, "train/calculate_losses": 0.3 * busy}
    counts = {"train": 100, forward_head: 100} | (more_counts or {})
    blocks |= {forward_head: 0.2 * busy} | (more_blocks or {})
    return load("Learner_0", busy, {"batcher": 1 - busy}, blocks, counts, **options)


def inference(busy=0.4, rows=16.0, sending=0.0, more_blocks=None, **options):
    blocks = {"handle_policy_step": 0.9 * busy, "handle_policy_step/send_messages": sending} | (more_blocks or {})
    gauges = {"batch_rows": rows}
    return load("InferenceWorker_p0-w0", busy, {"requests": 1 - busy}, blocks, gauges=gauges, **options)


def batcher(busy=0.01, finished=3.0, at_learner=64.0, **options):
    gauges = {"finished_trajectories": finished, "trajectories_at_learner": at_learner}
    return load("Batcher_0", busy, {"rollout_workers": 1 - busy}, {"batching": busy}, gauges=gauges, **options)


def judge_run(
    *loads, machine_busy=0.8, seconds=SECONDS, start_s=8.0, config=None, is_serial=False, num_cores=2, **more
):
    flags = {"num_envs_per_worker": 16, "batch_size": 2048, "async_rl": True, "precision": "fp32"} | (config or {})
    return judge(RunFacts(seconds, start_s, 5000.0, num_cores, machine_busy, is_serial, loads, flags, **more))


def limits(machine_cores=2, quota_cores=None, held_up=0.0):
    return ProcessorLimits(machine_cores, quota_cores, held_up)


def most_fps(factor):
    """Return the most that is predicted of 5,000 frames/s that may become so many times as many.

    With a tenth for noise, and up to 15 % beyond the model, of a gain that is as large.
    """
    return 5000 * factor * (1 + min(0.15, factor - 1)) * 1.1
