"""Owns how Sample Factory's code samples without training: trajectories of a Collector, one batch after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sample_profiler.collector.collector import Collector
from sample_profiler.compat.helpers.tensors import TensorDict
from sample_profiler.compat.running.statuses import ExperimentStatus
from sample_profiler.compat.serving.place import come_first
from sample_profiler.compat.settings.attributes import AttrDict
from sample_profiler.compat.settings.carrying import program_of
from sample_profiler.config import parse_run_config

__all__ = ["SyncSamplingAPI"]

_NAMES = {
    "log_probabilities": "log_prob_actions",
    "action_parameters": "action_logits",
    "states": "rnn_states",
    "observations": "obs",
    "valid": "valids",
}
"""What is called otherwise there."""


class SyncSamplingAPI:
    """Samples trajectories in processes of its own.

    Args:
        cfg: Options, from `parse_full_cfg`.
        env_info: Is not needed: the environment is asked again.
    """

    def __init__(self, cfg: Mapping[str, Any], env_info: Any = None) -> None:  # noqa: ARG002
        come_first()
        program = program_of(AttrDict(cfg if isinstance(cfg, Mapping) else vars(cfg)))
        config = parse_run_config(program.argv, extra_parts=program.extra_parts, defaults=program.defaults)
        self._collector = Collector(config)

    def start(self, init_model_data: Any = None) -> None:
        """Do nothing: sampling begins when trajectories are asked for. Weights are those of a new network."""

    def get_trajectories_sync(self) -> TensorDict | None:
        """Wait for trajectories, `[trajectories, steps, ...]`; None: there are no more."""
        batch = next(self._collector, None)
        if batch is None:
            return None
        renamed = {_NAMES.get(name, name): values for name, values in batch.items()}
        return TensorDict({**renamed, "dones": batch["terminated"] | batch["truncated"]})

    def stop(self) -> int:
        """End the processes; return how it ended."""
        self._collector.shutdown()
        return ExperimentStatus.SUCCESS
