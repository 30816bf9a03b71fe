"""What an accelerator of a run was used for: by blocks that were measured on it (`device_clock`), and by nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.component_id import INFERENCE_WORKER, LEARNER, ROLLOUT_WORKER
from sample_profiler.vocabulary import ENV_STEP, FOR_DEVICE, HANDLE_POLICY_STEP, SIMULATE

__all__ = ["SIMULATION", "TRAINING", "DeviceUse", "device_use"]

SIMULATION, STEPS, INFERENCE, TRAINING = "simulation", "rest of steps", "inference", "training"
"""What it is used for; the second is what is done with each step of a simulator besides."""


@dataclass(frozen=True)
class DeviceUse:
    """Shares of the wall.

    Attributes:
        parts: for which the device was at something, or waited within it for more work, by what.
        waited: for which the host waited for the device.
    """

    parts: dict[str, float]
    waited: float

    @property
    def busy(self) -> float:
        """For which share it was at anything; more than one of several processes at once count once."""
        return min(1.0, sum(self.parts.values()))

    @property
    def idle(self) -> float:
        """For which share nobody had given it anything."""
        return 1 - self.busy


def device_use(loads: Iterable[ComponentLoad]) -> DeviceUse | None:
    """Return what the components of a run used their device for; None: there is none, or it was not measured."""
    parts: dict[str, float] = {}
    waited = 0.0
    for load in loads:
        waited += load.waits.get(FOR_DEVICE, 0.0)
        for path, share in _outermost(load.device).items():
            what = _KINDS.get(load.kind, load.kind)
            if path.partition("/")[0] == HANDLE_POLICY_STEP:  # of a worker that draws its own actions
                what = INFERENCE
            simulating = load.device.get(f"{ENV_STEP}/{SIMULATE}", 0.0) if path == ENV_STEP else 0.0
            parts[SIMULATION] = parts.get(SIMULATION, 0.0) + simulating
            parts[what] = parts.get(what, 0.0) + max(0.0, share - simulating)
    parts = {what: share for what, share in parts.items() if share}
    return DeviceUse(parts, waited) if parts else None


_KINDS = {ROLLOUT_WORKER: STEPS, INFERENCE_WORKER: INFERENCE, LEARNER: TRAINING}


def _outermost(device: dict[str, float]) -> dict[str, float]:
    """Return the measured blocks that are in no other measured block."""

    def is_within(path: str) -> bool:
        outer = path.rpartition("/")[0]
        return bool(outer) and (outer in device or is_within(outer))

    return {path: share for path, share in device.items() if not is_within(path)}
