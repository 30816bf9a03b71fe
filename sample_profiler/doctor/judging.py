"""Owns what measurements of an environment mean: which of them are findings, and what is to be done about each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from itertools import pairwise

from sample_profiler.doctor.findings import Finding
from sample_profiler.doctor.measurements import Growth, Measurements, TimeSummary

__all__ = ["judge"]

_MIB = 2**20
_MS = 1e6
_LEAST_TAIL_SHARE = 0.12
_LEAST_SLOW = 3
_MOST_SLOW_SHARE = 0.05  # of the calls; more of them are no tail
_LEAST_RESETS, _LEAST_RESET_NS, _MUCH_RESETTING = 3, 5 * _MS, 0.5
_LEAST_CALLS, _LEAST_SLOWER, _LEAST_SLOWER_NS = 500, 1.5, 0.02 * _MS
_OFTEN = 0.5  # more of something with each reset
_LEAST_ASLEEP_SHARE = 0.2
_LEAST_ASLEEP_NS = 0.2 * _MS
_LEAST_GROWTH_BYTES = 1.5 * _MIB
_LEAST_GROWTH_OF_OBJECTS = 1_500
_LEAST_RISES = 0.75
_MOST_INFO_BYTES = 32 * 1024
_LEAST_STEPS_WITHOUT_END = 2_000
_LEAST_EPISODES = 5
_NEARLY_ALL = 0.9
_LARGE_REWARD = 1_000.0
_LEAST_OTHER_CPU = 0.5

_SLEEPS = {
    "timer": ("a timer, as in time.sleep", "take the sleep out; where real time has to pass,"),
    "disk": ("the disk", "read what it needs in the constructor, once; else"),
    "network": ("another machine", "ask for more at once, or keep a copy here; else"),
    "lock": ("a lock, or another thread of its own", "find out which thread it waits for; else"),
}
"""What an environment may sleep for that is its own doing: in words, and the cure."""


def judge(measured: Measurements, sleeps: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what measurements say is wrong.

    Args:
        measured: of an environment.
        sleeps: shares of the looks at its process during steps in which it slept, by what for.
    """
    for method, times in (("step", measured.steps), ("reset", measured.resets)):
        if times is not None:
            yield from _judge_tail(method, times)
    yield from _judge_resets(measured)
    if measured.steps is not None:
        yield from _judge_slowing(measured.steps)
        yield from _judge_sleep(measured.steps, sleeps, measured.num_processes)
        yield from _judge_threads(measured)
    yield from _judge_memory(measured)
    yield from _judge_belongings(measured)
    if measured.info_bytes > _MOST_INFO_BYTES:
        yield Finding(
            "warning",
            "large infos",
            f"Infos are of {measured.info_bytes / 1024:,.0f} KiB on average",
            f"written down, over {measured.num_steps:,} steps",
            "leave out what nobody reads, such as pictures and histories: wrappers copy and keep infos",
        )
    yield from _judge_episodes(measured)
    yield from _judge_rewards(measured)


def _judge_tail(method: str, times: TimeSummary) -> Iterator[Finding]:
    is_rare = _LEAST_SLOW <= times.num_slow <= _MOST_SLOW_SHARE * times.num_calls
    if is_rare and times.slow_share >= _LEAST_TAIL_SHARE and times.is_slow_throughout:
        yield Finding(
            "warning",
            "rare slow calls",
            f"{100 * times.num_slow / times.num_calls:.2g} % of the calls of {method}() take "
            f"{100 * times.slow_share:.0f} % of their time",
            f"{times.num_slow} of {times.num_calls:,} took {times.slow_mean_ns / _MS:.3g} ms on average, half of all "
            f"at most {times.percentiles_ns[0] / _MS:.3g} ms",
            "find out what it does then (sample-profiler capture --tool cprofile of a run): a file that it loads or "
            "writes, a level that it makes; all environments of its worker wait meanwhile",
        )


