"""Who samples what into which memory; and that a run laid out like that never stalls."""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sample_profiler.config import SamplingOptions
from sample_profiler.errors import ConfigError
from sample_profiler.storage import sampling_plan
from sample_profiler.storage.sampling_plan import (
    SamplingPlan,
    default_policy_of_agent,
    make_sampling_plan,
    register_policy_mapping,
)
from sample_profiler.storage.slot_blocks import SlotBlocks

# The same examples each time: a machine that is slow today is no failure, and neither is a new idea of hypothesis.
QUIET = settings(deadline=None, derandomize=True)
OPTIONS = SamplingOptions(num_workers=2, num_envs_per_worker=4, rollout=8, recurrence=1, batch_size=32)


@st.composite
def runs(draw):
    """Options of all kinds, even odd ones, and a number of agents per environment."""
    rollout = draw(st.sampled_from([1, 3, 8]))
    options = SamplingOptions(
        num_policies=draw(st.sampled_from([1, 1, 2, 3])),
        async_rl=draw(st.booleans()),
        num_batches_to_accumulate=draw(st.integers(1, 3)),
        worker_num_splits=draw(st.integers(1, 3)),
        num_workers=draw(st.integers(1, 4)),
        num_envs_per_worker=draw(st.integers(1, 5)),
        batch_size=rollout * draw(st.sampled_from([1, 2, 3, 5, 8, 16, 31])),
        num_batches_per_epoch=draw(st.integers(1, 2)),
        rollout=rollout,
        recurrence=1,
    )
    return options, draw(st.integers(1, 3))


def make_plan_or_none(options: SamplingOptions, num_agents: int) -> SamplingPlan | None:
    try:
        return make_sampling_plan(options, num_agents)
    except ConfigError:
        num_pairs = options.num_workers * options.num_envs_per_worker - 1 + num_agents
        assert num_pairs < options.num_policies, "there are agents for all policies"
        return None


@settings(QUIET)
@given(runs())
def test_every_environment_and_agent_is_in_exactly_one_group(run):
    options, num_agents = run
    if not (plan := make_plan_or_none(options, num_agents)):
        return
    num_envs = options.num_workers * options.num_envs_per_worker
    assert [env for group in plan.groups for env in group.envs] == list(range(num_envs))
    assert [row for group in plan.groups for row in group.rows] == list(range(num_envs * num_agents))
    assert plan.num_rows == num_envs * num_agents
    assert [group.index for group in plan.groups] == list(range(len(plan.groups)))
    for worker in range(options.num_workers):
        groups = plan.groups_of(worker)
        envs = [env for group in groups for env in group.envs]
        first = worker * options.num_envs_per_worker
        assert envs == list(range(first, first + options.num_envs_per_worker))
        assert len(groups) == min(options.worker_num_splits, options.num_envs_per_worker)
        sizes = [len(group.envs) for group in groups]
        assert max(sizes) - min(sizes) <= 1
    for group in plan.groups:
        pairs = [(env, agent) for env in group.envs for agent in range(num_agents)]
        assert len(group.rows) == len(pairs)
        assert group.policies == tuple(default_policy_of_agent(*pair, options.num_policies) for pair in pairs)
    of_rows = [policy for group in plan.groups for policy in group.policies]
    assert plan.num_agents_of_policy == tuple(Counter(of_rows)[policy] for policy in range(options.num_policies))


