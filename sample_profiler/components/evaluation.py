"""Owns the playing of a policy: one environment, actions drawn as in training, no learning.

`play` serves the `enjoy_*` commands; the Evaluator plays while a run trains, in a process of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.component_id import EVALUATOR, ComponentId
from sample_profiler.components.messages import Counters, EvaluationFinished
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.envs.episodes import EpisodeTracker
from sample_profiler.errors import SampleProfilerError
from sample_profiler.model.policy import Policy
from sample_profiler.profiling import Timing, get_timing
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.machine.children_time import ChildrenTime
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.vocabulary import CHILDREN_CPU_S, ENV_RESET, ENV_STEP, FOR_LEARNER, MAKE_ENV, WAIT

__all__ = [
    *("Cast", "Evaluator", "EvaluatorOptions", "Places", "PlayedEpisode", "Player", "cast_player"),
    *("describe_evaluation", "play"),
]

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 0.05
_PLAY_S = 0.25  # after which the loop has its turn: heartbeats, commands, the end of the run


@dataclass(frozen=True)
class PlayedEpisode:
    """One episode.

    Attributes:
        rewards: of each agent that ended it, summed over the episode.
        num_frames: that it took.
        extra: `episode_extra_stats` and `true_objective` of its last infos, means over the agents.
        agent: the first of those who ended it.
    """

    rewards: tuple[float, ...]
    num_frames: int
    extra: dict[str, float] = field(default_factory=dict)
    agent: int = 0

    @property
    def reward(self) -> float:
        """Mean over the agents."""
        return float(np.mean(self.rewards))


class Places:
    """Says which episodes count, where so many are wanted.

    Agents that end apart play side by side. The first so many to end would be the short ones above all, so each agent
    has its share of the places, whatever its episodes take; those it ends beyond that do not count.

    Args:
        env: that is played.
        num_episodes: that are wanted.
        agents: whose episodes these are; None: those of all.
    """

    def __init__(self, env: AgentsEnv, num_episodes: int, agents: Sequence[int] | None = None) -> None:
        agents = range(env.num_agents) if agents is None else agents
        teams = agents if env.ends_apart else agents[:1]
        share, num_with_one_more = divmod(num_episodes, len(teams))
        self._left = {agent: share + (team < num_with_one_more) for team, agent in enumerate(teams)}

    def take(self, episode: PlayedEpisode) -> bool:
        """Tell whether an episode counts; if so, its place is taken."""
        if not self._left[episode.agent]:
            return False
        self._left[episode.agent] -= 1
        return True

    @property
    def are_taken(self) -> bool:
        """Whether there are as many episodes as were wanted."""
        return not any(self._left.values())


class Player:
    """Draws the actions of all agents of one environment from one policy.

    Args:
        policy: that plays.
        num_agents: of the environment.
        deterministic: whether the most probable action is taken.

    Attributes:
        agents: whose episodes are told of.
    """

    def __init__(self, policy: Policy, num_agents: int, *, deterministic: bool = False) -> None:
        self.agents: Sequence[int] = range(num_agents)
        self._policy = policy
        self._deterministic = deterministic
        self._states = torch.zeros(num_agents, policy.state_size)

    @property
    def trained_frames(self) -> int:
        """Frames that the policy has been trained on."""
        return self._policy.trained_frames

    @torch.inference_mode()
    def begin_episodes(self, agents: Sequence[int]) -> None:
        """Forget what agents have seen."""
        self._states[list(agents)] = 0.0

    def act(self, observations: list[dict[str, Any]]) -> npt.NDArray[Any]:
        """Return the action of each agent, `[num_agents, action_width]`, and remember what was seen."""
        batch = {key: np.stack([each[key] for each in observations]) for key in observations[0]}
        actions, self._states = self._policy.choose(batch, self._states, deterministic=self._deterministic)
        numbers: npt.NDArray[Any] = actions.cpu().numpy()
        return numbers


class Cast:
    """Draws the actions of agents whose spaces differ, so that no policy plays all of them.

    Args:
        policies: by number.
        roles: the number of the policy that plays each agent.
        leading: number of the policy that is looked at.
        deterministic: whether the most probable actions are taken.

    Attributes:
        agents: whose episodes are told of: those of the policy that is looked at.
    """

    def __init__(
        self, policies: Mapping[int, Policy], roles: Sequence[int], leading: int, *, deterministic: bool = False
    ) -> None:
        self._agents = {number: [agent for agent, role in enumerate(roles) if role == number] for number in policies}
        self._players = {
            number: Player(policy, len(self._agents[number]), deterministic=deterministic)
            for number, policy in policies.items()
        }
        self._leading = leading
        self.agents: Sequence[int] = self._agents[leading]

    @property
    def trained_frames(self) -> int:
        """Frames that the policy which is looked at has been trained on."""
        return self._players[self._leading].trained_frames

    def begin_episodes(self, agents: Sequence[int]) -> None:
        """Forget what agents have seen."""
        for number, own in self._agents.items():
            self._players[number].begin_episodes([own.index(agent) for agent in agents if agent in own])

    def act(self, observations: list[dict[str, Any]]) -> list[npt.NDArray[Any]]:
        """Return the action of each agent, `[action_width]`, and remember what was seen."""
        actions: dict[int, npt.NDArray[Any]] = {}
        for number, own in self._agents.items():
            actions |= zip(own, self._players[number].act([observations[agent] for agent in own]), strict=True)
        return [actions[agent] for agent in range(len(observations))]


def cast_player(
    policies: Mapping[int, Policy], roles: Sequence[int], leading: int, *, deterministic: bool = False
) -> Player | Cast:
    """Make what draws the actions of all agents of an environment; arguments are those of a `Cast`."""
    if len(policies) > 1:
        return Cast(policies, roles, leading, deterministic=deterministic)
    return Player(policies[leading], len(roles), deterministic=deterministic)


def play(
    env: AgentsEnv, player: Player | Cast, frames_per_step: int, repeats: int, bad_numbers: BadNumbers
) -> Iterator[PlayedEpisode | None]:
    """Play one episode after another, for ever.

    Args:
        env: to play.
        player: draws the actions.
        frames_per_step: frames that one step of the environment takes.
        repeats: steps of the environment for which each action is held.
        bad_numbers: what follows where the environment returns numbers that are not finite.

    Yields:
        None after each reset and each step of the environment; an episode after its last step.

    Raises:
        EnvError: the environment raised.
        EnvContractError: it returned what is not of its spaces, or numbers that are not finite, which is to end this.
    """
    try:
        yield from _play(env, player, frames_per_step, repeats, bad_numbers)
    except SampleProfilerError:
        raise
    except Exception:
        env.check_returned()
        raise


def _play(
    env: AgentsEnv, player: Player | Cast, frames_per_step: int, repeats: int, bad_numbers: BadNumbers
) -> Iterator[PlayedEpisode | None]:
    timing = get_timing()
    agents = range(env.num_agents)
    env.set_training_info(player.trained_frames)
    with timing.add_time(ENV_RESET):
        observations = env.reset()
    player.begin_episodes(agents)
    yield None
    counted = EpisodeTracker([env.ends_apart] * len(agents))
    counted.note_active(0, env.begin_infos)
    counted.begin(agents)
    while True:
        for agent in agents:
            has_begun = counted.lengths[agent] > 0
            where = f"step {counted.lengths[agent]} of an episode" if has_begun else "the reset of an episode"
            observations[agent] = bad_numbers.mended(env.index, agent, observations[agent], where)
        with timing.add_time("inference"):
            actions = player.act(observations)
        ended: Sequence[int] = ()
        for _ in range(repeats):
            with timing.add_time(ENV_STEP):
                observations, step_rewards, terminated, truncated, infos = env.step(actions)
            counted.lengths += 1
            for agent, reward in enumerate(step_rewards):
                where = f"step {counted.lengths[agent]} of an episode"
                counted.returns[agent] += bad_numbers.counted(env.index, agent, reward, where)
            counted.note_active(0, infos)
            if late := counted.begin_late():
                player.begin_episodes(late)
            yield None
            ended = env.ended_agents(terminated, truncated, infos)
            if ended:
                break
            counted.end_alone(0, terminated, truncated)
        if not ended:
            continue
        told = [agent for agent in ended if agent in player.agents]
        for team in [[agent] for agent in told] if env.ends_apart else [told]:
            num_frames = int(counted.lengths[team[0]]) * frames_per_step
            where = f"step {counted.lengths[team[0]]} of an episode"
            extra = _mean_by_name(
                [bad_numbers.kept(env.index, agent, env.episode_statistics(infos[agent]), where) for agent in team]
            )
            yield PlayedEpisode(tuple(counted.returns[team].tolist()), num_frames, extra, team[0])
        with timing.add_time(ENV_RESET):
            for agent, observation in zip(ended, env.begin_episodes(ended), strict=True):
                observations[agent] = observation
        player.begin_episodes(ended)
        if not env.ends_apart:  # else their latest infos say who is active
            counted.note_active(0, env.begin_infos)
        counted.begin(ended)
        yield None


@dataclass(frozen=True)
class EvaluatorOptions:
    """How a policy is evaluated.

    Attributes:
        every_frames: of training, between two evaluations.
        num_episodes: of each.
        frames_per_step: frames that an agent step counts for.
        bad_numbers: what follows where the environment returns numbers that are not finite.
    """

    every_frames: int
    num_episodes: int
    frames_per_step: int
    bad_numbers: BadNumbers


class Evaluator:
    """Plays episodes with the newest weights of a policy whenever it has been trained on so many more frames.

    Args:
        index: of the policy.
        policy: that plays, with a network like the Learner's, whose weights are replaced.
        make_env: builds the environment.
        weights: that the Learner publishes.
        counters: tell how far the training is.
        options: how it is evaluated.
        reports: where results go.
        roles: the number of the policy that plays each agent; empty: this one plays all.
        others: further policies that play, by number, and the weights that their Learners publish.
    """

    def __init__(
        self,
        index: int,
        policy: Policy,
        make_env: Callable[[], AgentsEnv],
        weights: PolicyWeights,
        counters: Counters,
        options: EvaluatorOptions,
        reports: Reports,
        roles: Sequence[int] = (),
        others: Mapping[int, tuple[Policy, PolicyWeights]] | None = None,
    ) -> None:
        self.name = str(ComponentId(EVALUATOR, index))
        self.timing = Timing(f"Evaluator {index} profile")
        self._index = index
        self._policy = policy
        self._weights = weights
        self._roles = roles
        self._others = others or {}
        self._counters = counters
        self._options = options
        self._reports = reports
        self._next_frames = -1
        self._frames = 0
        self._episodes: list[PlayedEpisode] = []
        self._playing: Iterator[PlayedEpisode | None] | None = None
        self._children_time = ChildrenTime()
        with self.timing.add_time(MAKE_ENV):
            self._env = make_env()

    def inputs(self) -> list[Input]:
        """Listen to nobody."""
        return []

    def timers(self) -> list[Timer]:
        """Look whether it is time to play, and play."""
        return [Timer(_LOOK_INTERVAL_S, self._on_timer)]

    def gauges(self) -> dict[str, float]:
        """Measure how far the evaluation under way is, and the time of games that run in processes of their own."""
        children_s = self._children_time.seconds()
        gauges = {"episodes_played": float(len(self._episodes))}
        return gauges if children_s is None else gauges | {CHILDREN_CPU_S: children_s}

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer nothing of its own."""
        return {}

    def start(self) -> None:
        """Wait for the policy to be trained."""

    def wait_block(self) -> str:
        """Tell that the Evaluator waits for the Learner."""
        return WAIT + FOR_LEARNER

    def finish(self) -> None:
        """Leave an evaluation under way unfinished, and one that is due unbegun, and say so."""
        trained = int(self._counters.trained_frames[self._index])
        message = "Policy %d: the evaluation after %s frames was not %s when the run ended: %d of %d episodes"
        if self._playing is not None:
            played = len(self._episodes)
            logger.info(message, self._index, f"{self._frames:,}", "finished", played, self._options.num_episodes)
        elif 0 <= self._next_frames <= trained:
            logger.info(message, self._index, f"{trained:,}", "begun", 0, self._options.num_episodes)
        self._env.close()

    def _on_timer(self) -> None:
        trained = int(self._counters.trained_frames[self._index])
        if self._next_frames < 0 and self._weights.version >= 0:  # a resumed run goes on where it was
            self._next_frames = (trained // self._options.every_frames + 1) * self._options.every_frames
        if self._playing is None and 0 <= self._next_frames <= trained:
            self._begin(trained)
        end_s = time.monotonic() + _PLAY_S
        while self._playing is not None and time.monotonic() < end_s:
            episode = next(self._playing)
            if episode is not None and self._places.take(episode):
                self._episodes.append(episode)
                if self._places.are_taken:
                    self._end()

    def _begin(self, trained_frames: int) -> None:
        with self.timing.add_time("load_weights"):
            for policy, weights in ((self._policy, self._weights), *self._others.values()):
                weights.load_into(policy.state_dict())
                policy.refresh()
        self._policy.trained_frames = trained_frames
        self._frames = trained_frames
        self._next_frames = (trained_frames // self._options.every_frames + 1) * self._options.every_frames
        policies = {self._index: self._policy, **{number: policy for number, (policy, _) in self._others.items()}}
        player = cast_player(policies, self._roles or [self._index] * self._env.num_agents, self._index)
        self._places = Places(self._env, self._options.num_episodes, player.agents)
        self._playing = play(
            self._env, player, self._options.frames_per_step, repeats=1, bad_numbers=self._options.bad_numbers
        )

    def _end(self) -> None:
        self._reports.send(describe_evaluation(self._index, self._frames, self._episodes, self.name))
        self._episodes, self._playing = [], None


def describe_evaluation(
    policy: int, frames: int, episodes: Sequence[PlayedEpisode], component: str
) -> EvaluationFinished:
    """Return what is told of an evaluation.

    Args:
        policy: that has played.
        frames: that it had been trained on.
        episodes: one or more.
        component: that has let it play.
    """
    values = {
        key: [episode.extra[key] for episode in episodes if key in episode.extra]
        for key in {key for episode in episodes for key in episode.extra}
    }
    values["reward"] = [episode.reward for episode in episodes]
    values["len"] = [float(episode.num_frames) for episode in episodes]
    means = {key: float(np.mean(each)) for key, each in values.items()}
    means["reward_stddev"] = float(np.std(values["reward"], ddof=1)) if len(episodes) > 1 else 0.0
    return EvaluationFinished(policy, frames, len(episodes), means, component)


def _mean_by_name(statistics: list[dict[str, float]]) -> dict[str, float]:
    collected: dict[str, list[float]] = {}
    for each in statistics:
        for key, value in each.items():
            collected.setdefault(key, []).append(value)
    return {key: float(np.mean(values)) for key, values in collected.items()}
