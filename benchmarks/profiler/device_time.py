"""Print what measuring device time costs, and how host and device time differ: off, with events, synchronized.

A small network runs forward and backward many times, each in a block, in rounds of the three modes in turn; of each
mode the quickest round is shown, since everything that disturbs a run only makes it longer. Without a GPU there is
nothing to measure but the bookkeeping: a device that exists in memory alone is used.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from sample_profiler.profiling import Timing
from sample_profiler.profiling.device_clock.clock import NoDevice, device_clock_for, poll, set_device_clock, settle
from sample_profiler.profiling.device_clock.fake import FakeDevice

MODES = ("off", "events", "synchronize")
NUM_ROUNDS = 5


def make_work() -> Callable[[], None]:
    """Return a step of a small network on the GPU."""
    import torch
    from torch import nn

    network = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))
    network.to("cuda")
    inputs = torch.randn(8192, 512, device="cuda")

    def work() -> None:
        network(inputs).mean().backward()

    return work


def nothing() -> None:
    """Stand in for work where there is no GPU."""


def run_round(mode: str, work: Callable[[], None], num_passes: int, has_gpu: bool) -> tuple[float, Timing]:
    """Return the seconds of one round, the device's last work included, and what was recorded."""
    if mode == "off":
        set_device_clock(NoDevice())
    else:
        clock = device_clock_for("cuda") if has_gpu else FakeDevice()
        set_device_clock(clock, synchronize=mode == "synchronize")
    timing = Timing(mode)
    start_s = time.perf_counter()
    for _ in range(num_passes):
        with timing.add_time("step", device=True):
            work()
        poll()
    if has_gpu:
        import torch

        torch.cuda.synchronize()
    seconds = time.perf_counter() - start_s
    poll()
    settle()
    return seconds, timing


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_passes", type=int, default=2000)
    num_passes = parser.parse_args().num_passes
    try:
        import torch

        has_gpu = torch.cuda.is_available()
    except ImportError:
        has_gpu = False
    work = make_work() if has_gpu else nothing
    print("on the GPU" if has_gpu else "there is no GPU: the bookkeeping alone, on a device in memory")
    run_round("off", work, num_passes, has_gpu)  # the first passes load kernels
    rounds = [{mode: run_round(mode, work, num_passes, has_gpu) for mode in MODES} for _ in range(NUM_ROUNDS)]
    off_s = min(results["off"][0] for results in rounds)
    for mode in MODES:
        seconds, timing = min((results[mode] for results in rounds), key=lambda result: result[0])
        node = timing.snapshot().children["step"]
        host_us = node.statistics.total_ns / num_passes / 1000
        line = (
            f"{mode}: {seconds / num_passes * 1e6:.2f} us a pass ({seconds / off_s:.3f} x off), host {host_us:.2f} us"
        )
        if node.device is not None:
            line += f", device {node.device.total_ns / max(1, node.device.count) / 1000:.2f} us"
            line += f", {node.device.num_unresolved} unresolved"
        print(line)
    set_device_clock(NoDevice())


if __name__ == "__main__":
    main()