@settings(QUIET)
@given(runs())
def test_every_slot_belongs_to_one_worker_and_one_policy(run):
    options, num_agents = run
    if not (plan := make_plan_or_none(options, num_agents)):
        return
    owned = [
        (slot, worker, policy)
        for worker, by_policy in enumerate(plan.worker_slots)
        for policy, slots in enumerate(by_policy)
        for slot in slots
    ]
    assert sorted(slot for slot, _, _ in owned) == list(range(plan.num_slots))
    for slot, worker, policy in owned:
        assert plan.slot_worker[slot] == worker
        assert plan.slot_policy[slot] == policy
    backwards = plan.by_worker(reversed(range(plan.num_slots)))
    assert all(slots == sorted(slots, reverse=True) for slots in backwards.values())
    assert sorted(owned) == sorted(
        (slot, worker, plan.slot_policy[slot]) for worker, slots in backwards.items() for slot in slots
    )
    for group in plan.groups:
        for policy, num_rows in Counter(group.policies).items():
            assert len(plan.first_slots[group.worker][policy]) >= num_rows, "a group could never begin"
    for policy in range(options.num_policies):
        first = [slot for by_policy in plan.first_slots for slot in by_policy[policy]]
        assert sorted([*first, *plan.later_slots(policy)]) == sorted(s for s, _, p in owned if p == policy)
        assert len(first) >= plan.dataset_slots, "the first dataset would never be full"
        assert options.async_rl or not plan.later_slots(policy)


def test_until_the_learner_gives_slots_back_nobody_samples_more_than_one_rollout_beyond_its_first_dataset():
    options = SamplingOptions(num_workers=2, num_envs_per_worker=16, batch_size=2048, rollout=32, recurrence=32)
    plan = make_sampling_plan(options, num_agents=1)
    assert plan.dataset_slots == 64
    assert [[len(slots) for slots in by_policy] for by_policy in plan.first_slots] == [[32 + 16], [32 + 16]]
    assert len(plan.later_slots(0)) == plan.num_slots - 96 == 128
    spread = make_sampling_plan(replace(options, decorrelate_experience_max_seconds=60), num_agents=1)
    assert not spread.later_slots(0), "workers that begin at different times do not wait for the last one"
    assert spread != plan and spread.fingerprint() == plan.fingerprint(), "who has begun does not ask any more"


def test_who_brings_trajectories_of_other_machines_is_one_more_worker_with_slots_for_whole_datasets():
    options = SamplingOptions(num_workers=2, num_envs_per_worker=4, batch_size=64, rollout=8, recurrence=8)
    alone = make_sampling_plan(options, num_agents=1)
    plan = make_sampling_plan(options, num_agents=1, has_remote_worker=True)
    assert (alone.remote_worker, plan.remote_worker) == (None, 2)
    assert (plan.groups, plan.worker_slots[:2], plan.first_slots[:2]) == (
        alone.groups,
        alone.worker_slots,
        alone.first_slots,
    )
    (slots,) = plan.worker_slots[2]
    assert slots == range(alone.num_slots, plan.num_slots) == plan.first_slots[2][0]
    assert len(slots) == 2 * plan.dataset_slots, "what is trained on, and the next"
    assert plan.by_worker(slots) == {2: list(slots)}
    assert plan.later_slots(0) == alone.later_slots(0)


@pytest.mark.parametrize(
    "change", [{"num_workers": 1}, {"num_envs_per_worker": 5}, {"rollout": 4}, {"batch_size": 64}, {"num_policies": 2}]
)
def test_a_run_that_is_laid_out_differently_has_another_fingerprint(change):
    plan = make_sampling_plan(OPTIONS, 1)
    assert make_sampling_plan(OPTIONS, 1).fingerprint() == plan.fingerprint()
    assert make_sampling_plan(replace(OPTIONS, **change), 1).fingerprint() != plan.fingerprint()


@settings(QUIET)
@given(runs())
def test_asynchronous_sampling_goes_on_while_datasets_wait(run):
    """All agents write while the Learner trains on one dataset and `num_batches_to_accumulate` more are ready."""
    options, num_agents = run
    plan = make_plan_or_none(replace(options, async_rl=True), num_agents)
    if not plan:
        return
    rows = Counter(policy for group in plan.groups for policy in group.policies)
    slots = Counter(plan.slot_policy)
    for policy in range(options.num_policies):
        assert slots[policy] >= rows[policy] + plan.dataset_slots * (1 + options.num_batches_to_accumulate)