def _judge_resets(measured: Measurements) -> Iterator[Finding]:
    resets, steps = measured.resets, measured.steps
    if resets is None or steps is None or resets.num_calls < _LEAST_RESETS or resets.mean_ns < _LEAST_RESET_NS:
        return
    share = resets.total_ns / (resets.total_ns + steps.total_ns)
    if share < _MUCH_RESETTING:
        return
    asleep = f"; it sleeps for {100 * resets.asleep_share:.0f} % of that" * (resets.asleep_share >= _LEAST_ASLEEP_SHARE)
    yield Finding(
        "warning",
        "slow resets",
        f"reset() takes {100 * share:.0f} % of the time of episodes of random actions",
        f"{resets.mean_ns / _MS:,.3g} ms, as long as {resets.mean_ns / steps.mean_ns:,.0f} steps{asleep}",
        "load and make in the constructor what stays the same (files, levels, games), and only put it back in reset(): "
        "all environments of its worker wait meanwhile",
    )


def _judge_slowing(times: TimeSummary) -> Iterator[Finding]:
    medians_ns = times.medians_ns
    rises = [later > earlier for earlier, later in pairwise(medians_ns)]
    if not rises or times.num_calls < _LEAST_CALLS or sum(rises) < _LEAST_RISES * len(rises):
        return
    if medians_ns[-1] < max(_LEAST_SLOWER * medians_ns[0], medians_ns[0] + _LEAST_SLOWER_NS):
        return
    yield Finding(
        "warning",
        "slower and slower",
        f"Half of the calls of step() take {medians_ns[-1] / medians_ns[0]:.1f} times as long at the end as at first",
        f"{medians_ns[0] / _MS:.3g} ms, in the end {medians_ns[-1] / _MS:.3g} ms, over {times.num_calls:,} steps",
        "look for what becomes more with each step or episode and is gone through: lists of what has happened, things "
        "in a scene",
    )


def _judge_sleep(times: TimeSummary, sleeps: Mapping[str, float], num_processes: int) -> Iterator[Finding]:
    asleep_ns = times.asleep_share * times.mean_ns
    seen = sum(sleeps.values())
    if times.asleep_share < _LEAST_ASLEEP_SHARE or asleep_ns < _LEAST_ASLEEP_NS or not seen:
        return
    what = max(sleeps, key=lambda each: sleeps[each])
    # Another process computes meanwhile, such as a game, which may be waited for by a lock in shared memory, too.
    if what not in _SLEEPS or (what == "lock" and num_processes):
        return
    words, cure = _SLEEPS[what]
    yield Finding(
        "warning",
        "sleeps",
        f"step() sleeps for {100 * times.asleep_share:.0f} % of its time, mostly for {words}",
        f"{asleep_ns / _MS:.3g} ms of the {times.mean_ns / _MS:.3g} ms of a step; {100 * sleeps[what] / seen:.0f} % of "
        "the sleeps that were seen",
        f"{cure} use many more workers than there are cores (--num_workers): while one sleeps another one computes",
    )


def _judge_threads(measured: Measurements) -> Iterator[Finding]:
    if measured.other_cpu_share > _LEAST_OTHER_CPU:
        yield Finding(
            "warning",
            "busy threads",
            "Other threads of its process compute, too",
            f"they use {measured.other_cpu_share:.1f} cores while it is stepped; it has {measured.num_threads} threads "
            "more than before",
            "give its libraries one thread (OMP_NUM_THREADS=1, torch.set_num_threads(1)): workers share the cores, and "
            "each has one",
        )


