"""The RolloutWorker, alone and together with Batchers, in one process and in an order that chance decides."""

from __future__ import annotations

import contextlib
import random
from collections import defaultdict

import numpy as np
import pytest

from sample_profiler.components.batcher import Batcher, BatcherPorts
from sample_profiler.components.messages import Counters, EpisodesFinished
from sample_profiler.components.rollout_worker import env_times, stepping_group
from sample_profiler.components.rollout_worker import worker as rollout_worker
from sample_profiler.components.rollout_worker.worker import RolloutWorker, RolloutWorkerOptions, RolloutWorkerPorts
from sample_profiler.config import SamplingOptions
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.errors import EnvError
from sample_profiler.profiling.record.flows import REQUEST, STEP, flow_point
from sample_profiler.runtime.machine.children_time import ChildrenTime
from sample_profiler.runtime.messages.channels import LocalChannel, LocalReports
from sample_profiler.runtime.messages.heartbeats import Heartbeat


class LocalRun:
    """RolloutWorkers and Batchers over queues; inference and Learner are whoever tests.

    Args:
        make_run: the fixture.
        make_env: (index over the run, index within the worker) → environment.
        value_bootstrap, num_agents, options: as for a run.
    """

    def __init__(self, make_run, make_env, *, value_bootstrap=True, num_agents=1, **options):
        self.plan, self.memory = make_run(num_agents=num_agents, **options)
        small = {"num_workers": 1, "num_envs_per_worker": 2, "rollout": 4, "batch_size": 8, "recurrence": 1}
        self.sampling = SamplingOptions(**(small | options))
        workers, policies = range(self.sampling.num_workers), range(self.sampling.num_policies)
        self.counters = Counters(len(workers), len(policies))
        self.actions = [LocalChannel() for _ in workers]
        self.free = [LocalChannel() for _ in workers]
        self.requests, self.finished, self.datasets, self.trained = ([LocalChannel() for _ in policies] for _ in "rfdt")
        self.reports = LocalReports()
        self.workers = [
            RolloutWorker(
                worker, self.plan,
                RolloutWorkerOptions(self.sampling, value_bootstrap, 4, BadNumbers("scripted", stops=False)),
                make_env, self.memory, self.counters,
                RolloutWorkerPorts(self.actions[worker], self.free[worker], self.requests, self.finished, self.reports),
            )
            for worker in workers
        ]  # fmt: skip
        max_datasets = 1 + self.sampling.num_batches_to_accumulate if self.sampling.async_rl else 1
        self.batchers = [
            Batcher(
                policy, self.plan, max_datasets,
                BatcherPorts(self.finished[policy], self.trained[policy], self.datasets[policy], self.free),
            )
            for policy in policies
        ]  # fmt: skip
        self.inputs = [i for component in (*self.workers, *self.batchers) for i in component.inputs()]
        self.waiting_requests = [[] for _ in policies]
        self.at_learner = [[] for _ in policies]

    def start(self) -> None:
        for worker in self.workers:
            worker.start()

    def dispatch(self) -> bool:
        """Hand over what is in the workers' and Batchers' channels; return whether there was anything."""
        found = False
        for source in self.inputs:
            if values := source.source.receive():
                source.handle(values)
                found = True
        return found

    def answer(self, policy: int, group: int) -> None:
        """Write actions and states for the rows of a group that follow a policy, as inference does."""
        spec, memory, step = self.plan.groups[group], self.memory, self.memory.group_step[group]
        for row, row_policy in zip(spec.rows, spec.policies, strict=True):
            if row_policy == policy:
                slot = memory.row_slot[row]
                assert self.plan.slot_policy[slot] == policy
                assert self.plan.slot_worker[slot] == spec.worker
                memory.actions[slot, step] = 1
                memory.states[slot, step + 1] = memory.states[slot, step] + 1  # counts the steps of the episode
                if memory.final_step[row]:
                    memory.final_values[slot, memory.final_step[row] - 1] = memory.final_observations["place"][row][2]
                    memory.final_step[row] = 0
        self.actions[spec.worker].send([group])


def make_envs(make_env, **arguments):
    envs = {}

    def make(index, _):
        envs[index] = make_env(index, **arguments)
        return envs[index]

    return envs, make