@pytest.mark.parametrize(
    ("batch_size", "num_batches_per_epoch", "dataset_slots", "num_slots"),
    [
        (64, 1, 8, 8),  # as many trajectories as agents
        (32, 1, 4, 8),  # the agents write two datasets at once
        (64, 2, 16, 16),  # the agents write a dataset in two rounds
    ],
)
def test_synchronous_sampling_never_runs_ahead_of_training_where_sizes_fit(
    batch_size, num_batches_per_epoch, dataset_slots, num_slots
):
    options = replace(
        OPTIONS, async_rl=False, batch_size=batch_size, num_batches_per_epoch=num_batches_per_epoch, worker_num_splits=2
    )
    plan = make_sampling_plan(options, num_agents=1)
    assert plan.dataset_slots == dataset_slots
    assert plan.num_slots == num_slots


@pytest.mark.parametrize("num_policies", [2, 4])
def test_synchronous_sampling_of_several_policies_keeps_to_one_dataset_each_where_sizes_fit(num_policies):
    options = replace(OPTIONS, async_rl=False, num_policies=num_policies, worker_num_splits=1, batch_size=64)
    plan = make_sampling_plan(options, num_agents=1)
    assert Counter(plan.slot_policy) == dict.fromkeys(range(num_policies), plan.dataset_slots)


def test_neighbouring_agents_and_environments_follow_different_policies():
    plan = make_sampling_plan(replace(OPTIONS, num_policies=2, num_workers=1, num_envs_per_worker=2), num_agents=2)
    assert [group.policies for group in plan.groups] == [(0, 1), (1, 0)]


def test_policies_can_be_assigned_otherwise():
    plan = make_sampling_plan(replace(OPTIONS, num_policies=2), 2, lambda env, agent, num_policies: agent)
    assert {group.policies for group in plan.groups} == {(0, 1) * 2}


@pytest.mark.parametrize(
    ("num_policies", "policies"),
    [(2, {(0, 1, 0), (0, 1, 0)}), (3, {(0, 1, 2), (2, 1, 0)}), (4, {(0, 1, 2), (2, 3, 0)})],
)
def test_policies_are_for_the_kinds_of_agents_in_turn(num_policies, policies):
    options = replace(OPTIONS, num_policies=num_policies, num_workers=2, num_envs_per_worker=2, worker_num_splits=2)
    plan = make_sampling_plan(options, num_agents=3, kinds=(0, 1, 0))
    assert {group.policies for group in plan.groups} == policies
    assert [plan.agent_of(policy) for policy in range(2)] == [0, 1]


def test_a_policy_that_is_looked_at_plays_all_agents_of_its_kind_and_no_others():
    plan = make_sampling_plan(replace(OPTIONS, num_policies=4), num_agents=3, kinds=(0, 1, 0))
    assert [plan.cast(policy, (0, 1, 0)) for policy in range(4)] == [(0, 1, 0), (0, 1, 2), (2, 1, 2), (0, 3, 2)]


def test_too_few_policies_for_the_kinds_of_agents_are_an_error_with_the_number_that_is_enough():
    with pytest.raises(ConfigError, match=r"--num_policies=1: .* 2 kinds .* agent 0, agent 1.*use --num_policies=2"):
        make_sampling_plan(OPTIONS, num_agents=3, kinds=(0, 1, 0))


def test_a_mapping_that_gives_a_policy_agents_of_two_kinds_is_an_error():
    options = replace(OPTIONS, num_policies=2)
    with pytest.raises(ConfigError, match="agents 0 and 1 follow policy 1, and their spaces differ"):
        make_sampling_plan(options, 3, lambda env, agent, num_policies: 1 if agent < 2 else 0, kinds=(0, 1, 0))


@pytest.mark.parametrize("async_rl", [True, False])
def test_a_policy_without_any_agent_is_an_error_that_names_the_flag_and_the_cure(async_rl):
    options = replace(OPTIONS, num_policies=3, num_workers=1, num_envs_per_worker=1, async_rl=async_rl)
    with pytest.raises(ConfigError, match=r"--num_policies=3: policy 1 has no agent.*fewer policies or more envs"):
        make_sampling_plan(options, num_agents=1)


