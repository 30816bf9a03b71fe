"""The InferenceWorker: draws the actions of one policy for all groups that ask.

Runs in a process of its own (parallel wiring), or in that of a RolloutWorker (`--inference=worker`). Reads observations
and recurrent states where the RolloutWorkers wrote them, writes actions, values and the next recurrent states beside
them, and tells the workers.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sample_profiler.component_id import INFERENCE_WORKER, ComponentId
from sample_profiler.model.kernels.graphed_steps import GraphedSteps, find_graph_maker
from sample_profiler.model.precision import InferenceNetwork, PrecisionName, computing_in, gpu_memory
from sample_profiler.profiling import Timing
from sample_profiler.profiling.device_clock import clock as device_clock
from sample_profiler.profiling.ranges import profile_range
from sample_profiler.profiling.record.flows import REQUEST, STEP, WEIGHTS, flow_point, weights_payload
from sample_profiler.runtime.loop.event_loop import Input, Timer
from sample_profiler.runtime.loop.slowdown import Slowdown, slowdown_command
from sample_profiler.runtime.messages.channels import Channel
from sample_profiler.storage.device_arrays import as_index, move
from sample_profiler.storage.policy_weights import PolicyWeights
from sample_profiler.storage.sampling_plan import SamplingPlan
from sample_profiler.storage.trajectories import Trajectories, address_of
from sample_profiler.vocabulary import (
    BATCH_ROWS,
    FOR_ROLLOUT_WORKERS,
    FORWARD,
    HANDLE_POLICY_STEP,
    INFERENCE_BATCHES,
    INFERENCE_ROWS,
    NUM_THREADS,
    OBS_TO_DEVICE_NORMALIZE,
    PREPARE_OUTPUTS,
    SEND_MESSAGES,
    TO_CPU,
    WAIT,
    WAIT_POLICY,
)

__all__ = ["InferenceModel", "InferenceWorker", "InferenceWorkerPorts"]

logger = logging.getLogger(__name__)

_MOST_COMBINATIONS = 1024
"""Combinations of groups that are kept."""

Indices = npt.NDArray[np.integer[Any]]
Slots = Indices | slice | torch.Tensor
Steps = Indices | int | torch.Tensor


@dataclass(frozen=True)
class InferenceWorkerPorts:
    """Where an InferenceWorker listens and talks.

    Attributes:
        requests: groups that want actions of this policy; shared by all InferenceWorkers of the policy.
        first_weights: something comes here when the Learner has published weights for the first time.
        actions: for each RolloutWorker, groups whose actions are there.
    """

    requests: Channel
    first_weights: Channel
    actions: Sequence[Channel]


@dataclass(frozen=True)
class _GroupRows:
    """The rows of a group that follow this policy, and the worker that steps them."""

    rows: Indices
    worker: int


@dataclass(frozen=True)
class _Askers:
    """Groups that have asked together.

    Attributes:
        rows: of all of them that follow this policy.
        group_of_row: the group that each of these rows is of.
        groups_of: the groups by worker that steps them.
    """

    rows: Indices
    group_of_row: Indices
    groups_of: dict[int, list[int]]


@dataclass(frozen=True)
class InferenceModel:
    """What draws actions.

    Attributes:
        network: of the right shape; its weights are replaced by the Learner's.
        device: where it runs.
        precision: in which it computes.
        generator: draws the actions; lives on `device`.
        wants_graphs: a GPU gets steps at once (`--cuda_graphs`), where that can be.
    """

    network: InferenceNetwork
    device: torch.device
    precision: PrecisionName
    generator: torch.Generator
    wants_graphs: bool = False


class InferenceWorker:
    """Runs the policy.

    Args:
        policy: index of the policy.
        index: of this worker among those of the policy.
        plan: who samples what.
        model: draws the actions.
        weights: that the Learner publishes.
        trajectories: memory to read from and write to.
        timing: where its blocks are recorded.
        ports: where to listen and talk.
    """

    def __init__(
        self,
        policy: int,
        index: int,
        plan: SamplingPlan,
        model: InferenceModel,
        weights: PolicyWeights,
        trajectories: Trajectories,
        timing: Timing,
        ports: InferenceWorkerPorts,
    ) -> None:
        self.name = str(ComponentId(INFERENCE_WORKER, policy, index))
        self.timing = timing
        self._policy = policy
        self._network = model.network
        self._device = model.device
        self._precision: PrecisionName = model.precision
        self._generator = model.generator
        self._wants_graphs = model.wants_graphs
        self._graphed: GraphedSteps | None = None
        self._weights = weights
        self.slowdown = Slowdown()
        self._version = -1
        self._memory = trajectories
        self._ports = ports
        self._held: list[int] = []
        self._num_batches = self._num_rows = 0
        # Few groups ask in few combinations; with many, batches are large enough to pay for being put together.
        self._askers = functools.lru_cache(_MOST_COMBINATIONS)(self._put_together)
        self._groups = [
            _GroupRows(np.array([row for row, p in zip(g.rows, g.policies, strict=True) if p == policy]), g.worker)
            for g in plan.groups
        ]

    def inputs(self) -> list[Input]:
        """Listen to RolloutWorkers, and once to the Learner."""
        return [
            Input(self._ports.first_weights, self._on_first_weights),
            Input(self._ports.requests, self._on_requests),
        ]

    def timers(self) -> list[Timer]:
        """Do nothing at intervals."""
        return []

    def gauges(self) -> dict[str, float]:
        """Measure how many rows go through the network at once, which weights do, and with how many threads it is done.

        The mean is that since the start; of any time in between the numbers tell it (`analysis.window`).
        """
        return {
            BATCH_ROWS: self._num_rows / max(1, self._num_batches),
            INFERENCE_BATCHES: self._num_batches,
            INFERENCE_ROWS: self._num_rows,
            "policy_version": self._version,
            NUM_THREADS: torch.get_num_threads(),
            **gpu_memory(self._device),
        }

    def commands(self) -> dict[str, Callable[..., Any]]:
        """Offer to be made slower, and what it takes to replace a RolloutWorker."""
        return {
            "set_slowdown": slowdown_command({"inference": self.slowdown}),
            "forget_worker": self.forget_worker,
        }

    def forget_worker(self, worker: int) -> None:
        """Drop what a RolloutWorker that is gone has still asked for; whoever else has asked is answered."""

        def others(groups: list[int]) -> list[int]:
            return [group for group in groups if self._groups[group].worker != worker]

        self._held = others(self._held)
        if groups := others(self._ports.requests.receive()):
            self._on_requests(groups)

    def start(self) -> None:
        """Wait for the first weights, unless they are there, as where a lost worker is replaced."""
        if self._wants_graphs:
            self._graphed = self._make_graphed()
        if self._weights.version >= 0:
            self._update_model()

    def course(self) -> dict[str, Any]:
        """Return where its random numbers are, as plain data for `follow`; weights come from the Learner."""
        return {"generator": self._generator.get_state()}

    def follow(self, course: dict[str, Any]) -> None:
        """Go on from a course instead of the beginning; before `start`."""
        self._generator.set_state(course["generator"])

    def wait_block(self) -> str:
        """Tell whom the worker waits for: the Learner for its first policy, then RolloutWorkers."""
        return WAIT + FOR_ROLLOUT_WORKERS if self._version >= 0 else WAIT_POLICY

    def finish(self) -> None:
        """Take the last device times."""
        device_clock.settle(self.timing)

    def _on_first_weights(self, _: list[int]) -> None:
        if self._weights.version != self._version:
            self._update_model()
        if self._held:
            held, self._held = self._held, []
            self._answer(held)

    def _on_requests(self, groups: list[int]) -> None:
        device_clock.poll()
        if self._version < 0:
            self._held += groups
            return
        if self._weights.version != self._version:
            self._update_model()
        self._answer(groups)

    def _answer(self, groups: list[int]) -> None:
        # Around the call, so that letting go of its arrays is part of the block.
        with self.timing.add_time(HANDLE_POLICY_STEP), torch.inference_mode():
            self.slowdown.around(self._handle_policy_step, groups)

    @profile_range("InferenceWorker.update_model")
    def _update_model(self) -> None:
        with self.timing.add_time("update_model"), self.timing.add_time("weight_update"):
            self._version = self._weights.load_into(self._network.model.state_dict())
            self._network.refresh()
            self.timing.mark_flow(flow_point(STEP, WEIGHTS, weights_payload(self._policy, self._version)))

    @profile_range("InferenceWorker.handle_policy_step")
    def _handle_policy_step(self, groups: list[int]) -> None:
        timing, memory = self.timing, self._memory
        for group in groups:
            timing.mark_flow(flow_point(STEP, REQUEST, group))
        with timing.add_time("deserialize"):
            askers = self._askers(tuple(groups))
            rows = askers.rows
            slots, steps = self._address(askers, groups)
            self._num_batches += 1
            self._num_rows += len(rows)
            # Rows whose last episode was truncated: the value of its final observation is wanted, too.
            finals = rows[memory.final_step[rows] > 0]
        with timing.add_time("stack"):
            observations, states = self._gather(slots, steps, finals)
        num_rows = len(rows)
        outputs: Sequence[Any]
        if self._graphed is None:
            with timing.add_time(OBS_TO_DEVICE_NORMALIZE, device=True), computing_in(self._precision, self._device):
                normalized = self._network.network.normalize({k: self._to_device(v) for k, v in observations.items()})
            with timing.add_time(FORWARD, device=True):
                outputs = self._draw_actions(normalized, self._to_device(states), num_rows)
        else:
            with timing.add_time(FORWARD, device=True):
                outputs = self._graphed(observations, states)
        with timing.add_time(PREPARE_OUTPUTS):
            if memory.device is None:
                with timing.add_time(TO_CPU):
                    outputs = [tensor.cpu().numpy() for tensor in outputs]
            elif memory.device != self._device:
                outputs = [move(tensor, memory.device) for tensor in outputs]
            self._write(slots, steps, outputs)
            if len(finals):
                self._write_final_values(finals, outputs[3][num_rows:])
        with timing.add_time(SEND_MESSAGES):
            for worker, answered in askers.groups_of.items():
                self._ports.actions[worker].send(answered)

    def _draw_actions(
        self, normalized: Mapping[str, torch.Tensor], states: torch.Tensor, num_rows: int
    ) -> list[torch.Tensor]:
        """Return actions of the first rows, logarithms of their probabilities, and parameters, values and states."""
        model = self._network.network
        with computing_in(self._precision, self._device):
            parameters, values, new_states = model(normalized, states)
        actions, log_probabilities = model.action_distribution(parameters[:num_rows]).draw(self._generator)
        return [actions, log_probabilities, parameters, values, new_states]

    def _make_graphed(self) -> GraphedSteps | None:
        """Return steps that a GPU gets at once; None, and a line that says why: it does not."""
        model = self._network.network
        make_graph = find_graph_maker(self._device, self._generator)
        of_memory = self._memory.device
        # By type: a GPU may be called by its number, or by none.
        if make_graph is None or of_memory is None or of_memory.type != self._device.type:
            why = "trajectories are not on a GPU, as those of a vector that lives there are in serial mode"
        elif not model.can_be_graphed:
            why = "the network has parts that are not the package's own, which may compute something else in each step"
        else:
            return GraphedSteps(
                lambda observations, states: self._draw_actions(model.normalize(observations), states, len(states)),
                make_graph,
            )
        logger.warning("--cuda_graphs=True changes nothing: %s", why)
        return None

    def _put_together(self, groups: tuple[int, ...]) -> _Askers:
        members = [self._groups[group] for group in groups]
        groups_of: dict[int, list[int]] = {}
        for group, member in zip(groups, members, strict=True):
            groups_of.setdefault(member.worker, []).append(group)
        rows = np.concatenate([member.rows for member in members])
        return _Askers(rows, np.repeat(groups, [len(member.rows) for member in members]), groups_of)

    def _address(self, askers: _Askers, groups: list[int]) -> tuple[Slots, Steps]:
        """Return where the memory of all rows is: of one group whose slots are neighbours, in one piece."""
        slots, device = self._memory.row_slot[askers.rows], self._memory.device
        if len(groups) == 1 and isinstance(block := address_of(slots), slice):
            return block, int(self._memory.group_step[groups[0]])
        steps = self._memory.group_step[askers.group_of_row]
        return (slots, steps) if device is None else (as_index(slots, device), as_index(steps, device))

    @profile_range("InferenceWorker.gather")
    def _gather(self, slots: Slots, steps: Steps, finals: Indices) -> tuple[dict[str, Any], Any]:
        """Copy observations by key and states out of shared memory, those of final observations behind the others."""
        memory = self._memory
        observations = {key: _copy_of(array, slots, steps) for key, array in memory.observations.items()}
        states = _copy_of(memory.states, slots, steps)
        if len(finals):
            for key, array in memory.final_observations.items():
                observations[key] = np.concatenate([observations[key], array[finals]])
            states = np.concatenate([states, memory.final_states[finals]])
        return observations, states

    def _to_device(self, array: npt.NDArray[Any] | torch.Tensor) -> torch.Tensor:
        return move(torch.from_numpy(array) if isinstance(array, np.ndarray) else array, self._device)

    @profile_range("InferenceWorker.write_outputs")
    def _write(self, slots: Slots, steps: Steps, outputs: Sequence[Any]) -> None:
        memory: Any = self._memory
        actions, log_probabilities, parameters, values, states = outputs
        num_rows = len(actions)
        memory.actions[slots, steps] = actions
        memory.log_probabilities[slots, steps] = log_probabilities
        memory.action_parameters[slots, steps] = parameters[:num_rows]
        memory.values[slots, steps] = values[:num_rows]
        memory.states[slots, steps + 1] = states[:num_rows]
        memory.policy_versions[slots, steps] = self._version

    def _write_final_values(self, finals: Indices, values: Any) -> None:
        """Store the values of final observations beside the step that they follow (steps count from 1 there)."""
        memory = self._memory
        memory.final_values[memory.row_slot[finals], memory.final_step[finals] - 1] = values
        memory.final_step[finals] = 0


def _copy_of(array: Any, slots: Slots, steps: Steps) -> Any:
    if not isinstance(slots, slice):
        return array[slots, steps]
    picked = array[slots, steps]
    return picked.copy() if isinstance(picked, np.ndarray) else picked.contiguous()
