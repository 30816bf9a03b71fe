"""Says in words who had how much memory when it was not enough, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable

from sample_profiler.component_id import rollout_worker_index
from sample_profiler.run.commands.selection import name_some
from sample_profiler.runtime.machine.memory_limits import format_bytes
from sample_profiler.runtime.machine.memory_watch import LackOfMemory, MemoryUse
from sample_profiler.runtime.processes.child_process import Child
from sample_profiler.runtime.processes.failure import ENVIRONMENTS_CURE, NETWORKS_CURE, Failure
from sample_profiler.storage.sampling_plan import SamplingPlan

__all__ = ["describe_end", "describe_envs", "describe_kill", "describe_refusal", "describe_whole", "name_with"]

_GROWN_SHARE = 0.2
_GROWN_BYTES = 64 << 20
_LARGER = 1.5


def describe_envs(component: str, plan: SamplingPlan, env: str) -> str:
    """Return which environments a component steps, in words; empty: none.

    Args:
        component: its name.
        plan: who samples what.
        env: name of the environment.
    """
    worker = rollout_worker_index(component)
    if worker is None:
        return ""
    envs = [index for group in plan.groups_of(worker) for index in group.envs]
    numbers = f"environment {envs[0]}" if len(envs) == 1 else f"environments {envs[0]} to {envs[-1]}"
    return f"{numbers} of {env}"


def name_with(name: str, envs: str) -> str:
    """Return a name of a component or of its process with its environments."""
    return f"{name} ({envs})" if envs else name


def describe_end(
    child: Child, lack: LackOfMemory | None, envs_of: Callable[[str], str], num_earlier: int = 0, *, tells_all: bool
) -> Failure:
    """Return why a process has ended that has not told it.

    Args:
        child: that has ended.
        lack: of memory; None: that was not why.
        envs_of: returns which environments a component steps, in words.
        num_earlier: processes in its place have ended for want of memory within the last hour.
        tells_all: what all others had then, too, and the cure; else only what this one had.
    """
    exit_words = child.describe_exit()
    if lack is None:
        crash = child.describe_crash()
        return Failure(child.name, f"its process {exit_words}", crash, is_crash=bool(crash))
    message = describe_kill(lack, exit_words, envs_of)
    if tells_all:
        message += f"; {describe_whole(lack, envs_of, num_earlier)}"
    return Failure(child.name, message, "", lacks_memory=True)


def describe_kill(lack: LackOfMemory, exit_words: str, envs_of: Callable[[str], str]) -> str:
    """Return why a process has ended.

    Args:
        lack: of memory.
        exit_words: how it has ended, as its exit status says.
        envs_of: returns which environments a component steps, in words.
    """
    process = name_with("its process", envs_of(lack.lost.name))
    if lack.by_kernel:
        return f"{process} was ended by the kernel for want of memory: it had {_describe_use(lack.lost)}"
    used = f"{format_bytes(lack.limit.used)} of {lack.limit.describe()}"
    return f"{process} {exit_words}, probably for want of memory: it had {_describe_use(lack.lost)}, and {used}"


def describe_whole(lack: LackOfMemory, envs_of: Callable[[str], str], num_earlier: int) -> str:
    """Return what all processes of the run had when one was ended, whose growth it is, and what to do about it.

    Args:
        lack: of memory.
        envs_of: returns which environments a component steps, in words.
        num_earlier: processes in its place have ended so within the last hour.
    """
    largest = _find_largest(lack)
    parts = [f"the limit is {lack.limit.describe()}"] if lack.by_kernel else []
    if largest is not lack.lost:
        parts.append(f"most has grown {name_with(largest.name, envs_of(largest.name))}: {_describe_use(largest)}")
    if others := [f"{use.name} {format_bytes(use.num_bytes)}" for use in lack.others if use is not largest]:
        parts.append(f"the others: {name_some(others)}")
    if num_earlier:
        parts.append(_describe_repetition(num_earlier, leaks=largest is lack.lost and _has_grown(largest)))
    cure = NETWORKS_CURE if rollout_worker_index(largest.name) is None else ENVIRONMENTS_CURE
    return f"{'; '.join(parts)}: {cure}"


def describe_refusal(lack: LackOfMemory, title: str, num_earlier: int, *, knows_own_limit: bool) -> str:
    """Return what a process had that was refused memory, or that has lost what it had started; it says itself where.

    Args:
        lack: of memory.
        title: what its component is called, with its environments.
        num_earlier: processes in its place have ended so within the last hour.
        knows_own_limit: whether it says that itself, if it has one.
    """
    parts = ["the kernel has just ended a process of the run for want of memory"] if lack.by_kernel else []
    parts.append(f"{title} had {_describe_use(lack.lost)}")
    if not lack.limit.used:
        parts.append(f"the limit is {lack.limit.describe()}")
    elif not knows_own_limit:
        parts.append(f"it had {format_bytes(lack.limit.used)} of {lack.limit.describe()}, which may be why")
    if num_earlier:
        parts.append(_describe_repetition(num_earlier, leaks=_has_grown(lack.lost)))
    return "; ".join(parts)


def _find_largest(lack: LackOfMemory) -> MemoryUse:
    """Return who has grown most, be it not who was ended: the kernel may choose another one."""
    grown = max(lack.others, key=lambda use: use.recent_bytes, default=lack.lost)
    is_clear = grown.recent_bytes > _LARGER * max(lack.lost.recent_bytes, _GROWN_BYTES)
    return grown if is_clear else lack.lost


def _describe_repetition(num_earlier: int, *, leaks: bool) -> str:
    return f"{num_earlier + 1} processes in its place have ended so within an hour{' (it leaks)' if leaks else ''}"


def _describe_use(use: MemoryUse) -> str:
    started = f" ({format_bytes(use.started_bytes)} of it is what it has started)" if use.started_bytes else ""
    if not _has_grown(use):
        return f"{format_bytes(use.num_bytes)}{started}"
    grown = f"grown from {format_bytes(use.before_bytes)} within {max(use.grown_s, 1):.0f} s"
    return f"{format_bytes(use.num_bytes)}{started}, {grown}"


def _has_grown(use: MemoryUse) -> bool:
    return use.num_bytes - use.before_bytes > max(_GROWN_BYTES, _GROWN_SHARE * use.num_bytes)