class Simulation:
    """Groups, Batchers and Learners of a run, moving slots about as they do, in an order that chance decides.

    Chance also makes workers and Learners much slower than others for a while: stalls hide where all keep pace.
    """

    speeds = (0.01, 0.3, 1.0, 10.0)

    def __init__(self, options: SamplingOptions, plan: SamplingPlan, seed: int) -> None:
        self.plan = plan
        self.random = random.Random(seed)
        self.policies = range(options.num_policies)
        self.max_datasets = 1 + options.num_batches_to_accumulate if options.async_rl else 1
        self.free = [[deque(slots) for slots in by_policy] for by_policy in plan.first_slots]
        self.blocks = [SlotBlocks(plan.block_size) for _ in range(options.num_workers)]
        self.waiting = [deque(plan.groups_of(worker)) for worker in range(options.num_workers)]
        self.running = []
        self.finished = [deque() for _ in self.policies]
        self.at_learner = [deque() for _ in self.policies]
        self.num_trained = [0 for _ in self.policies]
        self.in_use: set[int] = set()
        self.draw_speeds()

    def draw_speeds(self) -> None:
        self.worker_speed = [self.random.choice(self.speeds) for _ in self.waiting]
        self.learner_speed = [self.random.choice(self.speeds) for _ in self.policies]

    def run(self, num_datasets: int) -> bool:
        """Go on until each policy has been trained on so many datasets; return whether it never stalled."""
        while min(self.num_trained) < num_datasets:
            if self.random.random() < 0.02:
                self.draw_speeds()
            self.begin_rollouts()
            actions = [
                (self.finish_rollout, index, self.worker_speed[r[0].worker]) for index, r in enumerate(self.running)
            ]
            actions += [(self.train, p, self.learner_speed[p]) for p in self.policies if self.at_learner[p]]
            if not actions:
                return False
            act, argument, _ = self.random.choices(actions, [action[2] for action in actions])[0]
            act(argument)
            self.make_datasets()
        return True

    def begin_rollouts(self) -> None:
        for worker, waiting in enumerate(self.waiting):
            free = self.free[worker]
            while waiting and all(len(free[p]) >= n for p, n in Counter(waiting[0].policies).items()):
                group = waiting.popleft()
                slots = [free[policy].popleft() for policy in group.policies]
                assert not self.in_use & set(slots), "two trajectories in one slot"
                if self.plan.block_size > 1:
                    assert slots == list(range(slots[0], slots[0] + len(group.rows))), "one block"
                self.in_use |= set(slots)
                self.running.append((group, slots))

    def finish_rollout(self, index: int) -> None:
        group, slots = self.running.pop(index)
        self.waiting[group.worker].append(group)
        for policy, slot in zip(group.policies, slots, strict=True):
            assert self.plan.slot_policy[slot] == policy
            self.finished[policy].append(slot)

    def train(self, policy: int) -> None:
        for slot in (trained := self.at_learner[policy].popleft()):
            self.in_use.remove(slot)
        back = [*trained, *([] if self.num_trained[policy] else self.plan.later_slots(policy))]
        for worker, slots in self.plan.by_worker(back).items():
            for slot in self.blocks[worker].add(slots):
                self.free[worker][self.plan.slot_policy[slot]].append(slot)
        self.num_trained[policy] += 1

    def make_datasets(self) -> None:
        size = self.plan.dataset_slots
        for finished, at_learner in zip(self.finished, self.at_learner, strict=True):
            while len(finished) >= size and len(at_learner) < self.max_datasets:
                at_learner.append([finished.popleft() for _ in range(size)])


