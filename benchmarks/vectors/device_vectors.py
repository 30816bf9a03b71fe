"""Print what a vector whose tensors live on a device costs, and whether the host ever waits for it.

For each simulator: frames/s of the simulator alone, with actions drawn for it (sampling), and trained on (the whole
serial run), in one process, one after the other. On a GPU also: that a rollout runs while every wait is an error, how
often the host waits in a dataset, and what the device's time of a training step is by events and by Kineto. Without a
GPU the tensors are the processor's.

    python -m benchmarks.vectors.device_vectors --simulators drift ant-spring ant-mjx

Brax's simulators need ``sample-profiler[brax]``. ``--checkpoint`` trains the first simulator for so many datasets and
prints a digest of all tensors of its checkpoint: equal with and without ``CUDA_LAUNCH_BLOCKING=1``, and ``--graphs``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.utils.dlpack import from_dlpack

from sample_profiler.components.inference_worker import InferenceWorker
from sample_profiler.components.learner import Learner
from sample_profiler.components.rollout_worker.tensor_group import TensorGroup
from sample_profiler.components.training.epochs import Epochs
from sample_profiler.envs import register_env
from sample_profiler.profiling import Timing
from sample_profiler.profiling.device_clock.clock import poll
from sf_examples.isaacgym_examples.isaacgym_tasks import ISAACGYM_DEFAULTS

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NUM_MEMBERS, ROLLOUT = 4096, 16
WARM_UP = 3
"""Datasets that are not measured."""


class Drift:
    """Points that drift, are pushed by actions, and are paid for staying: a few kernels a step.

    Args:
        num_members: of it.
        episode_steps: after which a member is cut off; they are not all at the same step.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (27,), np.float32)
    action_space = spaces.Box(-1, 1, (8,), np.float32)

    def __init__(self, num_members: int, episode_steps: int = 1000) -> None:
        self.num_envs = num_members
        self._generator = torch.Generator(DEVICE)
        self._push = torch.eye(8, 27, device=DEVICE)
        self._episode_steps = episode_steps
        self._never = torch.zeros(num_members, dtype=torch.bool, device=DEVICE)

    def reset(self, seed: int | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Begin."""
        self._generator.manual_seed(seed or 0)
        self._places = torch.randn(self.num_envs, 27, generator=self._generator, device=DEVICE)
        self._steps = torch.arange(self.num_envs, device=DEVICE) % self._episode_steps
        return self._places, {}

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Push, and drift."""
        noise = torch.randn(self.num_envs, 27, generator=self._generator, device=DEVICE)
        final = 0.95 * self._places + 0.3 * actions @ self._push + 0.1 * noise
        rewards = -final.square().mean(1)
        self._steps = self._steps + 1
        cut = self._steps >= self._episode_steps
        self._places = torch.where(cut[:, None], noise, final)
        self._steps = self._steps.masked_fill(cut, 0)
        return self._places, rewards, self._never, cut, {"final_obs": final}


def make_simulator(name: str) -> Any:
    """Make one by its name: ``drift``, or one of Brax's followed by its physics, as ``ant-spring``."""
    if name == "drift":
        return Drift(NUM_MEMBERS)
    from sf_examples.brax.brax_env import BraxVector

    body, physics = name.split("-")
    return BraxVector(body, NUM_MEMBERS, physics)


def measure_alone(vector: Any, num_steps: int) -> float:
    """Return frames/s of a simulator with the same actions in each step."""
    observations, _ = vector.reset(seed=1)
    actions = torch.rand(NUM_MEMBERS, *vector.action_space.shape, device=DEVICE) * 2 - 1
    taken = actions if isinstance(observations, torch.Tensor) or DEVICE.type != "cpu" else actions.numpy()
    rates = []
    for _ in range(4):  # the first one compiles
        begin_s = time.perf_counter()
        for _ in range(num_steps):
            _, rewards, *_ = vector.step(taken)
        from_dlpack(rewards).sum().item()
        rates.append(NUM_MEMBERS * num_steps / (time.perf_counter() - begin_s))
    return statistics.median(rates[1:])


class Watched:
    """Looks at the datasets of a run.

    Attributes:
        ends_s: when each was trained on.
        waits: places in the program that waited for the device, and how often in a measured dataset.
        kineto: seconds of the device for one dataset: by Kineto, of that with a kernel at work, and by events.
    """

    def __init__(self, *, trains: bool, shows_profile: bool = False) -> None:
        self._trains = trains
        self._shows_profile = shows_profile
        self.ends_s: list[float] = []
        self.waits: Counter[str] = Counter()
        self.kineto: tuple[float, float, float] | None = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch from here on."""
        train_on, train, step, tell = Learner._train_on, Epochs.train, TensorGroup.step, TensorGroup._tell
        answer = InferenceWorker._handle_policy_step

        def watch_training(learner: Learner, slots: list[int]) -> None:
            if self._trains:
                train_on(learner, slots)
            else:
                learner.progress.frames += len(slots) * learner._options.sampling.rollout
                learner._ports.trained.send(slots)
            self.ends_s.append(time.perf_counter())

        def compare_times(epochs: Epochs, *arguments: Any) -> None:
            if len(self.ends_s) == 1 and self._shows_profile:
                _show_profile(lambda: train(epochs, *arguments))
            elif DEVICE.type == "cuda" and len(self.ends_s) == WARM_UP:
                self.kineto = _device_seconds(epochs._trainer.timing, lambda: train(epochs, *arguments))
            else:
                train(epochs, *arguments)

        def strict(method: Callable[..., None]) -> Callable[..., None]:
            def checked(owner: Any, *arguments: Any) -> None:
                with _debug_mode("error" if len(self.ends_s) > 1 else None):
                    method(owner, *arguments)

            return checked

        def lenient(group: TensorGroup) -> None:
            with _debug_mode("warn"):
                tell(group)

        replaced: dict[Any, dict[str, Any]] = {
            Learner: {"_train_on": watch_training},
            Epochs: {"train": compare_times},
            TensorGroup: {"step": strict(step), "_tell": lenient},
            InferenceWorker: {"_handle_policy_step": strict(answer)},
        }
        with contextlib.ExitStack() as stack:
            for owner, methods in replaced.items():
                for name, method in methods.items():
                    stack.callback(setattr, owner, name, getattr(owner, name))
                    setattr(owner, name, method)
            told = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always")
            stack.enter_context(_debug_mode("warn"))
            yield
        self.waits = Counter(
            f"{Path(each.filename).name}:{each.lineno}" for each in told if "synchroniz" in str(each.message)
        )

    def rate(self, frames_per_dataset: int) -> float:
        """Return frames/s of the datasets behind the first ones."""
        measured = self.ends_s[WARM_UP + 1 :]
        return (len(measured) - 1) * frames_per_dataset / (measured[-1] - measured[0])


@contextlib.contextmanager
def _debug_mode(mode: str | None) -> Iterator[None]:
    if DEVICE.type == "cpu" or mode is None:
        yield
        return
    former = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode(mode)
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(former)


def _show_profile(work: Callable[[], None]) -> None:
    """Print what the host and the device do in training on one dataset."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if DEVICE.type == "cuda" else [])]) as profile:
        work()
    print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=40))


