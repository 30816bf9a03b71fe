"""Owns the arithmetic of who samples what into which memory: fixed for a run, the same in every process.

Workers are numbered; where trajectories come from other machines, too, whoever brings them counts as one more worker,
who has slots and no group.

Terms: an *agent row* is one agent of one environment, numbered over the whole run; a *group* is the part of a worker's
environments that steps as one vector; a *slot* holds one trajectory of one agent row. Every slot belongs to one worker
and one policy for the whole run, so a lost worker takes nothing with it that others need, and nobody allocates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace

from sample_profiler.config import SamplingOptions
from sample_profiler.errors import FROM_OUTSIDE, ConfigError, describe_error

__all__ = [
    *("Group", "PolicyOfAgent", "SamplingPlan", "default_policy_of_agent", "make_sampling_plan"),
    "register_policy_mapping",
]

_NUM_REMOTE_DATASETS = 2
"""Of other machines that lie in memory: one that is trained on, and the next. More would only grow old: actors have
memory of their own, and one dataset of each waits for room here."""

PolicyOfAgent = Callable[[int, int, int], int]
"""(environment index over the run, agent index within it, number of policies) → policy."""


def default_policy_of_agent(env_index: int, agent_index: int, num_policies: int) -> int:
    """Let neighbouring agents, and the agents of neighbouring environments, follow different policies."""
    return (env_index + agent_index) % num_policies


_registered: list[PolicyOfAgent] = []


def register_policy_mapping(policy_of_agent: PolicyOfAgent) -> None:
    """Decide which agent follows which policy; it stays so for the whole run.

    Args:
        policy_of_agent: called for every agent as `policy_of_agent(env_index, agent_index, num_policies)`, where
            environments are counted over the run; returns the number of a policy, below num_policies (another one is a
            `ConfigError` when the run begins). Called in the main process alone.

    Raises:
        ConfigError: it cannot be called.
    """
    if not callable(policy_of_agent):
        raise ConfigError([f"cannot register {policy_of_agent!r} as mapping of policies: give a function"])
    _registered[:] = [policy_of_agent]


@dataclass(frozen=True)
class Group:
    """Environments of one worker that step together.

    Attributes:
        index: over the whole run.
        worker: index of the worker.
        envs: their indices over the whole run.
        rows: their agent rows, environment by environment.
        policies: of each row.
    """

    index: int
    worker: int
    envs: range
    rows: range
    policies: tuple[int, ...]


@dataclass(frozen=True)
class SamplingPlan:
    """Groups, agent rows and slots of a run.

    Attributes:
        num_agents: agents per environment.
        rollout: steps in a trajectory.
        groups: all groups, in the order of their indices.
        worker_slots: for each worker, for each policy, the slots that belong to it.
        first_slots: those of them that may be filled before the Learner gives the first slots of the run back. To
            sample further ahead would keep it from the processors for its first step, the longest of all.
        slot_worker: for each slot, the worker that it belongs to.
        slot_policy: for each slot, the policy that it belongs to.
        dataset_slots: trajectories that a Learner trains on at once (`num_batches_per_epoch` batches).
    """

    num_agents: int
    rollout: int
    groups: tuple[Group, ...]
    worker_slots: tuple[tuple[range, ...], ...]
    first_slots: tuple[tuple[range, ...], ...]
    slot_worker: tuple[int, ...]
    slot_policy: tuple[int, ...]
    dataset_slots: int

    @property
    def remote_worker(self) -> int | None:
        """The worker whose slots are filled with trajectories of other machines; None: there is none."""
        last = len(self.worker_slots) - 1
        return None if self.groups[-1].worker == last else last

    @property
    def num_rows(self) -> int:
        """Number of agents of all environments."""
        return self.groups[-1].rows.stop

    @property
    def num_slots(self) -> int:
        """Number of trajectories that fit in memory."""
        return len(self.slot_worker)

    @property
    def num_agents_of_policy(self) -> tuple[int, ...]:
        """Number of agents of all environments that follow each policy."""
        policies = [policy for group in self.groups for policy in group.policies]
        return tuple(policies.count(policy) for policy in range(len(self.worker_slots[0])))

    @property
    def block_size(self) -> int:
        """Number of neighbouring slots that a group takes together: all of its own, where each is one vector; else 1.

        All agents then follow one policy, and block b begins with slot b * block_size.
        """
        is_one_policy = len(self.worker_slots[0]) == 1
        return self.num_agents if is_one_policy and all(len(group.envs) == 1 for group in self.groups) else 1

    def agent_of(self, policy: int) -> int:
        """Return the first agent, counted within its environment, that follows a policy."""
        return next(group.policies.index(policy) % self.num_agents for group in self.groups if policy in group.policies)

    def cast(self, policy: int, kinds: Sequence[int]) -> tuple[int, ...]:
        """Return which policy plays each agent of an environment in which one policy is looked at.

        It plays all agents that it can play, those of its kind; the others follow the policies that they do in the
        first environment of the run.

        Args:
            policy: that is looked at.
            kinds: of each agent: of one kind are those whose spaces are equal.
        """
        own = kinds[self.agent_of(policy)]
        others = self.groups[0].policies[: self.num_agents]
        return tuple(policy if kind == own else other for kind, other in zip(kinds, others, strict=True))

    def groups_of(self, worker: int) -> list[Group]:
        """Return the groups of one worker."""
        return [group for group in self.groups if group.worker == worker]

    def later_slots(self, policy: int) -> list[int]:
        """Return the slots of a policy that may be filled only when its Learner has given slots back."""
        pairs = zip(self.worker_slots, self.first_slots, strict=True)
        return [slot for slots, first in pairs for slot in slots[policy] if slot not in first[policy]]

    def fingerprint(self) -> str:
        """Return what plans have in common between which a run may go on where it was: all but who begins with what."""
        lasting = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "first_slots"}
        return hashlib.sha256(repr(lasting).encode()).hexdigest()

    def by_worker(self, slots: Iterable[int]) -> dict[int, list[int]]:
        """Return slots by the worker that they belong to, of each in the order given."""
        found: dict[int, list[int]] = {}
        for slot in slots:
            found.setdefault(self.slot_worker[slot], []).append(slot)
        return found


def make_sampling_plan(
    sampling: SamplingOptions,
    num_agents: int,
    policy_of_agent: PolicyOfAgent | None = None,
    *,
    kinds: Sequence[int] = (),
    has_remote_worker: bool = False,
) -> SamplingPlan:
    """Lay out a run.

    Args:
        sampling: its part of the configuration.
        num_agents: of one environment.
        policy_of_agent: who follows which policy; None: what was registered, else `default_policy_of_agent`.
        kinds: of each agent of an environment, counted from 0: agents of one kind have equal spaces, and no policy is
            followed by agents of two; empty: all are of one.
        has_remote_worker: whether trajectories of other machines come, too, in whole datasets.

    Raises:
        ConfigError: a policy has no agent, or agents of several kinds, or an agent no policy.
    """
    kinds = kinds or (0,) * num_agents
    if policy_of_agent is None:
        policy_of_agent = _registered[0] if _registered else _default_mapping(kinds, sampling.num_policies)
    groups = _make_groups(sampling, num_agents, policy_of_agent)
    _check_kinds(groups, kinds)
    dataset_slots = sampling.batch_size * sampling.num_batches_per_epoch // sampling.rollout
    slot_worker: list[int] = []
    slot_policy: list[int] = []
    num_workers = sampling.num_workers + has_remote_worker
    worker_slots: list[list[range]] = [[] for _ in range(num_workers)]
    first_slots: list[list[range]] = [[] for _ in range(num_workers)]
    num_remote = _NUM_REMOTE_DATASETS * dataset_slots if has_remote_worker else 0
    for policy in range(sampling.num_policies):
        counts = _count_slots(sampling, groups, policy, dataset_slots)
        first_counts = counts
        if (
            not sampling.decorrelate_experience_max_seconds
        ):  # else workers begin at different times, and are to go on so
            first_counts = _count_slots(replace(sampling, num_batches_to_accumulate=0), groups, policy, dataset_slots)
        if has_remote_worker:
            counts, first_counts = [*counts, num_remote], [*first_counts, num_remote]
        for worker, (count, first_count) in enumerate(zip(counts, first_counts, strict=True)):
            start = len(slot_worker)
            slot_worker.extend([worker] * count)
            slot_policy.extend([policy] * count)
            worker_slots[worker].append(range(start, start + count))
            first_slots[worker].append(range(start, start + first_count))
    return SamplingPlan(
        num_agents=num_agents,
        rollout=sampling.rollout,
        groups=tuple(groups),
        worker_slots=tuple(tuple(ranges) for ranges in worker_slots),
        first_slots=tuple(tuple(ranges) for ranges in first_slots),
        slot_worker=tuple(slot_worker),
        slot_policy=tuple(slot_policy),
        dataset_slots=dataset_slots,
    )


def _default_mapping(kinds: Sequence[int], num_policies: int) -> PolicyOfAgent:
    """Return the mapping where none was registered: policies are for the kinds of agents in turn.

    Raises:
        ConfigError: there are fewer policies than kinds.
    """
    num_kinds = max(kinds) + 1
    if num_kinds == 1:
        return default_policy_of_agent
    if num_policies < num_kinds:
        firsts = ", ".join(f"agent {kinds.index(kind)}" for kind in range(num_kinds))
        raise ConfigError(
            [
                f"--num_policies={num_policies}: the agents of an environment have {num_kinds} kinds of spaces (the "
                f"first of each: {firsts}), and a policy is of one kind: use --num_policies={num_kinds} or more"
            ]
        )
    places = [list(kinds[:agent]).count(kind) for agent, kind in enumerate(kinds)]  # of agents among their kind

    def policy_of_agent(env_index: int, agent_index: int, num_policies: int) -> int:
        policies = range(kinds[agent_index], num_policies, num_kinds)
        return policies[default_policy_of_agent(env_index, places[agent_index], len(policies))]

    return policy_of_agent


def _check_kinds(groups: Sequence[Group], kinds: Sequence[int]) -> None:
    """Find a policy that agents of two kinds follow.

    Raises:
        ConfigError: there is one.
    """
    first_agents: dict[int, int] = {}
    for group in groups if any(kinds) else ():
        for row, policy in enumerate(group.policies):
            agent = row % len(kinds)
            first = first_agents.setdefault(policy, agent)
            if kinds[agent] != kinds[first]:
                problem = (
                    f"the registered mapping lets agents {first} and {agent} follow policy {policy}, and their spaces "
                )
                raise ConfigError([f"{problem}differ: give each of them a policy of its own"])


def _make_groups(sampling: SamplingOptions, num_agents: int, policy_of_agent: PolicyOfAgent) -> list[Group]:
    groups: list[Group] = []
    splits = min(sampling.worker_num_splits, sampling.num_envs_per_worker)
    first_env = 0
    for worker in range(sampling.num_workers):
        for split in range(splits):
            num_envs = sampling.num_envs_per_worker // splits + (split < sampling.num_envs_per_worker % splits)
            envs = range(first_env, first_env + num_envs)
            try:
                policies = tuple(
                    policy_of_agent(env, agent, sampling.num_policies) for env in envs for agent in range(num_agents)
                )
            except FROM_OUTSIDE:
                raise
            except BaseException as error:
                raise ConfigError([f"the registered mapping raised {describe_error(error)}"]) from error
            unknown = [policy for policy in policies if policy not in range(sampling.num_policies)]
            if unknown:
                problem = f"the registered mapping gives policy {unknown[0]!r}; there are policies 0 to "
                raise ConfigError([f"{problem}{sampling.num_policies - 1} (--num_policies={sampling.num_policies})"])
            rows = range(envs.start * num_agents, envs.stop * num_agents)
            groups.append(Group(len(groups), worker, envs, rows, policies))
            first_env = envs.stop
    return groups


def _count_slots(sampling: SamplingOptions, groups: list[Group], policy: int, dataset_slots: int) -> list[int]:
    """Return how many slots of `policy` each worker gets.

    Asynchronous: every agent writes one trajectory while the Learner trains on one dataset, `num_batches_to_accumulate`
    more are ready, and the next is being filled. Synchronous: no more than one dataset's worth beyond what the agents
    write, so that new trajectories begin only when the old ones were trained on.

    In both cases a group that waits for slots can always be served in the end: when all groups wait, fewer slots than
    one group needs are free at each worker, so the others make up at least one dataset, which the Learner gives back.
    """
    rows = [[g.policies.count(policy) for g in groups if g.worker == w] for w in range(sampling.num_workers)]
    num_rows = sum(map(sum, rows))
    if num_rows == 0:
        raise ConfigError(
            [f"--num_policies={sampling.num_policies}: policy {policy} has no agent: use fewer policies or more envs"]
        )
    if sampling.async_rl:
        wanted = num_rows + dataset_slots * (sampling.num_batches_to_accumulate + 1)
    else:
        wanted = -(-max(num_rows, dataset_slots) // dataset_slots) * dataset_slots
        group_sizes = {size for sizes in rows for size in sizes if size}
        aligned = len(group_sizes) == 1 and dataset_slots % group_sizes.copy().pop() == 0
        if not aligned:
            wanted = max(wanted, dataset_slots + sum(max(sizes) - 1 for sizes in rows if max(sizes)))
    # Shares in proportion to the agents, in whole trajectories for each of them.
    per_row = -(-wanted // num_rows)
    counts = [per_row * sum(sizes) for sizes in rows]
    if sampling.num_policies == 1 or (not sampling.async_rl and _is_one_dataset_each(sampling, groups, dataset_slots)):
        return counts
    # A group that waits for slots of another policy holds free ones of this policy up, so what the waiting groups lack
    # has to make up a dataset of at least one policy, however they are divided between the policies.
    num_rows_of = [sum(len(g.rows) for g in groups if g.worker == w) for w in range(sampling.num_workers)]
    needed = sampling.num_policies * dataset_slots
    return [
        max(count, -(-needed * num // sum(num_rows_of)) + max(sizes) - 1) if count else 0
        for count, num, sizes in zip(counts, num_rows_of, rows, strict=True)
    ]


def _is_one_dataset_each(sampling: SamplingOptions, groups: list[Group], dataset_slots: int) -> bool:
    """Tell whether whole rounds of equal groups make one dataset of each policy: all slots then come back at once."""
    num_rows = [sum(g.policies.count(policy) for g in groups) for policy in range(sampling.num_policies)]
    are_equal = len({tuple(sorted(group.policies)) for group in groups}) == 1
    return are_equal and all(num and dataset_slots % num == 0 for num in num_rows)
