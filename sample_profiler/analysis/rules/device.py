"""What holds up a run whose simulator, inference and training take turns on one accelerator, or in one process."""

from __future__ import annotations

from sample_profiler.analysis.device_use import SIMULATION, TRAINING, DeviceUse, device_use
from sample_profiler.analysis.findings import LITTLE, OWN_WORK, Advice, Finding, JudgedRun, percent
from sample_profiler.vocabulary import ENV_STEP, SIMULATE, TRAIN

__all__ = ["launches", "simulator", "training_on_device"]

_HALF = 0.5


def launches(run: JudgedRun) -> Finding | None:
    """The host works all the time to give the device work, and hardly ever waits for it."""
    use = _use(run)
    if use is None or use.waited >= LITTLE:
        return None
    host = {load.name: load.busy for load in run.facts.components}
    if sum(host.values()) < OWN_WORK:
        return None
    largest = max(host, key=lambda name: host[name])
    evidence = [
        f"the host works {percent(min(1.0, sum(host.values())))} of the time, most of it as {largest}, and waits for "
        f"the device for {percent(use.waited)}",
        _describe(use),
    ]
    why = "each call then has more work; the device takes hardly longer for it"
    advice = [Advice("a larger vector (--env_agents), and --batch_size with it", why)]
    if largest == (run.learner.name if run.learner else ""):
        advice.append(Advice("fewer --num_epochs, or fewer --num_batches_per_epoch", "fewer optimizer steps"))
    headline = "Giving the device work takes longer than the work itself: it waits for the host"
    return Finding("launches", largest, headline, evidence, advice)


def simulator(run: JudgedRun) -> Finding | None:
    """The simulator has the device, or the only process there is, for half of the time and more."""
    if not run.facts.is_serial or not run.workers:
        return None
    use, path = _use(run), f"{ENV_STEP}/{SIMULATE}"
    worker = max(run.workers, key=lambda load: load.blocks.get(path, 0.0))
    on_host = sum(load.blocks.get(path, 0.0) for load in run.workers)
    share = on_host if use is None else use.parts.get(SIMULATION, 0.0)
    if share < _HALF:
        return None
    whose = "the time" if use is None else "the device's time"
    evidence = [f"{worker.name}: the simulator takes {percent(share)} of {whose}"]
    evidence.append(f"all others together {percent(max(0.0, 1 - share))}" if use is None else _describe(use))
    why = "whatever becomes of the rest, there is no more than what the simulator gives alone"
    change = "a quicker simulator, or a GPU for it" if use is None else "a quicker simulator, or a faster GPU"
    advice = [Advice(change, why), Advice("fewer steps of physics for each action", "if the task allows for it")]
    headline = f"The simulator is the limit: the run is {percent(share)} of it"
    return Finding("simulator", worker.name, headline, evidence, advice)


def training_on_device(run: JudgedRun) -> Finding | None:
    """Simulator and Learner take turns on one device, and the Learner has it for longer."""
    use, learner = _use(run), run.learner
    if use is None or learner is None or use.parts.get(TRAINING, 0.0) <= use.parts.get(SIMULATION, 0.0):
        return None
    training = use.parts[TRAINING]
    evidence = [f"{learner.name} has the device for {percent(training)} of the time", _describe(use)]
    advice = []
    epochs = int(run.facts.flag("num_epochs", 1))
    if epochs > 1:
        saved = learner.device.get(TRAIN, training) / epochs
        why = f"each sample is trained on {epochs} times; watch the learning curve"
        advice.append(Advice(f"--num_epochs={epochs - 1}", why, run.gain(1 / max(1 - saved, 0.1))))
    if run.may_gain_by_bf16:
        advice.append(Advice("--precision=bf16", "its multiplications take less time then", run.gain(1.35, 0.1)))
    advice.append(Advice("a smaller network, or a faster GPU", "the simulator waits for the Learner meanwhile"))
    headline = "Training is the limit: the Learner has the device for longer than the simulator"
    return Finding("learner", learner.name, headline, evidence, advice)


def _use(run: JudgedRun) -> DeviceUse | None:
    """Return what the device of a run is used for whose environments are on it, too, in the same process."""
    use = device_use(run.facts.components) if run.facts.is_serial else None
    return use if use is not None and SIMULATION in use.parts else None


def _describe(use: DeviceUse) -> str:
    parts = sorted(use.parts.items(), key=lambda part: -part[1])
    told = ", ".join(f"{what} {percent(share)}" for what, share in parts)
    return f"of the device's time: {told}, nobody {percent(use.idle)}"
