"""Owns a policy by itself: batches of observations in, actions out, without a run and its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array
from torch import Tensor

from sample_profiler.errors import PolicyError
from sample_profiler.model.policy_network import PolicyNetwork
from sample_profiler.spaces import action_converter, flatten_observation, is_in_range, is_lossless, value_range

__all__ = ["Policy", "PolicyEvaluation"]

Batch = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class PolicyEvaluation:
    """What a policy makes of N observations.

    Attributes:
        action_parameters: `[N, P]` float32: of the distributions of actions. A Discrete has a logit for each value
            (-1e9: forbidden), a Box its means and then the logarithms of its standard deviations; what an action
            consists of stands one after another, in the order of the action space.
        values: `[N]` float32: as the network gives them: in units of normalized returns if the policy was trained with
            `--normalize_returns=True`.
        expected_returns: `[N]` float32: the same in units of rewards as they were trained on (`--reward_scale`).
        states: `[N, S]` float32: for the next step.
    """

    action_parameters: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]
    expected_returns: npt.NDArray[np.float32]
    states: npt.NDArray[np.float32]


class Policy:
    """A policy for a loop of one's own; `load_policy` makes it of a checkpoint.

    Observations and actions are batched as gymnasium's vectors of environments batch them: an array has a first
    dimension N, a dictionary or tuple has such arrays in it. A single environment is a batch of one:
    `observation[None]` and `actions[0]`.

    Attributes:
        observation_space: of one agent: a flat dictionary, in which an observation that is none has the key "obs",
            entries of nested ones are under "outer/inner", and Tuples have numbers for names.
        action_space: of one agent.
        state_size: S, width of one agent's recurrent state; that of a policy without memory stays what it is.
        device: where the network is.
        generator: draws actions; `policy.generator.manual_seed(1)` makes them repeatable.
        trained_frames: that it has been trained on.
    """

    def __init__(
        self,
        model: PolicyNetwork,
        observation_space: spaces.Dict,
        action_space: gymnasium.Space[Any],
        *,
        has_normalized_values: bool = True,
        trained_frames: int = 0,
    ) -> None:
        """Take a network over; `refresh` after each change of its weights.

        Args:
            model: the network, on the device where it is to compute.
            observation_space: of one agent, flat.
            action_space: of one agent.
            has_normalized_values: whether its values are in units of normalized returns.
            trained_frames: that it has been trained on.
        """
        self.trained_frames = trained_frames
        self.observation_space = observation_space
        self.action_space = action_space
        self.state_size = model.state_size
        self.device = next(model.parameters()).device
        self.generator = torch.Generator(self.device)
        self.generator.seed()
        self._model = model.eval()
        self._has_normalized_values = has_normalized_values
        self._to_action = action_converter(action_space)
        self.refresh()

    @property
    def network(self) -> PolicyNetwork:
        """What computes it: `refresh` after changing its weights."""
        return self._model

    @property
    def has_normalized_values(self) -> bool:
        """Whether its values are in units of normalized returns."""
        return self._has_normalized_values

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights by name: `refresh` after changing them."""
        return self._model.state_dict()

    @torch.no_grad()
    def refresh(self) -> None:
        """Prepare the weights for inference, after somebody has changed them."""
        self._model.pack()

    def initial_states(self, num_rows: int) -> npt.NDArray[np.float32]:
        """Return the states with which episodes begin, zeros `[num_rows, S]`; so do rows that are set to 0."""
        return np.zeros((num_rows, self.state_size), np.float32)

    def act(
        self, observations: Any, states: npt.NDArray[Any] | None = None, deterministic: bool = True
    ) -> tuple[Any, npt.NDArray[np.float32]]:
        """Choose an action for each of N observations.

        Args:
            observations: `[N, ...]`, or dictionaries and tuples of such arrays, as the environment gives them, an
                `action_mask` included if it has one.
            states: `[N, S]`, from the step before; None: all begin an episode.
            deterministic: take the most probable action, instead of drawing one as in training.

        Returns:
            Actions as the environment takes them, numbers of a Box within its bounds: `[N, ...]`, or dictionaries and
            tuples of such arrays; and the states for the next step, `[N, S]`.

        Raises:
            PolicyError: observations or states are not what this policy takes.
        """
        batch = self._read_observations(observations)
        numbers, new_states = self.choose(batch, self._read_states(states, batch), deterministic=deterministic)
        actions = [self._to_action(row) for row in numbers.cpu().numpy()]
        empty: Any = create_empty_array(self.action_space, len(actions))
        return concatenate(self.action_space, actions, empty), new_states.cpu().numpy()

    @torch.inference_mode()
    def evaluate(self, observations: Any, states: npt.NDArray[Any] | None = None) -> PolicyEvaluation:
        """Return what the network makes of N observations; arguments and errors are those of `act`."""
        batch = self._read_observations(observations)
        parameters, values, new_states = self._forward(batch, self._read_states(states, batch))
        returns = self._model.returns_normalizer.denormalize(values) if self._has_normalized_values else values
        arrays = (each.float().cpu().numpy() for each in (parameters, values, returns, new_states))
        return PolicyEvaluation(*arrays)

    @torch.inference_mode()
    def choose(self, batch: Batch, states: Tensor, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        """Choose an action for each of N observations that are known to be those of the space.

        Args:
            batch: by key, `[N, ...]`.
            states: `[N, S]`.
            deterministic: take the most probable action.

        Returns:
            The numbers of the actions, `[N, action_width]`, and the next states, `[N, S]`.
        """
        parameters, _, new_states = self._forward(batch, states)
        distribution = self._model.action_distribution(parameters)
        return distribution.mode() if deterministic else distribution.draw(self.generator)[0], new_states

    def _forward(self, batch: Batch, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        tensors = {key: torch.from_numpy(array).to(self.device) for key, array in batch.items()}
        outputs: tuple[Tensor, Tensor, Tensor] = self._model(self._model.normalize(tensors), states.to(self.device))
        return outputs

    def _read_observations(self, observations: Any) -> Batch:
        """Return observations as flat arrays of their own.

        Raises:
            PolicyError: they are not those of the space.
        """
        keys = self.observation_space.spaces
        found = flatten_observation(observations, keys)
        if found.keys() != keys.keys():
            raise PolicyError(
                f"the observations consist of {sorted(map(str, found))}, and this policy sees {sorted(keys)}: give it "
                "what its environment gave in training, arrays with a first dimension N"
            )
        batch = {key: _read_array(found[key], key, space) for key, space in keys.items()}
        lengths = {key: len(array) for key, array in batch.items()}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise PolicyError(f"the observations have {lengths} rows: give all of them the same number, 1 or more")
        return batch

    def _read_states(self, states: npt.NDArray[Any] | None, batch: Batch) -> Tensor:
        num_rows = len(next(iter(batch.values())))
        if states is None:
            return torch.zeros(num_rows, self.state_size)
        array = _as_array(states, "states")
        if array.shape != (num_rows, self.state_size):
            raise PolicyError(
                f"the states are of shape {array.shape}; with {num_rows} observations they are "
                f"{(num_rows, self.state_size)}: give those that the step before returned, or None where all episodes "
                "begin"
            )
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise PolicyError(
                f"the states of type {array.dtype} hold what is no finite number: give those that the step before "
                "returned"
            )
        return torch.from_numpy(np.array(array, np.float32, order="C"))


def _read_array(value: Any, key: str, space: gymnasium.Space[Any]) -> npt.NDArray[Any]:
    array = _as_array(value, f"observation {key!r}")
    shape, dtype = space.shape or (), np.dtype(space.dtype)
    if array.ndim == 0 or array.shape[1:] != shape:
        cure = ": add a first dimension, as observation[None] does" if array.shape == shape else ""
        sizes = ", ".join(["N", *map(str, shape)])
        raise PolicyError(f"observation {key!r} is of shape {array.shape}; this policy sees [{sizes}]{cure}")
    if not is_lossless(array, dtype):
        raise PolicyError(f"observation {key!r} is of type {array.dtype}; this policy sees {dtype}")
    if (bounds := value_range(space)) and not is_in_range(array, *bounds):
        raise PolicyError(f"observation {key!r} has values outside of {space}, in which this policy was trained")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise PolicyError(f"observation {key!r} has NaN or infinity in it: leave such steps out, or put numbers there")
    return np.array(array, dtype, order="C")  # of our own: torch wants to be able to write


def _as_array(value: Any, what: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(value)
    except Exception as error:  # lists of several lengths, a tensor on a GPU, an object that does as it likes
        raise PolicyError(f"{what} of type {type(value).__name__} makes no array: {error}") from None