def _judge_memory(measured: Measurements) -> Iterator[Finding]:
    episodes = max(1, measured.num_episodes)
    growth, objects, resets = measured.memory_bytes, measured.objects, measured.memory_per_reset_bytes
    cure = "find out what is kept from step to step or from episode to episode, such as a list of what happened, and "
    cure += "clear it in reset(); or use sample-profiler capture --tool memray in a run"
    if growth is not None and growth.total > _LEAST_GROWTH_BYTES and growth.share_of_rises >= _LEAST_RISES:
        per_episodes = growth.per_step * measured.num_steps / episodes * 1000
        yield Finding(
            "warning",
            "memory grows",
            f"Memory grows by {growth.per_step:,.0f} bytes a step, {per_episodes / _MIB:,.1f} MiB in 1,000 episodes",
            f"{growth.total / _MIB:.1f} MiB over {growth.num_steps:,} steps, in {100 * growth.share_of_rises:.0f} % of "
            "the looks",
            cure,
        )
    elif objects is not None and objects.total > _LEAST_GROWTH_OF_OBJECTS and objects.share_of_rises >= _LEAST_RISES:
        yield Finding(
            "warning",
            "memory grows",
            f"It keeps ever more objects: {objects.per_step:.2g} blocks of memory a step",
            f"{objects.total:,.0f} more over {objects.num_steps:,} steps",
            cure,
        )
    elif _is_leak(resets):
        assert resets is not None
        yield Finding(
            "warning",
            "memory grows",
            f"Memory grows by {resets.per_step / 1024:,.0f} KiB with each reset",
            f"{resets.total / _MIB:.1f} MiB over {resets.num_steps:,} resets",
            cure,
        )


def _judge_belongings(measured: Measurements) -> Iterator[Finding]:
    for kind, growth in measured.belongings_per_reset.items():
        if growth is not None and growth.per_step >= _OFTEN and growth.share_of_rises >= _LEAST_RISES:
            yield Finding(
                "warning",
                f"{kind} pile up",
                f"Each reset leaves {kind} behind",
                f"{growth.total:.0f} more after {growth.num_steps} resets",
                f"end or close in reset() what the episode before has begun: a process may have only so many {kind}",
            )


def _is_leak(growth: Growth | None) -> bool:
    return growth is not None and growth.total > _LEAST_GROWTH_BYTES and growth.share_of_rises >= _LEAST_RISES


def _judge_episodes(measured: Measurements) -> Iterator[Finding]:
    if not measured.num_episodes and measured.num_steps >= _LEAST_STEPS_WITHOUT_END:
        yield Finding(
            "warning" if measured.num_steps >= 5 * _LEAST_STEPS_WITHOUT_END else "note",
            "no end",
            "No episode has ended",
            f"in {measured.num_steps:,} steps of random actions",
            "cut episodes off (gymnasium.wrappers.TimeLimit, truncated=True): a run reports rewards of whole episodes",
        )
    if measured.num_stale_resets >= max(_LEAST_EPISODES, _NEARLY_ALL * measured.num_episodes):
        yield Finding(
            "warning",
            "stale reset",
            "reset() returns what the episode before ended with",
            f"the same observation, after {measured.num_stale_resets} of {measured.num_episodes} episodes",
            "compute the observation after everything has been put back, and return that one",
        )
    if not measured.has_moved:
        yield Finding(
            "warning",
            "constant observation",
            "The observation is always the same",
            f"in {measured.num_steps:,} steps",
            "look whether step() returns what it has computed, and not what reset() has made",
        )


def _judge_rewards(measured: Measurements) -> Iterator[Finding]:
    if measured.rewards is None:
        return
    lowest, highest, mean_size = measured.rewards
    if mean_size > _LARGE_REWARD:
        yield Finding(
            "warning",
            "large rewards",
            f"Rewards are of the size of {mean_size:,.3g}",
            f"between {lowest:,.4g} and {highest:,.4g}",
            f"scale them down (--reward_scale={1 / mean_size:.1g}): losses of values and gradients grow with their "
            "square",
        )
    if len(measured.returns) >= _LEAST_EPISODES and len(set(measured.returns)) == 1 and lowest == highest:
        yield Finding(
            "note",
            "constant reward",
            f"All episodes give the same return, {measured.returns[0]:g}, as every reward is {lowest:g}",
            f"in {len(measured.returns)} episodes of {statistics.fmean(measured.lengths):,.0f} random actions",
            "if the reward is rare, see to it that random actions meet it now and then; if not, look how it is made",
        )