def _device_seconds(timing: Timing, work: Callable[[], None]) -> tuple[float, float, float]:
    """Return how long the device took: by Kineto, first kernel to last; of that in kernels; and by our events."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        with timing.add_time("compared", device=True):
            work()
        torch.cuda.synchronize()
    poll()
    kernels = [event for event in profile.events() if event.device_type == DeviceType.CUDA]
    by_kineto_us = max(event.time_range.end for event in kernels) - min(event.time_range.start for event in kernels)
    in_kernels_us = sum(event.time_range.elapsed_us() for event in kernels)
    nodes = [timing.snapshot()]
    while nodes:
        node = nodes.pop()
        if "compared" in node.children:
            device = node.children["compared"].device
            assert device is not None
            return by_kineto_us / 1e6, in_kernels_us / 1e6, device.total_ns / 1e9
        nodes += node.children.values()
    raise AssertionError("no such block")


def run(name: str, folder: str, num_datasets: int, watched: Watched | None, flags: Sequence[str] = ()) -> Path:
    """Train for so many datasets, and return the run's folder."""
    from sample_profiler.cli.train import train

    register_env("measured", lambda *_, **__: make_simulator(name))
    argv = [
        *("--env=measured", "--experiment=measured", f"--train_dir={folder}", "--restart_behavior=overwrite"),
        *(f"--train_for_env_steps={num_datasets * NUM_MEMBERS * ROLLOUT}", "--seed=1", *flags),
        f"--device={'gpu' if DEVICE.type == 'cuda' else 'cpu'}",
    ]
    with watched.watching() if watched else contextlib.nullcontext():
        status = train(argv, defaults=ISAACGYM_DEFAULTS)
    if status:
        raise RuntimeError(f"the run ended with status {status}")
    return Path(folder) / "measured"


