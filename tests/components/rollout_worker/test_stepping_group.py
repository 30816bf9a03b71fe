"""A group of environments: everything lands at its slot and step, and episodes end where they should."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sample_profiler.components.rollout_worker import stepping_group
from sample_profiler.components.rollout_worker.stepping_group import SteppingGroup
from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers, describe_bad, is_finite, is_finite_number, without_bad
from sample_profiler.errors import EnvContractError
from sample_profiler.profiling import Timing


class Driver:
    """A group, its environments, and a policy that writes recognizable actions and states."""

    def __init__(self, make_run, envs, *, value_bootstrap=True, frames_per_step=1, num_random_steps=0, **options):
        num_agents = envs[0].num_agents
        options = {"num_envs_per_worker": len(envs), "num_batches_to_accumulate": 1} | options
        self.plan, self.memory = make_run(num_agents=num_agents, **options)
        self.rollout = self.plan.rollout
        (spec,) = self.plan.groups
        self.envs = envs
        self.timing = Timing("worker")
        self.group = SteppingGroup(
            spec, envs, self.memory, self.timing, value_bootstrap, frames_per_step, BadNumbers("scripted", stops=False)
        )
        self.group.reset(num_random_steps)

    def begin(self, slots) -> None:
        self.group.begin_rollout(np.array(slots, np.int32))

    def step(self) -> None:
        """Do what inference does, then step."""
        memory, step, slots = self.memory, self.group.step_index, self.group.slots
        for slot in slots:
            memory.actions[slot, step] = action_at(slot, step)
            memory.states[slot, step + 1] = state_at(slot, step + 1)
        self.group.step()

    def do_rollout(self, slots) -> None:
        self.begin(slots)
        for _ in range(self.rollout):
            self.step()

    def places(self, slot) -> list[list[int]]:
        """Return (environment, episode, step, agent) of all observations in a slot."""
        return self.memory.observations["place"][slot].astype(int).tolist()


def action_at(slot: int, step: int) -> int:
    return 10 * slot + step


def state_at(slot: int, step: int) -> float:
    return 100.0 * (slot + 1) + step


@pytest.fixture
def make_driver(make_run):
    def make(envs, **options):
        return Driver(make_run, envs, **options)

    return make


def test_observations_land_in_the_slot_of_their_row_and_at_their_step(make_driver, make_env):
    driver = make_driver([make_env(0), make_env(1), make_env(2)])
    driver.do_rollout([5, 0, 3])
    for env, slot in enumerate([5, 0, 3]):
        assert driver.places(slot) == [[env, 0, step, 0] for step in range(5)]
        images = driver.memory.observations["image"][slot]
        assert images[:, 0, 0].tolist() == list(range(5))
    untouched = [slot for slot in range(driver.plan.num_slots) if slot not in (5, 0, 3)]
    assert not driver.memory.observations["place"][untouched].any()


def test_every_environment_gets_its_own_action_and_its_reward_is_stored_beside_it(make_driver, make_env):
    envs = [make_env(0), make_env(1)]
    driver = make_driver(envs)
    driver.do_rollout([4, 2])
    for env, slot in zip(envs, [4, 2], strict=True):
        actions = [action_at(slot, step) for step in range(4)]
        assert env.actions == [[action] for action in actions]
        assert driver.memory.rewards[slot].tolist() == [a + (step + 1) / 2 for step, a in enumerate(actions)]
    assert not driver.memory.terminated.any()
    assert not driver.memory.truncated.any()


def test_inference_is_told_where_the_rows_write(make_driver, make_env):
    driver = make_driver([make_env(0), make_env(1)])
    driver.begin([4, 2])
    assert driver.memory.row_slot.tolist() == [4, 2]
    driver.do_rollout([1, 0])
    assert driver.memory.row_slot.tolist() == [1, 0]
    assert driver.group.slots.tolist() == [1, 0]


def test_the_first_step_of_a_run_begins_with_a_zero_state_whatever_was_in_the_slot(make_driver, make_env):
    driver = make_driver([make_env(0), make_env(1)])
    driver.memory.states[:] = 9
    driver.begin([2, 3])
    assert not driver.memory.states[[2, 3], 0].any()


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_an_episode_that_ends_in_the_middle_is_followed_by_the_next_one(make_driver, make_env, end):
    driver = make_driver([make_env(0, lengths=(2,), end=end), make_env(1)])
    driver.do_rollout([0, 1])
    assert driver.places(0) == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 2, 0]]
    ends = {"terminated": driver.memory.terminated, "truncated": driver.memory.truncated}
    assert ends.pop(end)[0].tolist() == [False, True, False, True]
    (other,) = ends.values()
    assert not other.any()
    # Its neighbour goes on.
    assert driver.places(1) == [[1, 0, step, 0] for step in range(5)]
    assert not getattr(driver.memory, end)[1].any()


def test_recurrent_states_are_zeroed_where_an_episode_begins_and_only_there(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(2,)), make_env(1)])
    driver.do_rollout([0, 1])
    states = driver.memory.states[:, :, 0]
    # Step 4 is the last of an episode, too, but what follows a trajectory keeps its state for the Learner.
    assert states[0].tolist() == [0, state_at(0, 1), 0, state_at(0, 3), state_at(0, 4)]
    assert states[1].tolist() == [0, *(state_at(1, step) for step in (1, 2, 3, 4))]


def test_an_episode_that_goes_on_is_taken_over_by_the_next_trajectory(make_driver, make_env):
    driver = make_driver([make_env(0), make_env(1)])
    driver.do_rollout([0, 1])
    driver.do_rollout([3, 2])
    assert driver.places(3) == [[0, 0, step, 0] for step in range(4, 9)]
    assert driver.places(2) == [[1, 0, step, 0] for step in range(4, 9)]
    assert driver.memory.states[3, 0, 0] == state_at(0, 4)
    assert driver.memory.states[2, 0, 0] == state_at(1, 4)


@pytest.mark.parametrize("second", [(0, 1, 2), (1, 2, 0), (2, 1, 0), (1, 0, 5)])
def test_the_old_slots_may_be_among_the_new_ones_in_any_order(make_driver, make_env, second):
    driver = make_driver([make_env(index) for index in range(3)])
    driver.do_rollout([0, 1, 2])
    driver.do_rollout(second)
    for env, slot in enumerate(second):
        assert driver.places(slot) == [[env, 0, step, 0] for step in range(4, 9)]
        assert driver.memory.states[slot, 0, 0] == state_at(env, 4)


def test_an_episode_that_ends_at_the_last_step_leaves_its_final_observation_and_state(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(4,), end="truncated"), make_env(1)])
    driver.do_rollout([0, 1])
    assert driver.places(0)[4] == [0, 0, 4, 0]
    assert driver.memory.states[0, 4, 0] == state_at(0, 4)
    assert driver.memory.truncated[0].tolist() == [False, False, False, True]
    assert not driver.memory.final_step.any(), "the Learner computes that value from what is there"


def test_the_episode_after_it_begins_in_the_next_trajectory(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(4, 100)), make_env(1)])
    driver.do_rollout([0, 1])
    driver.do_rollout([2, 3])
    assert driver.places(2) == [[0, 1, step, 0] for step in range(5)]
    assert driver.memory.states[2, 0].tolist() == [0, 0, 0]
    driver.do_rollout([4, 5])
    assert driver.places(4) == [[0, 1, step, 0] for step in range(4, 9)], "the fresh episode is begun only once"
    assert driver.memory.states[4, 0, 0] == state_at(2, 4)


def test_trajectories_of_one_step_work(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(1, 2)), make_env(1)], rollout=1, batch_size=2)
    for slots in ([0, 1], [2, 3], [4, 5]):
        driver.do_rollout(slots)
    assert [driver.places(slot) for slot in (0, 2, 4)] == [
        [[0, 0, 0, 0], [0, 0, 1, 0]],
        [[0, 1, 0, 0], [0, 1, 1, 0]],
        [[0, 1, 1, 0], [0, 1, 2, 0]],
    ]


def test_final_observations_of_truncated_episodes_wait_for_their_value(make_driver, make_env):
    driver = make_driver([make_env(0), make_env(1, lengths=(2,), end="truncated")])
    driver.begin([3, 0])
    driver.step()
    assert not driver.memory.final_step.any()
    driver.step()
    assert driver.memory.final_step.tolist() == [0, 2]
    assert driver.memory.final_observations["place"][1].astype(int).tolist() == [1, 0, 2, 0]
    assert (driver.memory.final_observations["image"][1] == 2).all()
    assert driver.memory.final_states[1, 0] == state_at(0, 2)
    assert driver.places(0)[2] == [1, 1, 0, 0]


def test_terminated_episodes_have_no_value_to_wait_for(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(2,), end="terminated")])
    driver.do_rollout([0])
    assert not driver.memory.final_step.any()


def test_without_value_bootstrap_nothing_waits(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(2,), end="truncated")], value_bootstrap=False)
    driver.do_rollout([0])
    assert not driver.memory.final_step.any()


def test_agents_of_one_environment_have_neighbouring_rows_and_slots_of_their_own(make_driver, make_env):
    envs = [make_env(index, num_agents=2, lengths=(3,)) for index in range(2)]
    driver = make_driver(envs)
    driver.do_rollout([6, 1, 4, 3])
    for row, slot in enumerate([6, 1, 4, 3]):
        env, agent = divmod(row, 2)
        assert driver.places(slot) == [[env, 0, 0, agent], [env, 0, 1, agent], [env, 0, 2, agent], [env, 1, 0, agent],
                                       [env, 1, 1, agent]]  # fmt: skip
        assert driver.memory.terminated[slot].tolist() == [False, False, True, False]
    assert envs[1].actions == [[action_at(4, step), action_at(3, step)] for step in range(4)]


def test_agents_may_end_in_different_ways(make_driver, make_env):
    driver = make_driver([make_env(0, num_agents=2, lengths=(2,), end=("terminated", "truncated"))])
    driver.begin([0, 1])
    driver.step()
    driver.step()
    assert driver.memory.terminated[:2, 1].tolist() == [True, False]
    assert driver.memory.truncated[:2, 1].tolist() == [False, True]
    assert driver.memory.final_step.tolist() == [0, 2], "only the agent that was cut off"
    assert driver.places(0)[2] == [0, 1, 0, 0]
    assert driver.places(1)[2] == [0, 1, 0, 1]


def test_an_episode_goes_on_until_it_has_ended_for_all_agents(make_driver, make_env):
    class OneLeavesEarly(make_env):
        def step(self, actions):
            observations, rewards, terminated, truncated, infos = super().step(actions)
            return observations, rewards, [True, *terminated[1:]], truncated, [{"is_active": False}, *infos[1:]]

    driver = make_driver([OneLeavesEarly(0, num_agents=2, lengths=(3,))])
    driver.do_rollout([0, 1])
    assert driver.places(1) == [[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 2, 1], [0, 1, 0, 1], [0, 1, 1, 1]]
    assert driver.memory.terminated[0].all()
    assert driver.memory.terminated[1].tolist() == [False, False, True, False]
    assert len(driver.group.episodes) == 2


def test_episodes_are_described_with_return_length_and_what_the_environment_says(make_driver, make_env):
    env = make_env(0, lengths=(3, 2))
    env.last_infos = {"true_objective": 7, "episode_extra_stats": {"kills": np.int64(2), "ratio": 0.5}, "other": "x"}
    driver = make_driver([env, make_env(1)], frames_per_step=4)
    driver.do_rollout([0, 1])
    (episode,) = driver.group.episodes
    actions = [action_at(0, step) for step in range(3)]
    assert episode.policy == 0
    assert episode.episode_return == sum(actions) + 0.5 + 1.0 + 1.5
    assert episode.length_frames == 12
    assert episode.extra == {"true_objective": 7.0, "kills": 2.0, "ratio": 0.5}
    assert all(type(value) is float for value in episode.extra.values())

    driver.group.episodes.clear()
    driver.do_rollout([2, 3])  # the second episode began in the trajectory before
    (episode,) = driver.group.episodes[:1]
    assert episode.length_frames == 8
    assert episode.episode_return == action_at(0, 3) + 0.5 + action_at(2, 0) + 1.0


def test_statistics_that_are_not_finite_are_told_and_left_out(make_driver, make_env, caplog):
    env = make_env(1, lengths=(3,))
    env.last_infos = {"true_objective": np.inf, "episode_extra_stats": {"kills": 2, "ratio": np.nan}}
    driver = make_driver([make_env(0, lengths=(9,)), env])
    driver.do_rollout([0, 1])
    assert [episode.extra for episode in driver.group.episodes] == [{"kills": 2.0}]
    (record,) = caplog.records
    assert "environment 1 (scripted), agent 0, returned the statistic 'ratio' nan in step 3" in record.getMessage()


def test_each_agent_has_an_episode_of_its_own_policy(make_driver, make_env):
    driver = make_driver([make_env(0, num_agents=2, lengths=(1,))], num_policies=2, rollout=2, batch_size=2)
    driver.begin([0, 3])
    driver.step()
    assert [episode.policy for episode in driver.group.episodes] == [0, 1]
    assert [episode.episode_return for episode in driver.group.episodes] == [0.5, 30.5]
    assert driver.group.rows_of_policy == [(0, 1), (1, 1)]


def test_decorrelation_takes_each_environment_a_rollout_further_than_the_one_before(make_driver, make_env):
    envs = [make_env(index, lengths=(3,)) for index in range(3)]
    driver = make_driver(envs, num_random_steps=4)
    assert [env.num_random_steps for env in envs] == [0, 4, 8]
    driver.begin([0, 1, 2])
    # Ended episodes are followed by new ones on the way.
    assert [driver.places(slot)[0] for slot in range(3)] == [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 2, 0]]


def test_an_episode_that_began_with_random_steps_is_in_no_statistic(make_driver, make_env):
    driver = make_driver([make_env(index, lengths=(6,)) for index in range(3)], num_random_steps=4)
    driver.do_rollout([0, 1, 2])
    assert driver.group.episodes == [], "two have ended that were not the policy's alone"
    driver.do_rollout([3, 4, 5])
    assert [episode.length_frames for episode in driver.group.episodes] == [6, 6]
    driver.do_rollout([0, 1, 2])
    assert [episode.length_frames for episode in driver.group.episodes] == [6] * 4


def test_an_episode_of_a_member_that_began_with_random_steps_is_in_no_statistic(make_driver, make_vector):
    envs = [make_vector(index, lengths=(2, 3), end=("terminated", "terminated")) for index in range(2)]
    driver = make_driver(envs, num_random_steps=4)
    driver.do_rollout([0, 1, 2, 3])
    # The random steps of the second vector end with an end of its first member, and in the middle for the other.
    assert sorted(episode.length_frames for episode in driver.group.episodes) == [2, 2, 2, 2, 3]
    assert driver.places(3)[:2] == [[1, 1, 1, 1], [1, 1, 2, 1]]
    driver.do_rollout([4, 5, 6, 7])
    assert sorted(episode.length_frames for episode in driver.group.episodes[5:]) == [2, 2, 2, 2, 3, 3, 3]


def test_a_member_that_was_to_begin_with_the_next_step_when_random_steps_were_over_does_so(make_driver, make_vector):
    envs = [make_vector(index, lengths=(3, 9), end=("terminated", "terminated"), waits=True) for index in range(2)]
    driver = make_driver(envs, num_random_steps=3, rollout=3, batch_size=6)
    driver.do_rollout([0, 1, 2, 3])
    assert driver.memory.inactive[2].tolist() == [True, False, False]
    assert driver.memory.states[2, 1, 0] == 0
    driver.do_rollout([4, 5, 6, 7])
    assert [episode.length_frames for episode in driver.group.episodes] == [3, 3]


def test_decorrelation_gives_signs_of_life_with_each_step(make_driver, make_env):
    """The random steps of one slow environment may take longer than a start may be silent."""
    envs = [make_env(index, lengths=(3,)) for index in range(3)]
    driver = make_driver(envs)
    signs = []
    driver.group.reset(4, lambda: signs.append(sum(env.num_random_steps for env in envs)))
    assert signs == [0, 0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12]


def test_resets_are_a_part_of_the_step_in_the_tree(make_driver, make_env):
    driver = make_driver([make_env(0, lengths=(1,))])
    with driver.timing.add_time("env_step"):
        driver.do_rollout([0])
    children = driver.timing.to_dict()["children"]["env_step"]["children"]
    assert children["env_reset"]["count"] == 4


def test_resets_that_others_wait_for_are_timed_for_each_environment(make_driver, make_env, monkeypatch):
    passed_ns = [0]
    monkeypatch.setattr(stepping_group, "perf_counter_ns", lambda: passed_ns[0])
    envs = [make_env(0, lengths=(2,)), make_env(1, lengths=(2,))]
    driver = make_driver(envs, num_random_steps=0)
    begin_episodes = envs[1].begin_episodes

    def begin_slowly(agents):
        passed_ns[0] += 50
        return begin_episodes(agents)

    envs[1].begin_episodes = begin_slowly
    driver.do_rollout([0, 1])
    assert driver.group.reset_ns == [0, 100]
    assert sum(map(sum, driver.group.env_ns)) == 0


def test_steps_of_inactive_agents_are_marked_until_the_episode_is_over(make_driver, make_env):
    env = make_env(0, num_agents=2)
    plain_step = env.step
    seen = []

    def step(actions):
        observations, rewards, terminated, truncated, infos = plain_step(actions)
        seen.append(len(seen))
        infos = [info | {"is_active": agent == 0 or len(seen) != 2} for agent, info in enumerate(infos)]
        return observations, rewards, terminated, truncated, infos

    env.step = step
    driver = make_driver([env])
    driver.do_rollout([2, 5])
    assert driver.memory.inactive[2].tolist() == [False] * 4
    assert driver.memory.inactive[5].tolist() == [False, False, True, False], "after the info, until the next one"


class Spoiled:
    """A scripted environment whose observation or reward of one step is not finite."""

    def __init__(self, env, *, step, observation=None, reward=None):
        self._env, self._at, self._observation, self._reward = env, step, observation, reward
        self.num_agents = env.num_agents
        self._num_steps = 0

    def step(self, actions):
        observations, rewards, *rest = self._env.step(actions)
        self._num_steps += 1
        if self._num_steps == self._at:
            if self._observation is not None:
                observations[0]["place"][1:3] = self._observation
            if self._reward is not None:
                rewards[0] = self._reward
        return observations, rewards, *rest

    def __getattr__(self, name):
        return getattr(self._env, name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e300])
def test_a_reward_that_is_not_finite_counts_as_0_and_its_step_is_not_trained_on(make_driver, make_env, bad, caplog):
    driver = make_driver([make_env(0), Spoiled(make_env(1), step=2, reward=bad)])
    driver.do_rollout([0, 1])
    assert driver.memory.inactive[:2].tolist() == [[False] * 4, [False, True, False, False]]
    assert (driver.memory.spoiled[:2] == driver.memory.inactive[:2]).all()
    assert driver.memory.rewards[1, 1] == 0
    assert np.isfinite(driver.memory.rewards).all()
    assert np.isfinite(driver.group._counted.returns).all()
    (record,) = caplog.records
    what = f"{bad}, beyond float32," if np.isfinite(bad) else f"{bad}"
    assert (
        f"environment 1 (scripted), agent 0, returned the reward {what} in step 2 of an episode" in record.getMessage()
    )


def test_an_observation_that_is_not_finite_becomes_0_and_the_steps_around_it_are_not_trained_on(
    make_driver, make_env, caplog
):
    driver = make_driver([Spoiled(make_env(0), step=2, observation=np.nan), make_env(1)])
    driver.do_rollout([0, 1])
    assert driver.memory.inactive[:2].tolist() == [[False, True, True, False], [False] * 4]
    assert driver.places(0)[2] == [0, 0, 0, 0]
    (record,) = caplog.records
    assert "NaN in 2 of 4 numbers of observation 'place' in step 2" in record.getMessage()


def test_a_bad_observation_behind_the_last_step_spoils_the_first_step_of_the_next_rollout(make_driver, make_env):
    driver = make_driver([Spoiled(make_env(0), step=4, observation=np.inf), make_env(1)])
    driver.do_rollout([0, 1])
    assert driver.memory.inactive[0].tolist() == [False, False, False, True]
    driver.do_rollout([2, 3])
    assert driver.memory.inactive[2].tolist() == [True, False, False, False]
    driver.do_rollout([0, 1])
    assert not driver.memory.inactive[:2].any(), "slots are used again"


def test_a_final_observation_that_is_not_finite_is_not_what_values_are_computed_from(make_driver, make_env):
    env = Spoiled(make_env(0, lengths=(2,), end="truncated"), step=2, observation=np.nan)
    driver = make_driver([env, make_env(1)])
    driver.begin([0, 1])
    driver.step()
    driver.step()
    assert driver.memory.final_step[0] == 2
    assert np.isfinite(driver.memory.final_observations["place"]).all()


def test_a_reset_that_is_not_finite_is_told_and_mended(make_driver, make_env, caplog):
    class BadReset(Spoiled):
        def reset(self):
            observations = self._env.reset()
            observations[0]["place"][3] = np.nan
            return observations

    driver = make_driver([BadReset(make_env(0), step=99), make_env(1)])
    driver.do_rollout([0, 1])
    assert driver.memory.inactive[0].tolist() == [True, False, False, False]
    assert "the reset of an episode" in caplog.text


def test_the_observation_after_the_last_random_step_is_mended_too(make_driver, make_env, caplog):
    spoiled = Spoiled(make_env(1), step=4, observation=np.nan)
    driver = make_driver([make_env(0), spoiled], num_random_steps=4)
    driver.do_rollout([0, 1])
    assert driver.places(1)[:2] == [[1, 0, 0, 0], [1, 0, 5, 0]]
    assert driver.memory.inactive[:2].tolist() == [[False] * 4, [True, False, False, False]]
    assert "NaN in 2 of 4 numbers of observation 'place' in a random step" in caplog.text


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_an_observation_that_is_a_single_number_is_mended_too(make_driver, make_env, observation_space, bad):
    class Timed(make_env):
        def _observe(self):
            time = np.float32(bad if self.step_in_episode == 2 else self.step_in_episode)
            return [observation | {"time": time} for observation in super()._observe()]

    space = spaces.Dict(observation_space.spaces | {"time": spaces.Box(-np.inf, np.inf, (), np.float32)})
    driver = make_driver([Timed(0), Timed(1)], observation_space=space)
    driver.do_rollout([0, 1])
    assert driver.memory.observations["time"][0].tolist() == [0, 1, 0, 3, 4]
    assert driver.memory.inactive[0].tolist() == [False, True, True, False]


def test_bad_numbers_end_the_run_if_that_is_wanted():
    with pytest.raises(EnvContractError, match=r"environment 7 \(any\).*--on_bad_numbers=skip"):
        BadNumbers("any", stops=True).report(7, 0, "the reward nan", "step 3 of an episode")


def test_bad_numbers_do_not_flood_the_log(caplog):
    bad_numbers = BadNumbers("any", stops=False)
    for _ in range(1234):
        bad_numbers.report(0, 0, "the reward nan", "step 3 of an episode")
    assert [record.args[1] for record in caplog.records] == [1, 10, 100, 1000]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_what_networks_cannot_have_is_bad_in_numbers_of_any_width(dtype):
    has_more = np.dtype(dtype).itemsize > 4
    values = np.array([1.0, 6e4, -np.inf, np.nan, 2e38 if has_more else 2.0, 1e300 if has_more else np.inf], dtype)
    beyond = " and values beyond float32" if has_more else ""
    assert describe_bad("obs", values) == f"NaN and infinity{beyond} in 3 of 6 numbers of observation 'obs'"
    assert (without_bad(values) == np.where([True, True, False, False, True, False], values, 0)).all()
    found = [(is_finite(values[i : i + 1]), is_finite_number(values[i])) for i in range(6)]
    assert found == [(True, True), (True, True), (False, False), (False, False), (True, True), (False, False)]


def test_huge_numbers_are_numbers(make_driver, make_env, caplog):
    driver = make_driver([Spoiled(make_env(0), step=2, observation=1e30), make_env(1)])
    driver.do_rollout([0, 1])
    assert not driver.memory.inactive.any()
    assert driver.memory.observations["place"][0, 2, 1] == np.float32(1e30)
    assert caplog.records == []


def test_agents_whose_episodes_end_one_by_one_begin_one_by_one(make_driver, make_vector):
    driver = make_driver([make_vector(0, lengths=(2, 3), end=("terminated", "truncated"))])
    driver.do_rollout([0, 1])
    assert driver.places(0) == [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 2, 0]]
    assert driver.places(1) == [[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 2, 1], [0, 1, 0, 1], [0, 1, 1, 1]]
    assert driver.memory.terminated[0].tolist() == [False, True, False, True]
    assert driver.memory.truncated[1].tolist() == [False, False, True, False]
    states = driver.memory.states[:, :, 0]
    assert states[0].tolist() == [0, state_at(0, 1), 0, state_at(0, 3), state_at(0, 4)]
    assert states[1].tolist() == [0, state_at(1, 1), state_at(1, 2), 0, state_at(1, 4)]
    assert driver.memory.final_step.tolist() == [0, 3]
    assert driver.memory.final_observations["place"][1].astype(int).tolist() == [0, 0, 3, 1]
    assert not driver.memory.inactive.any()

    driver.do_rollout([2, 3])
    assert driver.places(2)[:2] == [[0, 2, 0, 0], [0, 2, 1, 0]], "it ended with the last step of the rollout"
    assert driver.places(3)[:2] == [[0, 1, 1, 1], [0, 1, 2, 1]], "this one goes on"
    assert [episode.length_frames for episode in driver.group.episodes] == [2, 3, 2, 2, 3, 2]
    assert driver.group.episodes[1].episode_return == sum(action_at(1, step) for step in range(3))


def test_the_step_in_which_a_vector_begins_an_episode_is_inactive_and_counts_for_nothing(make_driver, make_vector):
    driver = make_driver([make_vector(0, lengths=(2, 9), end=("terminated", "terminated"), waits=True)])
    driver.do_rollout([0, 1])
    assert driver.places(0)[3:] == [[0, 1, 0, 0], [0, 1, 1, 0]]
    assert driver.memory.inactive[0].tolist() == [False, False, True, False]
    assert not driver.memory.inactive[1].any()
    driver.do_rollout([2, 3])
    assert [episode.length_frames for episode in driver.group.episodes] == [2, 2, 2]
    assert driver.memory.inactive[2].tolist() == [False, True, False, False]


def test_the_first_step_of_an_episode_behind_an_inactive_one_is_entered_with_zeros(make_driver, make_vector):
    driver = make_driver(
        [make_vector(0, lengths=(2, 4), end=("terminated", "truncated"), waits=True)], rollout=6, batch_size=12
    )
    driver.do_rollout([0, 1])
    states = driver.memory.states[:, :, 0]
    assert driver.places(0)[3] == [0, 1, 0, 0]
    assert states[0].tolist() == [0, state_at(0, 1), 0, 0, state_at(0, 4), 0, 0]
    assert driver.memory.starts_episode[0].tolist() == [False, False, True, True, False, True]
    assert states[1, 4:].tolist() == [0, 0, state_at(1, 6)]
    driver.do_rollout([2, 3])
    assert states[2, :2].tolist() == [0, state_at(2, 1)]
    assert driver.memory.starts_episode[2].tolist() == [False, False, True, True, False, True]


def test_an_inactive_step_may_be_the_first_of_a_rollout(make_driver, make_vector):
    driver = make_driver([make_vector(0, lengths=(4, 99), end=("terminated", "terminated"), waits=True)])
    driver.do_rollout([0, 1])
    assert driver.memory.states[0, 4, 0] == state_at(0, 4), "what the Learner sees behind the last step"
    driver.do_rollout([2, 3])
    assert driver.memory.states[2, :3, 0].tolist() == [0, 0, state_at(2, 2)]
    assert driver.memory.starts_episode[2].tolist() == [False, True, False, False]


class Leaves:
    """A team's environment whose first agent ends at step 2; it is inactive until the infos of a later step."""

    def __init__(self, env, end, back_at=99):
        self._env, self._end, self._back_at = env, end, back_at
        self.num_agents = env.num_agents

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = self._env.step(actions)
        number = self._env.step_in_episode
        if 2 <= number < self._back_at:
            ends = {"terminated": terminated, "truncated": truncated}
            ends[self._end][0] = True
            infos[0]["is_active"] = False
        return observations, rewards, terminated, truncated, infos

    def __getattr__(self, name):
        return getattr(self._env, name)


