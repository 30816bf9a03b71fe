"""A clock that moves only when a test says so, and one Timing per recorder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sample_profiler.profiling import Timing
from sample_profiler.profiling.device_clock.clock import NoDevice, set_device_clock
from sample_profiler.profiling.device_clock.fake import FakeDevice
from sample_profiler.profiling.recorder.choice import TWIN, get_open_blocks

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:  # tests find `record_writer` with it
    sys.path.insert(0, FOLDER)

from pure_timing import PureTiming  # noqa: E402

MakeTiming = Callable[..., Timing]

# Every implementation of the recorder passes the same tests: a further one gets its factory here.
TWINS: dict[str, MakeTiming] = {"python": PureTiming} | ({"compiled": Timing} if TWIN == "compiled" else {})


class FakeClock:
    """Nanoseconds that pass on request."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def spend(self, timing: Timing, key: str, seconds: float, method: str = "add_time") -> None:
        """Pass the time inside a block."""
        with getattr(timing, method)(key):
            self.pass_s(seconds)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=sorted(TWINS))
def make_timing(request: pytest.FixtureRequest) -> MakeTiming:
    return TWINS[request.param]


@pytest.fixture
def timing(make_timing: MakeTiming, clock: FakeClock) -> Timing:
    return make_timing("Test", clock_ns=clock)


@pytest.fixture(autouse=True)
def no_block_leaks() -> Iterator[None]:
    yield
    assert get_open_blocks() == []


@pytest.fixture
def device() -> Iterator[FakeDevice]:
    """A device that this process measures with, until the end of the test."""
    fake = FakeDevice()
    set_device_clock(fake)
    yield fake
    set_device_clock(NoDevice())
