"""Owns policies of Sample Factory's code as ONNX, with the names that its own exporter gives inputs and outputs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from sample_profiler.compat.environments.batched import BatchedVecEnv, EnvInfo, extract_env_info, make_env
from sample_profiler.compat.networks.distributions import argmax_actions
from sample_profiler.compat.networks.factory import get_rnn_size
from sample_profiler.compat.networks.inference import InferenceModel, create_actor_critic, prepare_and_normalize_obs
from sample_profiler.compat.running.checkpoints import load_state_dict
from sample_profiler.compat.running.statuses import ExperimentStatus
from sample_profiler.compat.settings.saved import load_from_checkpoint
from sample_profiler.files import written_whole
from sample_profiler.model.exported.formats import exporting, write_onnx
from sample_profiler.spaces import ACTION_MASK_KEY

__all__ = ["OnnxExporter", "create_onnx_exporter", "export_onnx", "generate_args", "generate_rnn_states"]

logger = logging.getLogger(__name__)

_STATES = "rnn_states"
_OUTPUTS = ("output_actions", "output_rnn_states")
_NUM_EXAMPLES = 3


class OnnxExporter(nn.Module):
    """A step of a policy: the most probable actions.

    Args:
        cfg: Options of the run.
        env_info: Of its environment.
        actor_critic: The policy's network.
    """

    def __init__(self, cfg: Any, env_info: EnvInfo, actor_critic: InferenceModel) -> None:
        super().__init__()
        self.cfg = cfg
        self.env_info = env_info
        self.actor_critic = actor_critic

    def forward(self, **obs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return actions for observations `[N, ...]` by key; of a recurrent policy the next `rnn_states`, too."""
        actions, states = self.step(obs)
        return (actions, states) if self.cfg.use_rnn else actions

    def step(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return actions as environments take them, and the next states `[N, H]`.

        Args:
            inputs: Observations `[N, ...]` by key, perhaps with an action mask; of a recurrent policy its states.
        """
        observations = dict(inputs)
        states, mask = observations.pop(_STATES, None), observations.pop(ACTION_MASK_KEY, None)
        if states is None:
            states = torch.zeros(next(iter(observations.values())).shape[0], get_rnn_size(self.cfg))
        model = self.actor_critic
        head = model.forward_head(prepare_and_normalize_obs(model, observations), mask)
        core, new_states = model.forward_core(head, states)
        model.forward_tail(core, values_only=False, sample_actions=False)
        distribution = model.action_distribution()
        assert distribution is not None
        return self._as_environments_take(argmax_actions(distribution)), new_states

    def _as_environments_take(self, actions: Tensor) -> Tensor:
        space = self.env_info.action_space
        is_discrete = not isinstance(space, spaces.Box) and self.env_info.all_discrete is not False
        return actions.int() if is_discrete else actions


class _Step(nn.Module):
    """The same with one dictionary of inputs, and outputs that are always a tuple: what can be made a graph."""

    def __init__(self, exporter: OnnxExporter) -> None:
        super().__init__()
        self.exporter = exporter

    def forward(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        return self.exporter.step(inputs)[: 2 if self.exporter.cfg.use_rnn else 1]


def create_onnx_exporter(cfg: Any, env: BatchedVecEnv, enable_jit: bool = False) -> OnnxExporter:
    """Return a step of the policy that options name, with its weights.

    Args:
        cfg: Options of the run and of playing.
        env: Its environment.
        enable_jit: Whether parts may be compiled as scripts, of which no file can be made.

    Raises:
        CheckpointError: There is no such policy.
    """
    with contextlib.nullcontext() if enable_jit else _without_scripts():
        actor_critic = create_actor_critic(cfg, env.observation_space, env.action_space)
    actor_critic.eval()
    load_state_dict(cfg, actor_critic, torch.device("cpu"))
    return OnnxExporter(cfg, extract_env_info(env, cfg), actor_critic)


@contextlib.contextmanager
def _without_scripts() -> Iterator[None]:
    """Have `torch.jit.script` return what it is given."""
    state = torch.jit._state._enabled
    were_on, state.enabled = state.enabled, False
    try:
        yield
    finally:
        state.enabled = were_on


def generate_args(space: gymnasium.Space[Any], batch_size: int = 1) -> dict[str, Tensor]:
    """Draw observations of a dictionary of spaces, `[batch_size, ...]` by key."""
    drawn: list[Any] = [space.sample() for _ in range(batch_size)]
    return {key: torch.from_numpy(np.stack([np.asarray(each[key]) for each in drawn])) for key in sorted(drawn[0])}


def generate_rnn_states(cfg: Any) -> Tensor:
    """Return the recurrent states of one agent where an episode begins, `[1, H]`."""
    return torch.zeros(1, get_rnn_size(cfg))


def export_onnx(cfg: Any, f: str) -> int:
    """Write a policy as ONNX: the most probable actions, normalization and recurrent states included.

    Inputs are observations `[N, ...]` by key and, of a recurrent policy, of which N is 1, `rnn_states`. Outputs are
    `output_actions` and `output_rnn_states`.

    Args:
        cfg: Options of the run and of playing.
        f: The file.

    Returns:
        As of `ExperimentStatus`.

    Raises:
        CheckpointError: There is no such policy.
        PolicyError: A package is missing, or the network cannot be written so.
    """
    cfg = load_from_checkpoint(cfg)
    with contextlib.closing(make_env(cfg)) as env:
        exporter = create_onnx_exporter(cfg, env)
        # What has one row in the example is taken for something that always has one.
        inputs = generate_args(env.observation_space, 1 if cfg.use_rnn else _NUM_EXAMPLES)
    if not cfg.eval_deterministic:
        logger.warning("%s gives the most probable actions, as --eval_deterministic=True does", f)
    shapes = None if cfg.use_rnn else ({key: {0: torch.export.Dim("batch_size")} for key in inputs},)
    if cfg.use_rnn:
        inputs[_STATES] = generate_rnn_states(cfg)
    with exporting("onnx"), written_whole(Path(f)) as partial, torch.no_grad():
        program = torch.export.export(_Step(exporter).eval(), (inputs,), dynamic_shapes=shapes)
        write_onnx(program, partial, list(inputs), _OUTPUTS[: 2 if cfg.use_rnn else 1])
    return ExperimentStatus.SUCCESS