@pytest.fixture
def local_run(make_run, make_env):
    def make(**options):
        arguments = {name: options.pop(name) for name in ("lengths", "end") if name in options}
        envs, make = make_envs(make_env, num_agents=options.get("num_agents", 1), **arguments)
        run = LocalRun(make_run, make, **options)
        run.envs = envs
        return run

    return make


def test_every_group_asks_for_its_first_actions_at_once(local_run):
    run = local_run(num_envs_per_worker=5, worker_num_splits=2)
    run.start()
    assert run.requests[0].receive() == [0, 1]
    assert run.memory.group_step.tolist() == [0, 0]
    slots = run.memory.row_slot.tolist()
    assert len(set(slots)) == 5
    assert [run.memory.observations["place"][slot, 0, 0] for slot in slots] == [0, 1, 2, 3, 4]


def test_environments_know_their_place_in_the_run_and_in_the_worker(make_run, make_env):
    calls = []

    def make(index, index_in_worker):
        calls.append((index, index_in_worker))
        return make_env(index)

    LocalRun(make_run, make, num_workers=2, num_envs_per_worker=3, worker_num_splits=2)
    assert calls == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (5, 2)]


def test_a_group_steps_when_all_its_policies_have_answered_and_not_before(local_run):
    run = local_run(num_policies=2, num_envs_per_worker=2, decorrelate_envs_on_one_worker=False)
    run.start()
    assert [channel.receive() for channel in run.requests] == [[0], [0]]
    run.answer(1, 0)
    run.dispatch()
    assert [env.actions for env in run.envs.values()] == [[], []]
    run.answer(0, 0)
    run.dispatch()
    assert [env.actions for env in run.envs.values()] == [[[1]], [[1]]]
    assert [channel.receive() for channel in run.requests] == [[0], [0]]
    assert run.memory.group_step.tolist() == [1]


def test_groups_step_independently_of_each_other(local_run):
    run = local_run(num_envs_per_worker=2, worker_num_splits=2)
    run.start()
    run.requests[0].receive()
    for step in range(3):
        run.answer(0, 1)
        run.dispatch()
        assert run.requests[0].receive() == [1]
        assert run.memory.group_step.tolist() == [0, step + 1]


class Sends(LocalChannel):
    """Keeps each message apart, with how many steps the environments had taken when it was sent."""

    def __init__(self, run):
        super().__init__()
        self.run, self.messages = run, []

    def send(self, values):
        self.messages.append((list(values), sum(len(env.actions) for env in self.run.envs.values())))
        super().send(self.messages[-1][0])


@pytest.mark.parametrize(
    ("steps_ns", "expected"),
    [
        ((0, 0), [([0, 1], 2)]),
        ((10**9, 0), [([0, 1], 2)]),  # the first has nobody to wait for
        ((0, 10**9), [([0], 1), ([1], 2)]),  # inference works for the first while the second steps
    ],
)
def test_groups_whose_actions_come_together_ask_together_if_they_step_quickly(local_run, steps_ns, expected):
    run = local_run(num_envs_per_worker=2, worker_num_splits=2, decorrelate_envs_on_one_worker=False)
    run.start()
    for group in run.requests[0].receive():
        run.answer(0, group)
    (worker,) = run.workers
    for group, step_ns in zip(worker._groups.values(), steps_ns, strict=True):
        group.step_ns = step_ns
    run.requests[0] = sends = Sends(run)
    worker._on_actions(run.actions[0].receive())
    assert sends.messages == expected


def test_each_policy_gets_one_message_for_all_groups(local_run):
    run = local_run(num_policies=2, num_envs_per_worker=4, worker_num_splits=2, decorrelate_envs_on_one_worker=False)
    run.start()
    for policy in range(2):
        for group in run.requests[policy].receive():
            run.answer(policy, group)
    run.requests[:] = [Sends(run), Sends(run)]
    run.workers[0]._on_actions(run.actions[0].receive())
    assert [[groups for groups, _ in sends.messages] for sends in run.requests] == [[[0, 1]], [[0, 1]]]


class Noting:
    """A Timing that notes which blocks are open at each point of a flow."""

    def __init__(self, timing):
        self.timing, self.open, self.marked = timing, [], []

    @contextlib.contextmanager
    def add_time(self, key, *, device=False):
        self.open.append(key)
        with self.timing.add_time(key, device=device):
            yield
        self.open.pop()

    def mark_flow(self, point):
        self.marked.append((point, tuple(self.open)))


