"""Evaluation while a run trains: when it begins, with which weights, what it reports."""

from __future__ import annotations

import logging

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sample_profiler.components import evaluation as evaluation_module
from sample_profiler.components.evaluation import Evaluator, EvaluatorOptions, Places, Player, play
from sample_profiler.components.messages import Counters, EvaluationFinished
from sample_profiler.config import parse_config
from sample_profiler.envs import inspect_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.envs.vectors.vector_agents import VectorAgents
from sample_profiler.errors import EnvContractError
from sample_profiler.model import make_actor_critic
from sample_profiler.model.policy import Policy
from sample_profiler.runtime.messages.channels import LocalReports
from sample_profiler.storage.policy_weights import PolicyWeights

PLAYED = BadNumbers("push", stops=False, is_training=False)


class Push(gymnasium.Env):
    """Five steps; the reward of each is the action."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.num_steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.num_steps += 1
        is_over = self.num_steps == 5
        info = {"true_objective": 3.0, "episode_extra_stats": {"reward": 77.0, "len": 78.0}} if is_over else {}
        return np.zeros(1, np.float32), float(action), is_over, False, info


@pytest.fixture
def model():
    config = parse_config(["--env=push", "--use_rnn=False", "--encoder_mlp_layers", "4"])
    spec = inspect_env(Push())
    return make_actor_critic(config.model, config.observations, spec.observation_space, spec.action_space)


def as_policy(model):
    spec = inspect_env(Push())
    policy = Policy(model, spec.observation_space, spec.action_space)
    policy.generator.manual_seed(1)
    return policy


def always(model, action):
    """Make a policy take one action, whatever it sees."""
    with torch.no_grad():
        biases = [parameter for name, parameter in model.named_parameters() if name.startswith("action_head")]
        biases[-1].copy_(torch.where(torch.arange(2) == action, 50.0, -50.0))


@pytest.fixture
def parts(model):
    return model, PolicyWeights(), Counters(1, 1), LocalReports()


@pytest.fixture
def make_evaluator(parts):
    """Return what makes an Evaluator of an environment."""
    model, weights, counters, reports = parts
    evaluators = []

    def make(env, num_episodes=3):
        evaluators.append(
            Evaluator(
                index=0,
                policy=as_policy(model),
                make_env=lambda: env,
                weights=weights,
                counters=counters,
                options=EvaluatorOptions(1000, num_episodes, 4, PLAYED),
                reports=reports,
            )
        )
        return evaluators[-1]

    yield make
    for evaluator in evaluators:
        evaluator.finish()


@pytest.fixture
def evaluator(make_evaluator):
    return make_evaluator(AgentsEnv(Push, inspect_env(Push()), "push", 8, 1))


def look(evaluator, reports):
    (timer,) = evaluator.timers()
    for _ in range(3):
        timer.callback()
    return reports.receive()


def test_it_plays_when_so_many_more_frames_have_been_trained_on(evaluator, parts):
    model, weights, counters, reports = parts
    assert look(evaluator, reports) == [], "there are no weights yet"
    always(model, 1)
    weights.publish(model.state_dict(), 1)
    counters.trained_frames[0] = 999
    assert look(evaluator, reports) == []
    counters.trained_frames[0] = 1016
    values = {"reward": 5.0, "len": 20.0, "true_objective": 3.0, "reward_stddev": 0.0}
    assert look(evaluator, reports) == [EvaluationFinished(0, 1016, 3, values, "Evaluator_0")]
    assert look(evaluator, reports) == [], "once"
    always(model, 0)
    weights.publish(model.state_dict(), 2)
    counters.trained_frames[0] = 2000
    (evaluation,) = look(evaluator, reports)
    assert evaluation.values["reward"] == 0.0, "with the newest weights"


def test_what_training_went_past_is_evaluated_once(evaluator, parts):
    model, weights, counters, reports = parts
    weights.publish(model.state_dict(), 1)
    assert look(evaluator, reports) == []
    counters.trained_frames[0] = 4500
    assert [each.frames for each in look(evaluator, reports)] == [4500]
    assert look(evaluator, reports) == []
    counters.trained_frames[0] = 5000
    assert [each.frames for each in look(evaluator, reports)] == [5000]


def test_a_resumed_run_goes_on_where_it_was(evaluator, parts):
    model, weights, counters, reports = parts
    counters.trained_frames[0] = 5500
    weights.publish(model.state_dict(), 1)
    assert look(evaluator, reports) == []
    counters.trained_frames[0] = 6000
    (evaluation,) = look(evaluator, reports)
    assert evaluation.frames == 6000


def test_the_environment_is_told_how_far_the_training_is(make_evaluator, parts):
    class Told(Push):
        frames = ()

        def set_training_info(self, info):
            self.frames = (*self.frames, info["approx_total_training_steps"])

    inside = Told()
    _, weights, counters, reports = parts
    evaluator = make_evaluator(AgentsEnv(lambda: inside, inspect_env(Push()), "push", 8, 1))
    weights.publish(parts[0].state_dict(), 1)
    for trained in (0, 1016, 2000):
        counters.trained_frames[0] = trained
        look(evaluator, reports)
    assert inside.frames == (1016, 2000)


@pytest.mark.parametrize(
    ("trained", "play_s", "told"),
    [
        (999, 0.25, []),
        (1016, 0.25, []),
        (1016, 0.0, ["not finished"]),
        (1016, None, ["not begun"]),
    ],
    ids=["not due", "finished", "under way", "due"],
)
def test_an_evaluation_that_the_end_of_the_run_cuts_off_is_told(
    evaluator, parts, caplog, monkeypatch, trained, play_s, told
):
    caplog.set_level(logging.INFO)
    model, weights, counters, reports = parts
    weights.publish(model.state_dict(), 1)
    look(evaluator, reports)
    counters.trained_frames[0] = trained
    if play_s is not None:
        monkeypatch.setattr(evaluation_module, "_PLAY_S", play_s)
        look(evaluator, reports)
    evaluator.finish()
    line = "Policy 0: the evaluation after 1,016 frames was {} when the run ended: 0 of 3 episodes"
    assert caplog.messages == [line.format(each) for each in told]


class Late(Push):
    """Each member's episode has as many steps as its number, plus one; the reward of each is its number."""

    def __init__(self, member):
        self.member = member

    def step(self, action):
        observation, _, _, truncated, info = super().step(action)
        return observation, float(self.member), self.num_steps == self.member + 1, truncated, info