def test_the_final_observation_of_an_agent_that_is_cut_off_alone_waits_for_its_value(make_driver, make_env):
    driver = make_driver([Leaves(make_env(0, num_agents=2), "truncated")])
    driver.begin([3, 0])
    driver.step()
    assert not driver.memory.final_step.any()
    driver.step()
    assert driver.memory.final_step.tolist() == [2, 0]
    assert driver.memory.final_observations["place"][0].astype(int).tolist() == [0, 0, 2, 0]
    assert driver.memory.final_states[0, 0] == state_at(3, 2)
    driver.memory.final_step[:] = 0  # inference has computed it
    driver.step()
    assert not driver.memory.final_step.any(), "once, though the environment goes on telling it"
    assert driver.memory.inactive[3].tolist() == [False, False, True, False]
    assert driver.group.episodes == []


def test_an_agent_that_is_terminated_alone_has_no_value_to_wait_for(make_driver, make_env):
    driver = make_driver([Leaves(make_env(0, num_agents=2), "terminated")])
    driver.do_rollout([0, 1])
    assert not driver.memory.final_step.any()


def test_an_agent_that_comes_back_begins_anew(make_driver, make_env):
    driver = make_driver([Leaves(make_env(0, num_agents=2), "truncated", back_at=4)], rollout=6, batch_size=12)
    driver.do_rollout([0, 1])
    assert driver.memory.inactive[0].tolist() == [False, False, True, True, False, False]
    assert driver.memory.starts_episode[0].tolist() == [False, False, False, False, True, False]
    assert driver.memory.states[0, 3:, 0].tolist() == [state_at(0, 3), 0, state_at(0, 5), state_at(0, 6)]
    assert not driver.memory.starts_episode[1].any()