def test_points_of_flows_lie_in_blocks(local_run):
    """A timeline keeps a point with the block that it lies in, and none that lies in no block."""
    run = local_run(num_envs_per_worker=2, worker_num_splits=2, rollout=2, decorrelate_envs_on_one_worker=False)
    (worker,) = run.workers
    worker.timing = noting = Noting(worker.timing)
    run.start()
    for _ in range(2):
        for group in run.requests[0].receive():
            run.answer(0, group)
        run.dispatch()
    assert all(blocks for _, blocks in noting.marked)
    requests = [flow_point(STEP, REQUEST, group) for group in range(2)]
    asked = [(point, blocks) for point, blocks in noting.marked if point in requests]
    assert asked == [(point, ("enqueue_policy_requests",)) for point in requests] * (len(asked) // 2)
    assert len(asked) >= 4


def test_how_long_a_group_steps_is_an_average(local_run, monkeypatch):
    run = local_run(num_envs_per_worker=1, decorrelate_envs_on_one_worker=False)
    run.start()
    (group,) = run.workers[0]._groups.values()
    averages = []
    for duration_ns in (800, 1600, 800):
        ticks = iter([0, 0, 0, duration_ns])  # the step begins, the environment does, it ends, the step ends
        monkeypatch.setattr(stepping_group, "perf_counter_ns", ticks.__next__)
        run.answer(0, 0)
        run.dispatch()
        averages.append(group.step_ns)
    assert averages == [800, 900, 887.5]


def test_finished_trajectories_go_to_the_batcher_of_their_policy(local_run):
    run = local_run(num_policies=2, num_envs_per_worker=3, rollout=1, batch_size=100)
    run.start()
    slots = run.memory.row_slot.tolist()
    for policy in range(2):
        run.answer(policy, 0)
    run.inputs[0].handle(run.actions[0].receive())
    assert run.finished[0].receive() == [slots[0], slots[2]]
    assert run.finished[1].receive() == [slots[1]]


def test_a_worker_without_free_slots_waits_and_says_so(local_run):
    run = local_run(async_rl=False, num_envs_per_worker=2, worker_num_splits=2, rollout=1, batch_size=2)
    (worker,) = run.workers
    run.start()
    assert worker.wait_block() == "wait_inference"
    assert worker.gauges().items() >= {"free_slots": 0, "waiting_groups": 0}.items()
    for group in run.requests[0].receive():
        run.answer(0, group)
    run.dispatch()
    dataset = run.datasets[0].receive()
    assert len(dataset) == 2
    assert run.requests[0].receive() == []
    assert worker.wait_block() == "wait_for_trajectories"
    assert worker.gauges().items() >= {"free_slots": 0, "waiting_groups": 2}.items()
    run.trained[0].send(dataset)
    while run.dispatch():
        pass
    assert run.requests[0].receive() == [0, 1]
    assert worker.wait_block() == "wait_inference"


@pytest.mark.parametrize("seconds", [1.5, None])
def test_a_worker_tells_the_time_of_the_games_that_it_has_started(local_run, monkeypatch, seconds):
    monkeypatch.setattr(ChildrenTime, "seconds", lambda _: seconds)
    (worker,) = local_run().workers
    assert worker.gauges().get("children_cpu_s") == seconds


def test_the_slowest_environment_is_that_of_the_last_seconds(local_run, monkeypatch):
    monkeypatch.setattr(env_times, "_APART_S", 0.0)
    monkeypatch.setattr(env_times, "_FEWEST_STEPS", 0)
    run = local_run(num_envs_per_worker=3, worker_num_splits=2)
    run.start()
    (worker,) = run.workers

    def step(*times_ns):
        groups = worker._groups.values()
        places = [(group, i) for group in groups for i in range(len(group.env_ns))]
        for (group, i), time_ns in zip(places, times_ns, strict=True):
            group.env_ns[i][0] += time_ns
        return worker.gauges()

    for _ in range(50):
        assert step(40, 10, 10)["slowest_env"] == 0
    step(10, 10, 60)
    gauges = step(10, 10, 60)
    assert (gauges["slowest_env"], gauges["slowest_env_ratio"]) == (2, 6.0)
    assert gauges["slowest_env_share"] == 0.75


def test_an_environment_whose_resets_are_slow_is_the_slowest(local_run):
    run = local_run(num_envs_per_worker=4, worker_num_splits=2)
    run.start()
    (worker,) = run.workers
    for index, group in worker._groups.items():
        for lengths in group.env_ns:
            lengths[0] += 100
        group.reset_ns = [10, 10] if index else [10, 900]
    gauges = worker.gauges()
    assert gauges["slowest_env"] == 1
    assert gauges["slowest_env_ratio"] == pytest.approx(1000 / 110)


def test_groups_that_wait_for_slots_begin_first_come_first_served(local_run):
    """As long as an earlier group waits, no later one takes a slot, even if there are enough for it."""
    run = local_run(num_envs_per_worker=3, worker_num_splits=2)  # groups of two environments and of one
    (worker,) = run.workers
    groups = list(worker._groups.values())
    worker._free[0].clear()
    worker._waiting.extend(groups)
    run.free[0].send([0])
    run.dispatch()
    assert run.requests[0].receive() == [], "the first group needs two"
    run.free[0].send([1])
    run.dispatch()
    assert run.requests[0].receive() == [0]
    run.free[0].send([2])
    run.dispatch()
    assert run.requests[0].receive() == [1]


def test_agent_steps_are_counted_by_policy(local_run):
    run = local_run(num_policies=2, num_workers=2, num_envs_per_worker=3, batch_size=400)
    run.start()
    for _ in range(3):
        for policy in range(2):
            for group in run.requests[policy].receive():
                run.answer(policy, group)
        run.dispatch()
    assert run.counters.agent_steps.tolist() == [[6, 3], [3, 6]]


def test_episodes_are_reported_now_and_then_and_at_the_end(local_run):
    run = local_run(num_envs_per_worker=2, lengths=(2,), batch_size=400)
    (worker,) = run.workers
    run.start()
    (timer,) = worker.timers()
    assert {type(report) for report in run.reports.receive()} == {Heartbeat}  # one for each step of the start
    timer.callback()
    assert run.reports.receive() == [], "no news is no report"
    for number in range(6):
        for group in run.requests[0].receive():
            run.answer(0, group)
        run.dispatch()
        if number == 3:
            timer.callback()
    worker.finish()
    first, second = run.reports.receive()
    assert isinstance(first, EpisodesFinished)
    assert [len(report.episodes) for report in (first, second)] == [4, 2]
    assert {episode.length_frames for episode in first.episodes} == {8}


def test_environments_are_closed_at_the_end_and_when_one_of_them_cannot_be_made(local_run, make_run, make_env):
    run = local_run(num_envs_per_worker=3)
    run.workers[0].finish()
    assert all(env.is_closed for env in run.envs.values())

    envs, make = make_envs(make_env)

    def make_until_the_third(index, index_in_worker):
        if index == 2:
            raise EnvError("environment 2 raised in its constructor")
        return make(index, index_in_worker)

    with pytest.raises(EnvError, match="environment 2"):
        LocalRun(make_run, make_until_the_third, num_envs_per_worker=4, worker_num_splits=2)
    assert sorted(envs) == [0, 1]
    assert all(env.is_closed for env in envs.values())


def test_workers_start_one_after_the_other_as_asked(local_run, monkeypatch):
    pauses = []
    monkeypatch.setattr(rollout_worker.time, "sleep", pauses.append)
    run = local_run(num_workers=4, decorrelate_experience_max_seconds=20.0, decorrelate_envs_on_one_worker=False)
    run.start()
    assert pauses == [0.0, 5.0, 10.0, 15.0]
    assert {env.num_random_steps for env in run.envs.values()} == {0}


@pytest.mark.parametrize("is_on", [True, False])
def test_environments_of_a_group_are_decorrelated_as_asked(local_run, is_on):
    run = local_run(num_envs_per_worker=4, worker_num_splits=2, decorrelate_envs_on_one_worker=is_on)
    run.start()
    assert [env.num_random_steps for env in run.envs.values()] == ([0, 4, 0, 4] if is_on else [0, 0, 0, 0])


def test_its_tree_has_the_blocks_that_people_look_for(local_run):
    run = local_run(lengths=(1,), rollout=1, batch_size=2)
    run.start()
    for _ in range(3):
        for group in run.requests[0].receive():
            run.answer(0, group)
        run.dispatch()
    blocks = {"make_envs", "env_reset", "env_step", "enqueue_policy_requests", "complete_rollouts", "overhead"}
    assert blocks <= set(run.workers[0].timing)
    assert run.workers[0].name == "RolloutWorker_w0"


class StoryOfRow:
    """Checks that the trajectories of one agent, one after the other, tell the story of its environment."""

    def __init__(self, env: int, agent: int, length: int, end: str) -> None:
        self.env, self.agent, self.length, self.end = env, agent, length, end
        self.expected = (0, 0)  # episode and step of the next trajectory's first observation
        self.num_trajectories = 0

    def check(self, memory, slot: int) -> None:
        rollout = memory.layout.rollout
        places = memory.observations["place"][slot].astype(int).tolist()
        episode, step = self.expected
        for t in range(rollout):
            assert places[t] == [self.env, episode, step, self.agent], f"trajectory {self.num_trajectories}, step {t}"
            # The policy's state counts the steps of an episode: zero where it begins.
            assert memory.states[slot, t, 0] == step
            is_over = step + 1 == self.length
            assert memory.terminated[slot, t] == (is_over and self.end == "terminated")
            assert memory.truncated[slot, t] == (is_over and self.end == "truncated")
            assert memory.rewards[slot, t] == 1 + (step + 1) / 2
            if is_over and self.end == "truncated" and t + 1 < rollout:
                assert memory.final_values[slot, t] == self.length, "the value of the final observation"
            episode, step = (episode + 1, 0) if is_over else (episode, step + 1)
        after = [self.env, episode - 1, self.length, self.agent] if step == 0 else [self.env, episode, step, self.agent]
        assert places[rollout] == after, "what follows the last step"
        assert memory.states[slot, rollout, 0] == after[2]
        self.expected = (episode, step)
        self.num_trajectories += 1


RUNS = [
    dict(),
    dict(async_rl=False),
    dict(num_envs_per_worker=5, worker_num_splits=2, num_workers=2, batch_size=12),
    dict(num_envs_per_worker=5, worker_num_splits=2, num_workers=2, batch_size=12, async_rl=False),
    dict(num_agents=2, num_envs_per_worker=3, worker_num_splits=3, num_workers=3, batch_size=28),
    dict(num_policies=2, num_envs_per_worker=3, num_workers=2, batch_size=20, async_rl=False),
    dict(num_policies=2, num_agents=3, num_envs_per_worker=2, worker_num_splits=2, batch_size=12),
    dict(rollout=1, batch_size=3, num_envs_per_worker=3, worker_num_splits=2),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("options", RUNS, ids=str)
def test_all_trajectories_of_a_run_continue_each_other(local_run, options, end, seed):
    """Whoever is fast or slow: what the Learner gets is what happened, without a gap, until the slots are free."""
    rng, length = random.Random(seed), 3
    run = local_run(lengths=(length,), end=end, decorrelate_envs_on_one_worker=False, **options)
    num_agents = run.plan.num_agents
    stories = [StoryOfRow(*divmod(row, num_agents), length, end) for row in range(run.plan.num_rows)]
    run.memory.final_values[:] = np.nan
    run.start()
    num_trained = defaultdict(int)
    while min((num_trained[policy] for policy in range(run.sampling.num_policies)), default=0) < 12:
        run.dispatch()
        for policy, channel in enumerate(run.requests):
            run.waiting_requests[policy] += channel.receive()
        for policy, channel in enumerate(run.datasets):
            run.at_learner[policy] += channel.receive()
        choices = [("answer", p) for p, groups in enumerate(run.waiting_requests) if groups]
        choices += [("train", p) for p, slots in enumerate(run.at_learner) if len(slots) >= run.plan.dataset_slots]
        if not choices:
            assert run.dispatch(), "the run has stalled"
            continue
        what, policy = rng.choice(choices)
        if what == "answer":
            groups = run.waiting_requests[policy]
            run.answer(policy, groups.pop(rng.randrange(len(groups))))
        else:
            dataset = [run.at_learner[policy].pop(0) for _ in range(run.plan.dataset_slots)]
            for slot in dataset:
                env, _, _, agent = run.memory.observations["place"][slot, 0].astype(int).tolist()
                assert run.plan.slot_policy[slot] == policy
                stories[env * num_agents + agent].check(run.memory, slot)
            run.memory.final_values[dataset] = np.nan
            run.trained[policy].send(dataset)
            num_trained[policy] += 1
    assert all(story.num_trajectories for story in stories)