def make_late(num_members=3):
    members = [lambda member=member: Late(member) for member in range(num_members)]
    vector = VectorAgents(SyncVectorEnv(members, autoreset_mode=AutoresetMode.SAME_STEP))
    return AgentsEnv(lambda: vector, inspect_env(vector), "late", 0, 1)


@pytest.mark.parametrize(
    ("num_episodes", "of_member"), [(1, [1, 0, 0]), (3, [1, 1, 1]), (6, [2, 2, 2]), (8, [3, 3, 2])]
)
def test_short_episodes_of_members_side_by_side_count_no_more_than_long_ones(model, num_episodes, of_member):
    env = make_late()
    places, counted = Places(env, num_episodes), [0, 0, 0]
    for episode in play(env, Player(as_policy(model), env.num_agents, deterministic=True), 1, 1, PLAYED):
        if episode is not None and places.take(episode):
            counted[episode.agent] += 1
        if places.are_taken:
            break
    assert counted == of_member


def test_an_evaluation_is_of_as_many_episodes_of_each_member(make_evaluator, parts):
    model, weights, counters, reports = parts
    evaluator = make_evaluator(make_late(), num_episodes=6)
    weights.publish(model.state_dict(), 1)
    assert look(evaluator, reports) == []
    for frames in (1000, 2000):
        counters.trained_frames[0] = frames
        (evaluation,) = look(evaluator, reports)
        assert evaluation.num_episodes == 6
        assert evaluation.values["len"] == 4 * (1 + 2 + 3) / 3
        assert evaluation.values["reward"] == pytest.approx((0 * 1 + 1 * 2 + 2 * 3) / 3)


def test_members_of_a_vector_play_episodes_of_their_own(model):
    env = make_late()
    played = play(
        env,
        Player(as_policy(model), env.num_agents, deterministic=True),
        frames_per_step=4,
        repeats=1,
        bad_numbers=PLAYED,
    )
    steps = [next(played) for _ in range(18)]
    episodes = [each for each in steps if each is not None]
    # After each of six steps those who end: 0; 0, 1; 0, 2; 0, 1; 0; 0, 1, 2.
    rewards = [0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 2]
    assert [episode.rewards for episode in episodes] == [(reward * (reward + 1.0),) for reward in rewards][
        : len(episodes)
    ]
    assert [episode.num_frames for episode in episodes] == [4 * (reward + 1) for reward in rewards][: len(episodes)]
    assert len(episodes) >= 7


def test_a_member_that_begins_with_the_next_step_has_seen_and_done_nothing_then(model):
    vector = VectorAgents(SyncVectorEnv([Push, Push], autoreset_mode=AutoresetMode.NEXT_STEP))
    env = AgentsEnv(lambda: vector, inspect_env(vector), "push", 0, 1)
    player, begun = Player(as_policy(model), env.num_agents, deterministic=True), []
    player.begin_episodes = lambda agents: begun.append((len(steps), list(agents)))
    steps = []
    for each in play(env, player, frames_per_step=4, repeats=1, bad_numbers=PLAYED):
        steps.append(each)
        if len(steps) == 20:
            break
    assert [episode.num_frames for episode in steps if episode is not None] == [20] * 4
    # After the first reset; the end, which two episodes follow; and the step that shows the first of the next.
    assert begun[:3] == [(0, [0, 1]), (8, [0, 1]), (9, [0, 1])]