class Sleeps:
    """A team's environment whose first agent is inactive until the infos of step 2, and then until those of step 4."""

    def __init__(self, env, end_at=99):
        self._env, self._end_at = env, end_at
        self.num_agents = env.num_agents

    @property
    def begin_infos(self):
        return [{"is_active": False}, {}]

    def step(self, actions):
        observations, rewards, terminated, truncated, infos = self._env.step(actions)
        infos[0]["is_active"] = self._env.step_in_episode in (2, 4)
        truncated[0] |= self._env.step_in_episode == self._end_at
        return observations, rewards, terminated, truncated, infos

    def __getattr__(self, name):
        return getattr(self._env, name)


def test_an_agent_that_is_inactive_at_the_reset_has_no_part_in_the_first_step(make_driver, make_env):
    driver = make_driver([Sleeps(make_env(0, num_agents=2, lengths=(6,)))], rollout=8, batch_size=16)
    driver.do_rollout([0, 1])
    inactive = [True, True, False, True, False, True]
    assert driver.memory.inactive[0].tolist() == [*inactive, True, True], "so it is in the second episode"
    assert not driver.memory.inactive[1].any()
    assert driver.memory.starts_episode[0].tolist() == [False, False, True, False, False, False, True, False]
    assert driver.memory.states[0, :7, 0].tolist() == [0, state_at(0, 1), 0, *(state_at(0, t) for t in (3, 4, 5)), 0]
    driver.do_rollout([2, 3])
    assert driver.memory.inactive[2].tolist() == [*inactive[2:], True, True, False, True]
    assert driver.memory.starts_episode[2].tolist() == [False] * 4 + [True, False, True, False]
    assert driver.memory.states[2, 0, 0] == 0, "its first own step of the second episode"
    assert [episode.length_frames for episode in driver.group.episodes] == [6] * 4, "of the environment"