def digest_of(folder: Path) -> str:
    """Return a digest of all tensors of the newest checkpoint."""
    path = sorted((folder / "checkpoint_p0").glob("checkpoint_*.pth"))[-1]
    digest = hashlib.sha256()

    def add(state: Any) -> None:
        if isinstance(state, torch.Tensor):
            digest.update(state.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(state, dict | list | tuple):
            for value in state.values() if isinstance(state, dict) else state:
                add(value)

    state = torch.load(path, weights_only=True, map_location="cpu")
    add([state[key] for key in ("model", "optimizer")])
    return digest.hexdigest()[:16]


def measure(name: str, num_datasets: int, flags: Sequence[str], *, shows_profile: bool) -> None:
    """Measure one simulator and print it."""
    frames = NUM_MEMBERS * ROLLOUT
    begin_s = time.perf_counter()
    alone = measure_alone(make_simulator(name), 50)
    print(f"{name}: alone {alone:,.0f} frames/s ({time.perf_counter() - begin_s:.0f} s with compiling)", flush=True)
    for what in ("sampling", "training"):
        watched = Watched(trains=what == "training", shows_profile=shows_profile)
        with tempfile.TemporaryDirectory() as folder:
            run(name, folder, num_datasets, watched, flags)
        rate = watched.rate(frames)
        print(f"{name}: {what} {rate:,.0f} frames/s, {rate / alone:.0%} of that alone", flush=True)
    num_waits = sum(watched.waits.values()) / len(watched.ends_s)
    print(f"{name}: {num_waits:.1f} host waits a dataset: {dict(watched.waits.most_common(14))}")
    if watched.kineto:
        by_kineto, in_kernels, by_events = watched.kineto
        told = f"by Kineto {by_kineto * 1e3:.2f} ms ({in_kernels / by_kineto:.0%} of it in kernels), by events "
        told += f"{by_events * 1e3:.2f} ms"
        print(f"{name}: the device took for training {told}: {by_events / by_kineto - 1:+.1%}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    global NUM_MEMBERS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulators", nargs="+", default=["drift"])
    parser.add_argument("--members", type=int, default=NUM_MEMBERS)
    parser.add_argument("--datasets", type=int, default=30)
    parser.add_argument("--profile", action="store_true", help="also print operators of one dataset's training")
    parser.add_argument("--checkpoint", type=int, default=0)
    parser.add_argument("--graphs", action="store_true", help="with --cuda_graphs")
    options = parser.parse_args(argv)
    flags = (f"--cuda_graphs={options.graphs}",)
    NUM_MEMBERS = options.members
    print(torch.cuda.get_device_name() if DEVICE.type == "cuda" else "there is no GPU: tensors of the processor")
    if options.checkpoint:
        with tempfile.TemporaryDirectory() as folder:
            print("digest", digest_of(run(options.simulators[0], folder, options.checkpoint, None, flags)))
        return 0
    status = 0
    for name in options.simulators:
        try:
            measure(name, options.datasets, flags, shows_profile=options.profile)
        except Exception:  # noqa: PERF203 (others are measured all the same)
            traceback.print_exc()
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