class Leaving:
    """Two agents play seven steps; the first has ended after two, as the next step says once more, and comes back."""

    num_agents = 2
    observation_space, action_space = Push.observation_space, Push.action_space

    def __init__(self, back_at):
        self.back_at = back_at

    def reset(self, *, seed=None, options=None):
        self.num_steps = 0
        return [np.zeros(1, np.float32)] * 2, [{}, {}]

    def step(self, actions):
        self.num_steps += 1
        is_over, is_away = self.num_steps == 7, 2 <= self.num_steps < self.back_at
        terminated = [is_over or (is_away and self.num_steps <= 3), is_over]
        return [np.zeros(1, np.float32)] * 2, [1.0, 1.0], terminated, [False, False], [{"is_active": not is_away}, {}]

    def close(self):
        pass


@pytest.mark.parametrize(
    ("back_at", "begun"), [(4, [(0, [0, 1]), (4, [0]), (7, [0, 1])]), (9, [(0, [0, 1]), (7, [0, 1])])]
)
def test_an_agent_that_has_ended_alone_and_comes_back_has_seen_nothing(model, back_at, begun):
    env = AgentsEnv(lambda: Leaving(back_at), inspect_env(Leaving(back_at)), "leaving", 0, 1)
    player, acted, seen = Player(as_policy(model), env.num_agents, deterministic=True), [], []
    act = player.act
    player.act = lambda observations: acted.append(1) or act(observations)
    player.begin_episodes = lambda agents: seen.append((len(acted), list(agents)))
    for number, each in enumerate(play(env, player, frames_per_step=4, repeats=1, bad_numbers=PLAYED)):
        if each is not None:
            episode = each
        if number == 9:
            break
    assert seen == begun
    assert (episode.rewards, episode.num_frames) == ((7.0, 7.0), 28)


class Sleeping(Leaving):
    """The first agent is inactive until the info of step 3, in each episode of seven."""

    def __init__(self):
        super().__init__(back_at=0)

    def reset(self, *, seed=None, options=None):
        observations, _ = super().reset()
        return observations, [{"is_active": False}, {}]

    def step(self, actions):
        *outcome, _ = super().step(actions)
        return *outcome, [{"is_active": self.num_steps >= 3}, {}]


def test_an_agent_that_is_inactive_at_the_reset_has_seen_nothing_when_it_begins(model):
    env = AgentsEnv(Sleeping, inspect_env(Sleeping()), "sleeping", 0, 1)
    player, acted, seen = Player(as_policy(model), env.num_agents, deterministic=True), [], []
    act = player.act
    player.act = lambda observations: acted.append(1) or act(observations)
    player.begin_episodes = lambda agents: seen.append((len(acted), list(agents)))
    episodes = []
    for each in play(env, player, frames_per_step=4, repeats=1, bad_numbers=PLAYED):
        if each is not None:
            episodes.append((each.rewards, each.num_frames))
        if len(episodes) == 2:
            break
    assert seen == [(0, [0, 1]), (3, [0]), (7, [0, 1]), (10, [0])]
    assert episodes == [((7.0, 7.0), 28)] * 2


class OwnEpisodes(Push):
    """Two agents of whom only the second begins at once; the first does with step 3. Each ends episodes of its own."""

    num_agents = 2

    def reset(self, *, seed=None, options=None):
        self.num_steps = 0
        return [np.zeros(1, np.float32)] * 2, [{"is_active": False}, {}]

    def step(self, actions):
        self.num_steps += 1
        ends = [self.num_steps % 4 == 2 and self.num_steps > 2, self.num_steps % 4 == 0]
        return [np.zeros(1, np.float32)] * 2, [1.0, 1.0], ends, [False] * 2, [{"is_active": self.num_steps > 1}, {}]

    def begin_episodes(self, agents):
        return [np.zeros(1, np.float32)] * len(agents)


def test_what_a_reset_says_of_agents_that_end_apart_is_not_taken_for_later_episodes(model):
    env = AgentsEnv(OwnEpisodes, inspect_env(OwnEpisodes()), "own episodes", 0, 1)
    player, acted, seen, episodes = Player(as_policy(model), env.num_agents, deterministic=True), [], [], []
    act = player.act
    player.act = lambda observations: acted.append(1) or act(observations)
    player.begin_episodes = lambda agents: seen.append((len(acted), list(agents)))
    for each in play(env, player, frames_per_step=1, repeats=1, bad_numbers=PLAYED):
        if each is not None:
            episodes.append((each.agent, each.rewards, each.num_frames))
        if len(episodes) == 4:
            break
    assert episodes == [(1, (4.0,), 4), (0, (4.0,), 4), (1, (4.0,), 4), (0, (4.0,), 4)]
    assert seen == [(0, [0, 1]), (2, [0]), (4, [1]), (6, [0]), (8, [1])]