def test_an_agent_that_is_inactive_at_the_reset_stays_so_through_random_steps(make_driver, make_env):
    envs = [make_env(0, num_agents=2), Sleeps(make_env(1, num_agents=2))]
    driver = make_driver(envs, num_random_steps=1)
    driver.do_rollout([0, 1, 2, 3])
    assert driver.memory.inactive[2].tolist() == [True, False, True, False]


def test_an_end_that_is_told_in_the_middle_of_a_gap_is_an_end(make_driver, make_env):
    driver = make_driver([Sleeps(make_env(0, num_agents=2), end_at=3)], rollout=6, batch_size=12)
    driver.begin([0, 1])
    for _ in range(3):
        driver.step()
    assert driver.memory.final_step.tolist() == [3, 0]
    assert driver.memory.final_observations["place"][0].astype(int).tolist() == [0, 0, 3, 0]
    driver.memory.final_step[:] = 0
    driver.step()
    assert driver.memory.starts_episode[0].tolist() == [False, False, True, False, True, False]
    assert not driver.memory.final_step.any()


def test_decorrelation_goes_on_behind_the_ends_of_single_agents(make_driver, make_vector):
    envs = [make_vector(index, lengths=(2, 3), end=("terminated", "terminated")) for index in range(2)]
    driver = make_driver(envs, num_random_steps=4)
    driver.begin([0, 1, 2, 3])
    assert [driver.places(slot)[0] for slot in range(4)] == [[0, 0, 0, 0], [0, 0, 0, 1], [1, 2, 0, 0], [1, 1, 1, 1]]