@settings(QUIET, max_examples=400)
@given(runs(), st.integers(0, 2**32))
def test_no_run_ever_stalls(run, seed):
    options, num_agents = run
    if plan := make_plan_or_none(options, num_agents):
        assert Simulation(options, plan, seed).run(num_datasets=25)


STALLED_ONCE = [
    (dict(num_policies=2, worker_num_splits=3, num_workers=2, num_envs_per_worker=4, batch_size=31), 1),
    (dict(num_policies=2, worker_num_splits=2, num_workers=4, num_envs_per_worker=2, batch_size=8), 1),
    (dict(num_policies=3, worker_num_splits=2, num_workers=3, num_envs_per_worker=3, batch_size=62), 1),
    (dict(num_policies=3, worker_num_splits=3, num_workers=4, num_envs_per_worker=3, batch_size=32), 1),
]


@pytest.mark.usefixtures("_own_mapping")
def test_policies_of_unlike_shares_do_not_wait_for_each_other_for_ever():
    """The policy with many agents has been trained, and has all its slots, long before the other one."""
    register_policy_mapping(lambda env, agent, num_policies: min(agent, 1))
    options = SamplingOptions(
        num_policies=2,
        rollout=1,
        recurrence=1,
        num_workers=4,
        num_envs_per_worker=1,
        worker_num_splits=1,
        batch_size=64,
    )
    plan = make_sampling_plan(options, num_agents=9)
    assert all(Simulation(options, plan, seed).run(num_datasets=30) for seed in range(40))


@pytest.mark.parametrize(("flags", "num_agents"), STALLED_ONCE)
def test_synchronous_runs_of_several_policies_do_not_wait_for_each_other_for_ever(flags, num_agents):
    """Each worker has free slots of the policy that another worker waits for: easy to get wrong."""
    options = SamplingOptions(async_rl=False, rollout=1, recurrence=1, **flags)
    plan = make_sampling_plan(options, num_agents)
    assert all(Simulation(options, plan, seed).run(num_datasets=30) for seed in range(20))


def test_the_simulation_sees_a_stall():
    options = SamplingOptions(
        num_policies=2, async_rl=False, rollout=1, recurrence=1, num_workers=2, num_envs_per_worker=3, batch_size=16
    )
    plan = make_sampling_plan(options, num_agents=1)
    few = tuple(tuple(range(slots.start, slots.start + 5) for slots in by_policy) for by_policy in plan.worker_slots)
    assert not Simulation(options, replace(plan, worker_slots=few, first_slots=few), seed=0).run(num_datasets=20)


@pytest.fixture
def _own_mapping(monkeypatch):
    monkeypatch.setattr(sampling_plan, "_registered", [])


@pytest.mark.usefixtures("_own_mapping")
def test_a_registered_mapping_decides_who_follows_which_policy():
    sampling = replace(OPTIONS, num_policies=2, num_workers=1, num_envs_per_worker=2, worker_num_splits=2)
    register_policy_mapping(lambda env, agent, num_policies: num_policies - 1 if agent else 0)
    plan = make_sampling_plan(sampling, num_agents=3)
    assert [group.policies for group in plan.groups] == [(0, 1, 1)] * len(plan.groups)


@pytest.mark.usefixtures("_own_mapping")
@pytest.mark.parametrize("answer", [2, -1, None])
def test_a_mapping_to_a_policy_that_is_not_there_is_an_error(answer):
    sampling = replace(OPTIONS, num_policies=2, num_workers=1, num_envs_per_worker=2, worker_num_splits=2)
    register_policy_mapping(lambda *_: answer)
    with pytest.raises(ConfigError, match=rf"gives policy {answer}; there are policies 0 to 1"):
        make_sampling_plan(sampling, num_agents=1)


@pytest.mark.usefixtures("_own_mapping")
def test_a_mapping_that_raises_is_an_error():
    register_policy_mapping(lambda *_: {}["nothing"])
    with pytest.raises(ConfigError, match="the registered mapping raised KeyError: 'nothing'"):
        make_sampling_plan(OPTIONS, num_agents=1)