class PushInArrays(Push):
    """The same, told in arrays of one number."""

    def step(self, action):
        observation, *outcome, info = super().step(action)
        return observation, *(np.array([value]) for value in outcome), info


def test_rewards_and_flags_in_arrays_of_one_are_played_as_numbers(model):
    episodes = []
    for make in (Push, PushInArrays):
        env = AgentsEnv(make, inspect_env(make()), "push", 0, 1)
        played = play(
            env, Player(as_policy(model), 1, deterministic=True), frames_per_step=4, repeats=2, bad_numbers=PLAYED
        )
        episodes.append(next(each for each in played if each is not None))
    assert episodes[0] == episodes[1]


class Spoilt(Push):
    """The second step's observation is no number, and the first of the second episode is infinite."""

    num_episodes = 0

    def reset(self, *, seed=None, options=None):
        self.num_episodes += 1
        observation, info = super().reset()
        return observation + (np.inf if self.num_episodes == 2 else 0), info

    def step(self, action):
        observation, *rest = super().step(action)
        return observation + (np.nan if self.num_steps == 2 else 0), *rest


def play_spoilt(model, stops):
    """Play two episodes; return what the policy is shown, by step."""
    shown, player = [], Player(as_policy(model), 1, deterministic=True)
    act = player.act
    player.act = lambda observations: shown.append(observations[0]["obs"].item()) or act(observations)
    env = AgentsEnv(Spoilt, inspect_env(Push()), "spoilt", 7, 1)
    bad_numbers = BadNumbers("spoilt", stops=stops, is_training=False)
    played = play(env, player, frames_per_step=1, repeats=1, bad_numbers=bad_numbers)
    assert len([next(played) for _ in range(14)]) == 14
    return shown


def test_a_policy_is_shown_zeros_for_what_is_not_finite_and_it_is_said_once(model, caplog):
    assert play_spoilt(model, stops=False) == [0.0] * 10
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "environment 7 (spoilt), agent 0, returned NaN in 1 of 1 numbers of observation 'obs' in step 2" in warning
    assert warning.endswith("the policy sees 0 in its place (number 1 of this process)")


def test_what_is_not_finite_ends_the_playing_if_that_is_wanted(model):
    with pytest.raises(EnvContractError, match=r"in step 2 of .*--on_bad_numbers=skip to show the policy 0"):
        play_spoilt(model, stops=True)


class Unpaid(Push):
    """The second step's reward is no number, nor is what the episode tells."""

    def step(self, action):
        observation, reward, is_over, is_cut, info = super().step(action)
        told = {"episode_extra_stats": {"kills": np.inf, "deaths": 2}} if is_over else {}
        return observation, np.nan if self.num_steps == 2 else reward, is_over, is_cut, info | told


def play_unpaid(model, stops):
    """Play an episode whose actions are all worth 1, and return it."""
    always(model, 1)
    env = AgentsEnv(Unpaid, inspect_env(Push()), "unpaid", 7, 1)
    bad_numbers = BadNumbers("unpaid", stops=stops, is_training=False)
    played = play(
        env, Player(as_policy(model), 1, deterministic=True), frames_per_step=1, repeats=1, bad_numbers=bad_numbers
    )
    return next(episode for episode in played if episode is not None)


def test_a_reward_that_is_not_finite_counts_as_0_and_such_statistics_are_left_out(model, caplog):
    episode = play_unpaid(model, stops=False)
    assert (episode.rewards, episode.extra) == ((4.0,), {"deaths": 2.0, "true_objective": 3.0})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "environment 7 (unpaid), agent 0, returned the reward nan in step 2 of an episode: it counts as 0" in warning


def test_a_reward_that_is_not_finite_ends_the_playing_if_that_is_wanted(model):
    with pytest.raises(EnvContractError, match=r"the reward nan in step 2 of .*--on_bad_numbers=skip to count it as 0"):
        play_unpaid(model, stops=True)


class Breaks(Push):
    """Keeps its contract for three steps."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return (np.zeros(2, np.float32) if self.num_steps == 4 else observation), reward, *rest


def test_an_environment_that_breaks_its_contract_later_is_blamed_for_what_follows(model):
    env = AgentsEnv(Breaks, inspect_env(Breaks()), "push", 0, 1)
    played = play(env, Player(as_policy(model), 1, deterministic=True), 1, 1, PLAYED)
    with pytest.raises(EnvContractError, match=r"environment 0 \(push\).*shape"):
        for _ in range(10):
            next(played)