class Breaking(gymnasium.Env):
    """Keeps its contract for two episodes of two steps, and then returns what it is told to."""

    action_space = spaces.Discrete(1000)

    def __init__(self, observation_space, broken_reset=None, broken_step=None):
        self.observation_space = observation_space
        self.broken_reset, self.broken_step = broken_reset, broken_step
        self.num_resets = self.num_steps = 0

    def reset(self, *, seed=None, options=None):
        self.num_resets += 1
        is_broken = self.num_resets > 2 and self.broken_reset is not None
        return self.broken_reset if is_broken else (observation(), {})

    def step(self, action):
        self.num_steps += 1
        is_broken = self.num_steps > 4 and self.broken_step is not None
        return self.broken_step if is_broken else (observation(), 0.5, self.num_steps % 2 == 0, False, {})


def observation(**changed):
    return {"place": np.zeros(4, np.float32), "image": np.zeros((2, 2), np.uint8)} | changed


@pytest.fixture
def break_later(make_driver, observation_space):
    """Run two environments, the second of which breaks its contract; return the error."""

    def run(**broken):
        insides = [Breaking(observation_space), Breaking(observation_space, **broken)]
        spec = inspect_env(insides[0])
        envs = [AgentsEnv(lambda inside=inside: inside, spec, "mine", index, 1) for index, inside in enumerate(insides)]
        driver = make_driver(envs)
        with pytest.raises(EnvContractError, match=r"^environment 1 \(mine\): ") as caught:
            for slots in ([0, 1], [2, 3]):
                driver.do_rollout(slots)
        assert caught.value.__cause__ is None, "the message says it all"
        return str(caught.value)

    return run


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (({"place": np.zeros(4, np.float32)}, 0.5, False, False, {}), "an observation of ['place']; observation_space"),
        ((observation(place=np.zeros(3, np.float32)), 0.5, False, False, {}), "'place' of shape (3,)"),
        ((observation(image=None), 0.5, False, False, {}), "observation 'image'"),
        ((None, 0.5, False, False, {}), "an observation of ['obs']"),
        ((observation(), None, False, False, {}), "reward None"),
        ((observation(), [0.5], False, False, {}), "reward a list of 1"),
        ((observation(), 10**400, False, False, {}), "reward 1"),
        ((observation(), 0.5, np.zeros(2), False, {}), "terminated"),
        ((observation(), 0.5, True, False, None), "info None"),
        ((observation(), 0.5, False, {}), "a tuple of 4"),
        (7, "returned 7"),
    ],
)
def test_a_step_that_breaks_the_contract_later_on_names_the_environment_and_what_is_wrong(break_later, step, message):
    told = break_later(broken_step=step)
    assert "step() returned" in told
    assert message in told


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        (({"place": np.zeros(4, np.float32)}, {}), "an observation of ['place']; observation_space"),
        ((observation(place=np.zeros(3, np.float32)), {}), "'place' of shape (3,)"),
        ((None, {}), "an observation of ['obs']"),
        (observation(), "it returns (observation, info)"),
    ],
)
def test_a_reset_that_breaks_the_contract_later_on_does_so_too(break_later, reset, message):
    """Also where what it returned is read only when the next rollout begins."""
    told = break_later(broken_reset=reset)
    assert "reset() returned" in told
    assert message in told


