"""Owns the files that a policy can become, and the proof that each does what the policy does."""

from __future__ import annotations

import contextlib
import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sample_profiler.errors import PolicyError
from sample_profiler.files import written_whole
from sample_profiler.model.distributions import MASKED_LOGIT
from sample_profiler.model.exported.step import OUTPUTS, STATES, PolicyStep, example_inputs, input_names
from sample_profiler.model.policy import Policy

__all__ = ["FORMATS", "TOLERANCE", "export_policy", "exporting", "write_onnx"]

TOLERANCE = 1e-5
"""How far outputs may be from those of the policy: in units of what they are, or of the largest of their kind."""

_EXTRA = "pip install 'sample_profiler[export]'"
_NUM_CHECKED = (1, 2, 17)  # rows: whatever a file was made from, any number is taken
_NUM_STEPS = 3

Outputs = tuple[npt.NDArray[Any], ...]
Run = Callable[[Mapping[str, npt.NDArray[Any]], npt.NDArray[Any]], Outputs]


def export_policy(policy: Policy, path: Path, format_name: str) -> float:
    """Write a policy to a file, and compare what that computes with what the policy does.

    Args:
        policy: on a processor.
        path: the file; its folder exists.
        format_name: one of `FORMATS`.

    Returns:
        How far apart the outputs were at most.

    Raises:
        OSError: the file cannot be written.
        PolicyError: a package is missing, the network cannot be written in this format, or the file does something
            else than the policy; then it is not there.
    """
    write, load = FORMATS[format_name]
    step = PolicyStep(policy.network, policy.action_space, has_normalized_values=policy.has_normalized_values).eval()
    with written_whole(path) as partial, torch.no_grad(), exporting(format_name):
        write(step, policy, partial)
        run = load(partial, step)
        return _largest_difference(policy, step, run, format_name)


