"""A group of environments of one RolloutWorker, stepped as one vector: actions in, transitions written into slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from sample_profiler.components.messages import EpisodeStatistics
from sample_profiler.components.rollout_worker.env_times import NUM_LENGTHS
from sample_profiler.components.rollout_worker.row_parts import find_parts, spread_parts
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.attribution import checks_contract_on_error
from sample_profiler.envs.bad_numbers import (
    BadNumbers,
    describe_bad,
    describe_bad_reward,
    is_finite,
    is_finite_number,
    without_bad,
)
from sample_profiler.envs.episodes import EpisodeTracker
from sample_profiler.profiling import Timing
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.storage.sampling_plan import Group
from sample_profiler.storage.trajectories import Trajectories, address_of
from sample_profiler.vocabulary import ENV_RESET, ENV_STEP

__all__ = ["SteppingGroup"]

_STEPS_OF_AVERAGE = 8  # a single step may have been displaced by another process
_NUM_OFFSETS = 16  # bounds the random steps, which would grow with the square of the number of environments

Rows = int | npt.NDArray[np.intp]
"""Of a group: one, or several at once, whose values then have a first dimension of that length."""

Numbers = Sequence[float] | npt.NDArray[Any]
Flags = Sequence[bool] | npt.NDArray[np.bool_]


class SteppingGroup:
    """Environments that step together, each of their agents writing to a slot of its own.

    Args:
        group: which environments and agent rows these are.
        envs: the environments.
        trajectories: memory to write to.
        timing: of the worker.
        value_bootstrap: whether truncated episodes need the value of their final observation.
        frames_per_step: what one agent step counts for in statistics.
        bad_numbers: what follows where an environment returns numbers that are not finite.

    Attributes:
        rows_of_policy: (policy, how many rows follow it), for the policies that the group has.
        slots: `[rows]` int32: where each row writes.
        step_index: step of the rollout for which actions are wanted next; `rollout`: all steps are done.
        num_replies_due: policies that have not answered yet.
        episodes: that ended since somebody last emptied this list.
        env_steps: `[envs][NUM_LENGTHS]`: how many steps of each environment took how long, by `bit_length` of that.
        env_ns: `[envs][NUM_LENGTHS]`: nanoseconds that these took together.
        reset_ns: nanoseconds spent in each environment to begin episodes when others had ended.
        step_ns: nanoseconds that a step of the group takes, a moving average.
        is_on_device: its steps are work that a device is given.
    """

    is_on_device = False

    def __init__(
        self,
        group: Group,
        envs: Sequence[AgentsEnv],
        trajectories: Trajectories,
        timing: Timing,
        value_bootstrap: bool,
        frames_per_step: int,
        bad_numbers: BadNumbers,
    ) -> None:
        self.index = group.index
        self.policies = group.policies
        self.rows_of_policy = sorted(Counter(group.policies).items())
        self.slots: npt.NDArray[np.int32] = np.zeros(len(group.rows), dtype=np.int32)
        self.step_index = trajectories.layout.rollout
        self.num_replies_due = 0
        self.episodes: list[EpisodeStatistics] = []
        # Where all rows write: what `slots` says, in the quickest way to address it.
        self._where: slice | npt.NDArray[np.int32] = self.slots
        self._rows = slice(group.rows.start, group.rows.stop)
        self._first_row = group.rows.start
        self._first_env = group.envs.start
        self._envs = envs
        self._num_agents = len(group.rows) // len(envs)
        self._trajectories = trajectories
        self._timing = timing
        self._value_bootstrap = value_bootstrap
        self._frames_per_step = frames_per_step
        self._bad_numbers = bad_numbers
        self._parts = find_parts(trajectories, group.policies)
        self._part_of_row = spread_parts(self._parts, len(group.rows))
        self._float_keys = self._parts[0].float_keys
        # Rows whose observation for the next step had to be replaced.
        self._spoiled_rows: list[int] = []
        self.env_steps, self.env_ns = ([[0] * NUM_LENGTHS for _ in envs] for _ in range(2))
        self.reset_ns = [0] * len(envs)
        self.step_ns = 0.0
        # First observations of new episodes that wait for the next rollout to begin, and whose they are.
        self._fresh: list[tuple[Rows, dict[str, Any]]] = []
        self._counted = EpisodeTracker([env.ends_apart for env in envs for _ in range(self._num_agents)])

    @profile_range("SteppingGroup.reset")
    @checks_contract_on_error
    def reset(self, num_random_steps: int, after_each: Callable[[], None] = lambda: None) -> None:
        """Begin an episode everywhere.

        Args:
            num_random_steps: environment i of the group then takes i (modulo 16) times as many random steps, so that
                episodes of a fixed length do not end all at once; 0: none.
            after_each: is called after each reset of an environment and each of its random steps.
        """
        # A worker that was lost may have left final observations for whose values nobody will ask any more.
        self._trajectories.final_step[self._rows] = 0
        self._fresh = []
        for i, env in enumerate(self._envs):
            agents = range(self._num_agents)
            observations = self._mended(i, agents, env.reset())
            first = i * self._num_agents
            rows = np.arange(first, first + self._num_agents)
            self._counted.note_active(first, env.begin_infos)
            self._counted.begin(rows)
            after_each()
            for _ in range(i % _NUM_OFFSETS * num_random_steps):
                observations = self._take_random_step(i, observations)
                after_each()
            self._fresh += enumerate(observations, first)
            # After random steps it is no whole episode of the policy.
            self._counted.is_partial[rows] = self._counted.lengths[rows] > 0

    def _take_random_step(self, i: int, observations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what the agents of an environment observe after it; where it ended an episode, of the next one."""
        env = self._envs[i]
        with self._timing.add_time(ENV_STEP):
            observations, _, terminated, truncated, infos = env.step(env.random_actions(observations))
        observations = self._mended(i, range(self._num_agents), observations, "a random step before the first rollout")
        first = i * self._num_agents
        self._counted.lengths[first : first + self._num_agents] += 1
        if self._num_agents > 1:
            self._counted.note_active(first, infos)
            self._counted.begin_late()
        if ended := env.ended_agents(terminated, truncated, infos):
            for agent, observation in zip(ended, self._begin_episodes(i, ended), strict=True):
                observations[agent] = observation
        else:
            self._counted.end_alone(first, terminated, truncated)
        return observations

    def course(self) -> dict[str, Any]:
        """Return where the group is, without its environments and trajectories, as data for `follow`."""
        return {
            "slots": self.slots.copy(),
            "step_index": self.step_index,
            "num_replies_due": self.num_replies_due,
            "fresh": list(self._fresh),
            "spoiled_rows": list(self._spoiled_rows),
            **self._counted.course(),
        }

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of a reset."""
        self.slots = course["slots"]
        self._where = address_of(self.slots)
        self.step_index, self.num_replies_due = course["step_index"], course["num_replies_due"]
        self._fresh, self._spoiled_rows = course["fresh"], course["spoiled_rows"]
        self._counted.follow(course)

    @profile_range("SteppingGroup.begin_rollout")
    @checks_contract_on_error
    def begin_rollout(self, slots: npt.NDArray[np.int32]) -> None:
        """Continue in new slots: step 0 is what follows the last step of the old ones, or a new episode.

        Args:
            slots: `[rows]`; the old slots may be among them.
        """
        memory = self._trajectories
        old, new, last = self._where, address_of(slots), memory.layout.rollout
        memory.states[new, 0] = memory.states[old, last]
        for part in self._parts:
            olds, news = (old, new) if part.rows is None else (self.slots[part.rows], slots[part.rows])
            for array in part.memory.observations.values():
                array[news, 0] = array[olds, last]
        for rows, observation in self._fresh:
            self._write_observation(self._memory_of(rows), slots[rows], 0, observation)
            memory.states[slots[rows], 0] = 0.0
        self._fresh = []
        memory.inactive[new] = False
        memory.spoiled[new] = False
        memory.starts_episode[new] = False
        self.slots, self._where = slots, new
        self.step_index = 0
        memory.row_slot[self._rows] = slots

    @profile_range("SteppingGroup.step")
    @checks_contract_on_error
    def step(self) -> None:
        """Step all environments with the actions that are there for the current step."""
        memory, step, where = self._trajectories, self.step_index, self._where
        step_begin_ns = perf_counter_ns()
        was_inactive = self._counted.inactive.copy() if self._num_agents > 1 else None
        self._counted.lengths += 1
        rewards, terminated, truncated, end = self._step_envs(self._actions())
        if was_inactive is not None:
            memory.inactive[where, step] = was_inactive
        if self._spoiled_rows:
            self._leave_out(self.slots[self._spoiled_rows])
            self._spoiled_rows.clear()
        rewards = np.asarray(rewards)
        if not self._are_finite(rewards):
            rewards = self._mend_numbers(rewards)
        self._counted.returns += rewards
        if late := self._counted.begin_late():
            # Inference has seen observations of steps without them; what it remembers of these is of no episode.
            self._begin_with_zeros(np.array(late))
        memory.rewards[where, step] = rewards
        memory.terminated[where, step] = terminated
        memory.truncated[where, step] = truncated
        if end is not None:  # behind the writing: a vector that is reset may clear its own arrays
            end()
        self.step_index = step + 1
        self._note_step_time(perf_counter_ns() - step_begin_ns)

    def _note_step_time(self, step_ns: int) -> None:
        self.step_ns += (step_ns - self.step_ns) / _STEPS_OF_AVERAGE if self.step_ns else step_ns

    def _actions(self) -> Any:
        """Return the actions of all rows, `[rows, action_width]`; a list, where agents have actions of their own."""
        step = self.step_index
        if len(self._parts) == 1:
            return self._trajectories.actions[self._where, step]
        return [part.memory.actions[slot, step] for part, slot in zip(self._part_of_row, self.slots, strict=True)]

    def _memory_of(self, rows: Rows) -> Trajectories:
        """Return the trajectories as these rows see them; several at once are members of a vector, of one kind."""
        return self._part_of_row[rows].memory if isinstance(rows, int) else self._trajectories

    def _step_envs(self, actions: Any) -> tuple[Numbers, Flags, Flags, Callable[[], None] | None]:
        """Take a step in all environments, and write what they observe.

        Returns:
            Rewards, terminated and truncated of all rows, and what is left to do where episodes have ended.
        """
        num_agents, behind, part_of_row = self._num_agents, self.step_index + 1, self._part_of_row
        slot_of_row = self.slots.tolist()  # numbers of Python, by which arrays are indexed more quickly
        rewards: list[float] = []
        all_terminated: list[bool] = []
        all_truncated: list[bool] = []
        ends: list[tuple[int, list[bool], list[bool], list[dict[str, Any]]]] = []
        for i, env in enumerate(self._envs):
            first = i * num_agents
            begin_ns = perf_counter_ns()
            observations, reward, terminated, truncated, infos = env.step(actions[first : first + num_agents])
            self._count_step(i, perf_counter_ns() - begin_ns)
            rewards += reward
            all_terminated += terminated
            all_truncated += truncated
            for agent in range(num_agents):
                row = first + agent
                self._write_observation(part_of_row[row].memory, slot_of_row[row], behind, observations[agent])
            if num_agents > 1:
                self._counted.note_active(first, infos)
            if True in terminated or True in truncated:
                ends.append((i, terminated, truncated, infos))
        return rewards, all_terminated, all_truncated, partial(self._end, ends) if ends else None

    def _count_step(self, i: int, env_ns: int) -> None:
        """Count a step of an environment among those that took about as long."""
        length = env_ns.bit_length()
        self.env_steps[i][length] += 1
        self.env_ns[i][length] += env_ns

    def _end(self, ends: Sequence[tuple[int, list[bool], list[bool], list[dict[str, Any]]]]) -> None:
        """Look at what has ended in environments: their episodes, or those of single agents."""
        for i, terminated, truncated, infos in ends:
            if agents := self._envs[i].ended_agents(terminated, truncated, infos):
                self._end_episodes(i, agents, terminated, infos)
            else:
                self._end_alone(i, terminated, truncated)

    def _are_finite(self, rewards: npt.NDArray[Any]) -> bool:
        """Look at the numbers of this step all at once."""
        if not is_finite(rewards):
            return False
        behind = self.step_index + 1
        for part in self._parts:
            where = self._where if part.rows is None else self.slots[part.rows]
            if not all(is_finite(part.memory.observations[key][where, behind]) for key in part.float_keys):
                return False
        return True

    def _mend_numbers(self, rewards: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Put zeros in the place of numbers that are not finite, and leave the steps that they touch out of training.

        Returns:
            The rewards with such zeros.

        Raises:
            EnvContractError: that is not wanted.
        """
        step = self.step_index
        rewards = rewards.copy()  # what an environment returned is its own
        for row, slot in enumerate(self.slots):
            env, agent = divmod(row, self._num_agents)
            where = f"step {self._counted.lengths[row]} of an episode"
            if not is_finite_number(rewards[row]):
                self._bad_numbers.report(self._first_env + env, agent, describe_bad_reward(rewards[row]), where)
                rewards[row] = 0.0
                self._leave_out(slot)
            seen = self._part_of_row[row].memory.observations
            for key in self._part_of_row[row].float_keys:
                values = seen[key][slot, step + 1]
                if not is_finite(values):
                    self._bad_numbers.report(self._first_env + env, agent, describe_bad(key, values), where)
                    seen[key][slot, step + 1] = without_bad(values)
                    self._leave_out(slot)
                    self._spoiled_rows.append(row)
        return rewards

    def _leave_out(self, slots: npt.NDArray[np.int32] | np.int32) -> None:
        """Leave the current step out of training, in these slots, because of its numbers."""
        memory, step = self._trajectories, self.step_index
        memory.spoiled[slots, step] |= ~memory.inactive[slots, step]
        memory.inactive[slots, step] = True

    def _begin_episodes(self, i: int, agents: Sequence[int]) -> list[dict[str, Any]]:
        """Begin the next episodes of agents, and count from there on."""
        env = self._envs[i]
        observations = self._mended(i, agents, env.begin_episodes(agents))
        first = i * self._num_agents
        if not env.ends_apart:  # else their latest infos say who is active
            self._counted.note_active(first, env.begin_infos)
        self._counted.begin([first + agent for agent in agents])
        return observations

    def _mended(
        self,
        i: int,
        agents: Sequence[int],
        observations: list[dict[str, Any]],
        where: str = "the reset of an episode",
    ) -> list[dict[str, Any]]:
        """Put zeros in the place of what is not finite in observations of these agents that no step has written."""
        for index, agent in enumerate(agents):
            mended = self._bad_numbers.mended(self._first_env + i, agent, observations[index], where)
            if mended is not observations[index]:
                observations[index] = mended
                self._spoiled_rows.append(i * self._num_agents + agent)
        return observations

    def check_returned(self) -> None:
        """Look for a broken contract in what the environments returned last.

        Raises:
            EnvContractError: there it is.
        """
        for env in self._envs:
            env.check_returned()

    @profile_range("SteppingGroup.end_episode")
    def _end_episodes(self, i: int, ended: Sequence[int], terminated: list[bool], infos: list[dict[str, Any]]) -> None:
        """Note the episodes that ended, keep what their value bootstrap needs, and begin the next ones."""
        first = i * self._num_agents
        for agent in ended:
            self._note_episode(i, agent, infos[agent])
            if not terminated[agent]:
                self._keep_final(first + agent)
        with self._timing.add_time(ENV_RESET):
            begin_ns = perf_counter_ns()
            observations = self._begin_episodes(i, ended)
            self.reset_ns[i] += perf_counter_ns() - begin_ns
        for agent, observation in zip(ended, observations, strict=True):
            self._begin_behind(first + agent, observation)

    def _note_episode(self, i: int, agent: int, info: Mapping[str, Any]) -> None:
        """Note an episode that has ended, unless it began with random steps."""
        row = i * self._num_agents + agent
        if not self._counted.is_partial[row]:
            self._tell_of_episode(i, row, info, float(self._counted.returns[row]), int(self._counted.lengths[row]))

    def _tell_of_episode(self, i: int, row: int, info: Mapping[str, Any], episode_return: float, length: int) -> None:
        statistics = self._envs[i].episode_statistics(info)
        agent, where = row - i * self._num_agents, f"step {length} of an episode"
        extra = self._bad_numbers.kept(self._first_env + i, agent, statistics, where)
        num_frames = length * self._frames_per_step
        self.episodes.append(EpisodeStatistics(self.policies[row], episode_return, num_frames, extra))

    def _begin_behind(self, rows: Rows, observation: dict[str, Any]) -> None:
        """Let the next episode of rows begin behind the current step."""
        behind = self.step_index + 1
        if behind == self._trajectories.layout.rollout:
            # o_T and h_T stay those of the episode that ended: the Learner bootstraps from them.
            self._fresh.append((rows, observation))
        else:
            self._write_observation(self._memory_of(rows), self.slots[rows], behind, observation)
            self._begin_with_zeros(rows)

    def _end_alone(self, i: int, terminated: Sequence[bool], truncated: Sequence[bool]) -> None:
        """Keep what the value bootstrap needs of agents whose episode ended while that of others goes on."""
        first = i * self._num_agents
        for row in self._counted.end_alone(first, terminated, truncated):
            if not terminated[row - first]:
                self._keep_final(row)

    def _begin_with_zeros(self, rows: Rows) -> None:
        """Let the next step of rows be entered with a recurrent state of zeros."""
        memory, slot, behind = self._trajectories, self.slots[rows], self.step_index + 1
        memory.states[slot, behind] = 0.0
        if behind < memory.layout.rollout:
            memory.starts_episode[slot, behind] = True

    def _keep_final(self, rows: Rows) -> None:
        """Keep the final observation of episodes that were cut off for inference, which computes their value.

        Behind the last step of a rollout there is no need to: the Learner finds it there.
        """
        memory, slot, behind = self._trajectories, self.slots[rows], self.step_index + 1
        if not self._value_bootstrap or behind == memory.layout.rollout:
            return
        of_run = self._first_row + rows
        own = self._memory_of(rows)
        for key, array in own.final_observations.items():
            array[of_run] = own.observations[key][slot, behind]
        memory.final_states[of_run] = memory.states[slot, behind]
        memory.final_step[of_run] = behind

    @profile_range("SteppingGroup.write_observation")
    def _write_observation(self, memory: Trajectories, slot: Any, step: int, observation: Mapping[str, Any]) -> None:
        for key, array in memory.observations.items():
            array[slot, step] = observation[key]
