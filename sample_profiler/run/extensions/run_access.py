"""What a component of one's own may see of its run, and ask of it; imports PyTorch only when asked for networks."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sample_profiler.components.messages import ComponentSummaries
from sample_profiler.config import Config
from sample_profiler.config.seeds import derive_seed
from sample_profiler.envs import EnvPlacement, EnvSpec, import_registration, make_env
from sample_profiler.envs.agents import AgentsEnv
from sample_profiler.envs.bad_numbers import BadNumbers
from sample_profiler.errors import CheckpointError
from sample_profiler.run.extensions.env_calls import CallEnvs
from sample_profiler.run.layout.blueprint import Blueprint, frames_per_step
from sample_profiler.run.layout.factories import make_model
from sample_profiler.runtime.messages.channels import Reports
from sample_profiler.runtime.messages.heartbeats import Pulse

if TYPE_CHECKING:
    from sample_profiler.components.evaluation import PlayedEpisode
    from sample_profiler.model.policy import Policy
    from sample_profiler.model.policy_network import PolicyNetwork

__all__ = ["RunAccess"]


class RunAccess:
    """A run as a component of one's own sees it.

    Args:
        name: of the component.
        index: among all that are the user's own.
        blueprint: of the run.
        reports: to the Runner.

    Attributes:
        is_starting: whether the component still makes what it needs, in its `on_start`.
    """

    def __init__(self, name: str, index: int, blueprint: Blueprint, reports: Reports) -> None:
        self._name = name
        self._index = index
        self._blueprint = blueprint
        self._reports = reports
        self._pulse = Pulse(name, reports)
        self._networks: dict[int, PolicyNetwork] = {}
        self.is_starting = True

    @property
    def config(self) -> Config:
        """The run's configuration; every flag is an attribute of it, too."""
        return self._blueprint.config

    @property
    def env_spec(self) -> EnvSpec:
        """Spaces and agents of the environment."""
        return self._blueprint.env_spec

    def frames(self, policy: int = 0) -> int:
        """Return the frames that a policy has been trained on, earlier runs included."""
        return int(self._blueprint.counters.trained_frames[policy])

    def weights_version(self, policy: int = 0) -> int:
        """Return the optimizer steps behind a policy's newest weights; -1: none have been published yet."""
        return self._blueprint.weights[policy].version

    def load_policy(self, policy: int = 0) -> tuple[Policy, int]:
        """Return a policy with its newest weights, and the optimizer steps behind them.

        It has a network of its own, on the processor, which later weights do not change.

        Raises:
            CheckpointError: no weights have been published yet; see `weights_version`.
        """
        from sample_profiler.model.policy import Policy

        if policy not in self._networks:
            self._networks[policy] = self._make_network(policy)
        network, spec = copy.deepcopy(self._networks[policy]), self._blueprint.spec_of(policy)
        version = self._blueprint.weights[policy].load_into(network.state_dict())
        if version < 0:
            raise CheckpointError(f"policy {policy} has no weights yet: wait until weights_version() is 0 or more")
        loaded = Policy(
            network,
            spec.observation_space,
            spec.action_space,
            has_normalized_values=self.config.loss.normalize_returns,
            trained_frames=self.frames(policy),
        )
        return loaded, version

    def play(
        self,
        policy: Policy,
        num_episodes: int = 10,
        seed: int | None = None,
        *,
        is_deterministic: bool = False,
    ) -> Generator[PlayedEpisode | None, None, None]:
        """Play episodes in an environment of its own, made as for the run.

        They are those that `enjoy` plays with the same seed from a checkpoint of the same weights.

        Args:
            policy: from `load_policy`.
            num_episodes: as many are played; where agents end theirs one by one, each has its share.
            seed: of the environment and of the actions; None: the run's.
            is_deterministic: the most probable action is taken, instead of one that is drawn.

        Yields:
            None after each reset and step of the environment, so that whoever asks can do something else in between; an
            episode after its last step.

        Raises:
            EnvError: the environment raised, or breaks its contract.
        """
        from sample_profiler.components.evaluation import Places, cast_player, play

        seed = int(self.config.run.seed or 0) if seed is None else seed
        policy.generator.manual_seed(seed)
        env = self._make_env(seed)
        try:
            roles, leading = self._roles_beside(policy)
            others = {number: self.load_policy(number)[0] for number in sorted({*roles} - {leading})}
            for number, other in others.items():
                other.generator.manual_seed(derive_seed(seed, number))
            player = cast_player({leading: policy, **others}, roles, leading, deterministic=is_deterministic)
            places = Places(env, num_episodes, player.agents)
            for episode in play(env, player, frames_per_step(self.config), 1, self._bad_numbers()):
                self.beat()
                if episode is None:
                    yield None
                elif places.take(episode):
                    yield episode
                    if places.are_taken:
                        return
        finally:
            env.close()

    def report_evaluation(self, episodes: Sequence[PlayedEpisode], policy: int = 0, frames: int | None = None) -> None:
        """Tell the run how a policy has played: in the log, in TensorBoard, and by the signal `evaluation_finished`.

        Args:
            episodes: one or more.
            policy: that has played.
            frames: that it had been trained on; None: that it has now.
        """
        from sample_profiler.components.evaluation import describe_evaluation

        frames = self.frames(policy) if frames is None else frames
        self._reports.send(describe_evaluation(policy, frames, episodes, self._name))

    def add_scalars(self, values: Mapping[str, float], policy: int = 0) -> None:
        """Have figures written for TensorBoard, beside those of a policy, at the frames that it has been trained on.

        Args:
            values: by name, with a group before a slash: "curriculum/difficulty".
            policy: number of the policy.
        """
        numbers = {str(name): float(value) for name, value in values.items()}
        self._reports.send(ComponentSummaries(self._name, policy, self.frames(policy), numbers))

    def call_envs(self, method: str, *arguments: Any) -> None:
        """Have a method of all environments of RolloutWorkers called, between two of their steps.

        It is looked for through wrappers, of a vector in its members, and what it returns is dropped. Nobody waits:
        while environments have not been told, the newest of further calls of the same method counts. What takes the
        place of a lost worker is told, too. An environment without the method, and one that raises in it, end the run.

        Args:
            method: name of the method.
            arguments: that can be pickled.
        """
        self._reports.send(CallEnvs(self._name, method, arguments))

    def beat(self, patience_s: float = 0.0) -> None:
        """Give a sign of life from inside long work; call it as often as you like.

        Args:
            patience_s: that is to be had until the next one, if more than usual.
        """
        self._pulse.beat(patience_s, is_starting=self.is_starting)

    def _make_network(self, policy: int) -> PolicyNetwork:
        import torch

        with torch.random.fork_rng(devices=()):  # in serial mode it is everybody's
            return make_model(self._blueprint, policy).eval()

    def _roles_beside(self, policy: Policy) -> tuple[tuple[int, ...], int]:
        """Return which policy of the run plays each agent beside one, and as which of them that one plays."""
        if not self._blueprint.env_spec.own_spaces:
            return (0,) * self._blueprint.env_spec.num_agents, 0
        specs = map(self._blueprint.spec_of, range(self.config.sampling.num_policies))
        spaces = policy.observation_space, policy.action_space
        number = [(each.observation_space, each.action_space) for each in specs].index(spaces)
        return self._blueprint.plan.cast(number, self._blueprint.env_spec.kinds), number

    def _make_env(self, seed: int) -> AgentsEnv:
        blueprint, sampling = self._blueprint, self.config.sampling
        import_registration(blueprint.env_name, blueprint.env_payload)
        # Behind those of all workers, and of Evaluators.
        worker = sampling.num_workers + sampling.num_policies + self._index
        number = sampling.num_workers * sampling.num_envs_per_worker + sampling.num_policies + self._index
        placement = EnvPlacement(worker_index=worker, vector_index=0, env_id=number)
        make = partial(make_env, blueprint.env_name, self.config, placement)
        return AgentsEnv(make, blueprint.env_spec, blueprint.env_name, number, seed)

    def _bad_numbers(self) -> BadNumbers:
        stops = self.config.faults.on_bad_numbers == "stop"
        return BadNumbers(self._blueprint.env_name, stops=stops, is_training=False)