@contextlib.contextmanager
def exporting(format_name: str) -> Iterator[None]:
    """Say what is missing, and which network cannot be exported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of exporters about themselves
            yield
    except ImportError as error:
        raise PolicyError(f"{error.name} is not installed, which --format={format_name} takes: {_EXTRA}") from None
    except (OSError, PolicyError):
        raise
    except Exception as error:  # whatever an exporter, or a network of one's own in it, may raise
        first = str(error).strip().splitlines()
        raise PolicyError(
            f"this network cannot be written as {format_name}: {type(error).__name__}: {first[0] if first else ''}; "
            "try another --format, or make its parts of operators that torch.export knows"
        ) from error


def _largest_difference(policy: Policy, step: PolicyStep, run: Run, format_name: str) -> float:
    largest = 0.0
    for num_rows in _NUM_CHECKED:
        states = np.zeros((num_rows, policy.state_size), np.float32)
        for seed in range(_NUM_STEPS):  # each goes on from the states of the one before
            drawn, _ = example_inputs(policy.observation_space, policy.state_size, num_rows, seed)
            observations = {key: tensor.numpy() for key, tensor in drawn.items()}
            found = run(observations, states)
            expected = _expected(policy, step, observations, states, found[1])
            units = dict.fromkeys(OUTPUTS, 1.0) | {"returns": step.unit_of_returns}
            for name, ours, theirs in zip(OUTPUTS, expected, found, strict=True):
                apart = _difference(ours, theirs, units[name])
                if not apart <= TOLERANCE:
                    raise PolicyError(
                        f"what was written as {format_name} gives other {name} than the policy, by {apart:.3g} with "
                        f"{num_rows} observations, where {TOLERANCE:g} is allowed; it is removed"
                    )
                largest = max(largest, apart)
            states = expected[-1]
    return largest


def _expected(
    policy: Policy,
    step: PolicyStep,
    observations: Mapping[str, npt.NDArray[Any]],
    states: npt.NDArray[Any],
    parameters: npt.NDArray[Any],
) -> Outputs:
    """Return what the policy gives, as it plays; actions as those of the parameters that were found.

    These are compared, too; of two actions that are nearly as probable either may be the one that is taken.
    """
    evaluation = policy.evaluate(observations, states)
    actions = step.actions_of(torch.from_numpy(parameters)).numpy()
    return actions, evaluation.action_parameters, evaluation.expected_returns, evaluation.states


def _difference(ours: npt.NDArray[Any], theirs: npt.NDArray[Any], unit: float) -> float:
    """Return how far apart numbers are at most, infinity if they are of another shape.

    Sums of products are rounded in another order, so by parts of the largest numbers there are.
    """
    if ours.shape != theirs.shape:
        return float("inf")
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0.0)
    computed = ours[ours != MASKED_LOGIT]  # that of a forbidden action is no sum
    return float(apart / max(unit, np.abs(computed).max(initial=0.0)))


def _program(step: PolicyStep, policy: Policy) -> torch.export.ExportedProgram:
    """Return the step as a graph of operators that takes any number of rows."""
    observations, states = example_inputs(policy.observation_space, policy.state_size)
    rows = torch.export.Dim("rows", min=1)
    shapes: dict[str, Any] = {"observations": {key: {0: rows} for key in observations}, "states": {0: rows}}
    return torch.export.export(step, (observations, states), dynamic_shapes=shapes)


def _write_onnx(step: PolicyStep, policy: Policy, path: Path) -> None:
    names = input_names(policy.observation_space.spaces)
    write_onnx(_program(step, policy), path, [*names.values(), STATES], OUTPUTS)


def write_onnx(
    program: torch.export.ExportedProgram, path: Path, input_names: Sequence[str], output_names: Sequence[str]
) -> None:
    """Write a graph of operators as ONNX.

    Args:
        program: the graph.
        path: the file.
        input_names: of its inputs, one after another.
        output_names: of its outputs.

    Raises:
        ImportError: a package is missing.
    """
    import onnx  # noqa: F401 (that it is missing is to be said here, not by the exporter)
    import onnxscript  # noqa: F401

    with _quiet("torch.onnx"), _bars_unwatched():
        written = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=list(input_names), output_names=list(output_names)
        )
    assert written is not None
    written.save(str(path), external_data=False)


def _load_onnx(path: Path, _: PolicyStep) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Here and below not by its path: libraries in C++ take no name that is not UTF-8.
    session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    taken = {entry.name for entry in session.get_inputs()}

    def run(observations: Mapping[str, npt.NDArray[Any]], states: npt.NDArray[Any]) -> Outputs:
        names = input_names(observations)
        given = {**{names[key]: array for key, array in observations.items()}, STATES: states}
        return tuple(session.run(list(OUTPUTS), {name: given[name] for name in given if name in taken}))

    return run


def _write_torchscript(step: PolicyStep, policy: Policy, path: Path) -> None:
    inputs = example_inputs(policy.observation_space, policy.state_size)
    traced = torch.jit.trace(_program(step, policy).module(), inputs, check_trace=False)  # type: ignore[no-untyped-call]
    with path.open("wb") as file:
        torch.jit.save(traced, file)


def _load_torchscript(path: Path, _: PolicyStep) -> Run:
    with path.open("rb") as file:
        loaded = torch.jit.load(file)  # type: ignore[no-untyped-call]

    def run(observations: Mapping[str, npt.NDArray[Any]], states: npt.NDArray[Any]) -> Outputs:
        tensors = {key: torch.from_numpy(array) for key, array in observations.items()}
        return tuple(output.numpy() for output in loaded(tensors, torch.from_numpy(states)))

    return run


def _write_safetensors(_: PolicyStep, policy: Policy, path: Path) -> None:
    from safetensors.torch import save

    state: dict[str, Tensor] = {name: tensor.contiguous().clone() for name, tensor in policy.state_dict().items()}
    path.write_bytes(save(state, metadata={"format": "pt", "frames": str(policy.trained_frames)}))


def _load_safetensors(path: Path, step: PolicyStep) -> Run:
    """Load the weights into a network that had none."""
    from safetensors.torch import load

    other = copy.deepcopy(step)
    for tensor in other.model.state_dict().values():
        tensor.zero_()
    other.model.load_state_dict(load(path.read_bytes()))
    other.model.pack()

    def run(observations: Mapping[str, npt.NDArray[Any]], states: npt.NDArray[Any]) -> Outputs:
        tensors = {key: torch.from_numpy(array) for key, array in observations.items()}
        return tuple(output.numpy() for output in other(tensors, torch.from_numpy(states)))

    return run


@contextlib.contextmanager
def _bars_unwatched() -> Iterator[None]:
    """Keep progress bars of exporters, which nobody sees, from leaving a thread behind that watches them."""
    try:
        from tqdm import tqdm
    except ImportError:  # then they have none
        yield
        return
    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0
    try:
        yield
    finally:
        tqdm.monitor_interval = interval


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


FORMATS: dict[str, tuple[Callable[[PolicyStep, Policy, Path], None], Callable[[Path, PolicyStep], Run]]] = {
    "onnx": (_write_onnx, _load_onnx),
    "torchscript": (_write_torchscript, _load_torchscript),
    "safetensors": (_write_safetensors, _load_safetensors),
}
"""What writes a file of each format, and what makes it do a step."""
