"""Moving data between the processor and an accelerator; where there is none, nothing here holds."""

from __future__ import annotations

from sample_profiler.analysis.facts import ComponentLoad
from sample_profiler.analysis.findings import LITTLE, MUCH, Advice, Finding, JudgedRun, percent
from sample_profiler.vocabulary import (
    FORWARD,
    GATHER_OBSERVATIONS,
    HANDLE_POLICY_STEP,
    OBS_TO_DEVICE_NORMALIZE,
    PREPARE_BATCH,
    PREPARE_OUTPUTS,
    TO_CPU,
)

__all__ = ["inference_transfer", "learner_transfer"]

_MOSTLY = 0.7
_HALF = 0.5  # of the component's work
_PER_EPOCH = "train/"
_ON_PROCESSOR = Advice("--device=cpu", "nothing has to be moved; pays where the network is small")


def learner_transfer(run: JudgedRun) -> Finding | None:
    """Workers wait for the Learner, and half of its work is getting data onto the device."""
    learner = run.learner
    if learner is None or not learner.device or not run.is_paced_by_learner:
        return None
    # For V-trace all steps go through the network in prepare_batch: what the device does there is not moving alone.
    preparing = 0.0 if run.facts.flag("with_vtrace", False) else learner.device.get(PREPARE_BATCH, 0.0)
    gatherings = _gatherings(learner)
    gathering = sum(gatherings.values())
    moving = preparing + gathering
    if moving < max(MUCH, _HALF * learner.busy):
        return None
    wanted = run.sampling_room()
    on_device = f"the device takes {percent(preparing)} of it for {PREPARE_BATCH}, and " if preparing else ""
    evidence = [
        f"{learner.name} works {percent(learner.busy)} of the time; {on_device}{GATHER_OBSERVATIONS} takes "
        f"{percent(gathering)}",
        *run.describe_waits_for_learner(),
    ]
    advice = []
    epochs = int(run.facts.flag("num_epochs", 1))
    if epochs > 1:
        in_epochs = sum(share for path, share in gatherings.items() if path.startswith(_PER_EPOCH))
        factor = 1 / max(1 - in_epochs / epochs, 0.1)
        why = "observations are moved once in each epoch; watch the learning curve"
        advice.append(Advice(f"--num_epochs={epochs - 1}", why, run.gain(min(factor, wanted))))
    if preparing >= gathering:
        factor = 1 / max(1 - preparing / 2, 0.1)
        change = f"--batch_size={2 * int(run.facts.flag('batch_size', 1))}"
        advice.append(Advice(change, "one transfer for twice the steps", run.gain(min(factor, wanted), 0.1)))
    advice += [_smaller_observations(run, moving, wanted), _ON_PROCESSOR]
    headline = "Device transfer is the limit: the Learner moves data rather than training"
    return Finding("device transfer", learner.name, headline, evidence, advice)


def inference_transfer(run: JudgedRun) -> Finding | None:
    """Workers wait for actions, and half of inference's work is getting observations there and actions back."""
    if run.learner_waits < LITTLE:
        return None
    load = max(run.inference, key=lambda each: each.busy, default=None)
    if load is None or not load.device or load.busy < _MOSTLY or run.waits_for_inference < MUCH:
        return None
    there = load.device.get(f"{HANDLE_POLICY_STEP}/{OBS_TO_DEVICE_NORMALIZE}", 0.0)
    # Who fetches results waits for the network first, at most for as long as the device takes for it.
    waiting = load.device.get(f"{HANDLE_POLICY_STEP}/{FORWARD}", 0.0)
    back = max(0.0, load.blocks.get(f"{HANDLE_POLICY_STEP}/{PREPARE_OUTPUTS}/{TO_CPU}", 0.0) - waiting)
    moving = there + back
    if moving < max(MUCH, _HALF * load.busy):
        return None
    wanted = run.learner_room(1 / max(1 - run.waits_for_inference, 0.2))
    evidence = [
        f"{load.name} works {percent(load.busy)} of the time; the device takes {percent(there)} of it for "
        f"obs_to_device_normalize, and to_cpu takes {percent(back)} beyond what the network takes",
        f"workers wait {percent(run.waits_for_inference)} of their time for actions",
    ]
    factor = min(1 / max(1 - moving / 2, 0.1), wanted)
    change = f"--num_envs_per_worker={max(2, 2 * run.num_envs)}"
    advice = [
        Advice(change, "a transfer costs about the same for twice the rows", run.gain(factor, 0.1)),
        _smaller_observations(run, moving, wanted),
        _ON_PROCESSOR,
    ]
    headline = "Device transfer is the limit: inference moves data rather than computing"
    return Finding("device transfer", load.name, headline, evidence, advice)


def _gatherings(learner: ComponentLoad) -> dict[str, float]:
    """Return the shares of all gathering by path, without what is part of preparing the batch."""
    return {
        path: share
        for path, share in learner.blocks.items()
        if path.rpartition("/")[2] == GATHER_OBSERVATIONS and not path.startswith(f"{PREPARE_BATCH}/")
    }


def _smaller_observations(run: JudgedRun, moving: float, wanted: float) -> Advice:
    factor = min(1 / max(1 - moving / 2, 0.1), wanted)
    return Advice("smaller observations, or bytes instead of floats", "fewer bytes are moved", run.gain(factor, 0.1))