@pytest.mark.parametrize("one", [np.array, np.float32, lambda value: np.array([value])], ids=["()", "scalar", "(1,)"])
def test_arrays_of_one_number_are_written_as_the_number(make_driver, observation_space, one):
    class Arrays(Breaking):
        def step(self, action):
            seen, *outcome, info = super().step(action)
            return seen, *map(one, outcome), info

    insides = [Arrays(observation_space), Breaking(observation_space)]
    spec = inspect_env(insides[0])
    envs = [AgentsEnv(lambda inside=inside: inside, spec, "mine", index, 1) for index, inside in enumerate(insides)]
    driver = make_driver(envs)
    driver.do_rollout([0, 1])
    memory = driver.memory
    assert memory.rewards[0].tolist() == memory.rewards[1].tolist() == [0.5] * 4
    assert memory.terminated[0].tolist() == memory.terminated[1].tolist() == [False, True, False, True]
    assert [episode.episode_return for episode in driver.group.episodes] == [1.0] * 4
    assert all(type(episode.episode_return) is float for episode in driver.group.episodes)


def test_an_error_that_no_environment_is_to_blame_for_stays_what_it_is(make_driver, make_env):
    driver = make_driver([make_env(0)])
    driver.begin([0])
    driver.group.step_index = "first"
    with pytest.raises(IndexError):
        driver.group.step()
