"""Ranks add up what they have, share what the first one has, and hear of each other's ends."""

from __future__ import annotations

import time

import pytest
import torch

from sample_profiler.errors import RankError
from sample_profiler.model.normalization import RunningMeanStd
from sample_profiler.ppo import ranks as ranks_module
from sample_profiler.ppo.ranks import ConnectedRanks, Ranks, connect_ranks
from sample_profiler.profiling import Timing
from sample_profiler.runtime.machine.ranks import RankPlace, RankState
from tests.ppo.ranks_in_threads import in_ranks, places

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _over_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


def connect(place: RankPlace, device: torch.device = CPU, timeout_s: float = 30.0) -> ConnectedRanks:
    return connect_ranks(place, 0, device, timeout_s, Timing(f"rank {place.rank}"))


def test_tensors_of_any_shape_and_precision_become_their_sums() -> None:
    def add(place: RankPlace) -> list[torch.Tensor]:
        ranks = connect(place)
        tensors = [torch.full((2, 3), 1.0 + place.rank), torch.tensor(1e-12 + place.rank, dtype=torch.float64)]
        ranks.add_up(tensors)
        ranks.add_up([])
        return tensors

    for sums in in_ranks(3, add):
        assert torch.equal(sums[0], torch.full((2, 3), 6.0))
        assert float(sums[1] - 3) == pytest.approx(3e-12, rel=1e-3), "nothing is rounded to float32 on the way"


def test_adding_up_is_a_block_of_the_tree() -> None:
    def add(place: RankPlace) -> list[str]:
        timing = Timing("rank")
        connect_ranks(place, 0, CPU, 30.0, timing).add_up([torch.ones(3)])
        return list(timing)

    assert in_ranks(2, add) == [["all_reduce"], ["all_reduce"]]


def test_all_have_the_state_of_the_first() -> None:
    def share(place: RankPlace) -> dict[str, object]:
        return connect(place).share({"weights": torch.full((1000,), float(place.rank)), "frames": 7 + place.rank})

    for state in in_ranks(2, share):
        assert state["frames"] == 7
        assert torch.equal(state["weights"], torch.zeros(1000))  # type: ignore[arg-type]


def test_statistics_are_those_of_all_samples_whoever_saw_them() -> None:
    generator = torch.Generator().manual_seed(1)
    samples = 3 + torch.randn(6, 50, 2, generator=generator, dtype=torch.float64)
    expected = RunningMeanStd((2,))
    for piece in samples:
        expected.update(piece)

    def learn(place: RankPlace) -> RunningMeanStd:
        ranks, statistics = connect(place), RunningMeanStd((2,))
        for first in (0, 2):  # what one rank sees is not what the others do, and one sees nothing the second time
            with ranks.adding_up(statistics):
                for piece in (samples[first + place.rank],) if place.rank < 2 else samples[4:] if first else ():
                    statistics.update(piece)
        return statistics

    for statistics in in_ranks(3, learn):
        for name, value in expected.named_buffers():
            torch.testing.assert_close(statistics.get_buffer(name), value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("state", [RankState.DONE, RankState.INTERRUPTED, RankState.FAILED])
def test_all_hear_of_the_most_urgent_end_and_whose_it_is(state: RankState) -> None:
    def meet(place: RankPlace) -> list[tuple[RankState, int]]:
        ranks, heard = connect(place), []
        for mine in (RankState.GOES_ON, state if place.rank == 2 else RankState(place.rank)):
            meeting = ranks.meet(mine)
            heard.append((meeting.state, meeting.rank))
        return heard

    first, second = (RankState.GOES_ON, 0), (state, 1 if state == RankState.DONE else 2)
    assert in_ranks(3, meet) == [[first, second]] * 3


def test_who_comes_last_is_known_to_all() -> None:
    def meet(place: RankPlace) -> int:
        ranks = connect(place)
        for _ in range(3):
            if place.rank == 1:
                torch.zeros(3_000_000).sort()  # work that the others do not have
            ranks.meet(RankState.GOES_ON)
        return ranks.meet(RankState.GOES_ON).slowest

    assert in_ranks(3, meet) == [1, 1, 1]


def test_the_clock_of_a_rank_that_all_wait_for_is_known_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks_module, "_COMPARE_CLOCKS_S", 0.0)
    late_s = 0.4

    def meet(place: RankPlace) -> tuple[float, float]:
        ranks = connect(place)
        for _ in range(3):
            if place.rank == 1:
                time.sleep(late_s)
            ranks.meet(RankState.GOES_ON)
        return (ranks.clock.offset_s, ranks.clock.error_s) if ranks.clock else (0.0, 0.0)

    offset_s, error_s = in_ranks(2, meet)[1]
    assert abs(offset_s) <= error_s < late_s / 2, "meetings alone would leave as much open as the others wait"


def test_who_is_last_in_steps_is_known_to_all_and_what_adding_up_takes_without_the_wait_for_it() -> None:
    def step(place: RankPlace) -> tuple[int | None, float]:
        ranks = connect(place)
        for _ in range(4):
            if place.rank == 1:
                torch.zeros(3_000_000).sort()  # work that the others do not have
            ranks.add_up([torch.ones(10)])
            meeting = ranks.meet(RankState.GOES_ON)
        return meeting.slowest_in_steps, meeting.adding_up_ratio

    slowest, ratios = zip(*in_ranks(3, step), strict=True)
    assert slowest == (1, 1, 1)
    assert ratios[1] == 1.0
    assert max(ratios[0], ratios[2]) < 0.5


def test_of_devices_whose_adding_up_nobody_waits_for_nobody_is_said_to_be_last_in_steps() -> None:
    def step(place: RankPlace) -> tuple[int | None, float]:
        ranks = connect(place)
        ranks._device_group = object()  # as between GPUs: another one than that for the machine's memory
        ranks.add_up([torch.ones(10)])
        meeting = ranks.meet(RankState.GOES_ON)
        return meeting.slowest_in_steps, meeting.adding_up_ratio

    assert in_ranks(2, step) == [(None, 1.0)] * 2


def test_a_lost_rank_is_an_error_of_the_others_which_says_what_to_do() -> None:
    def lose(place: RankPlace) -> str:
        ranks = connect(place)
        ranks.meet(RankState.GOES_ON)
        if place.rank == 1:
            return ""  # with it its connections end, as with a process that is killed
        with pytest.raises(RankError) as caught:
            ranks.meet(RankState.GOES_ON)
        return str(caught.value)

    message = in_ranks(2, lose)[0]
    assert message.startswith("rank 0 cannot go on: another rank is lost")
    assert "--max-restarts" in message


@pytest.mark.parametrize("failing", [0, 1])
def test_one_that_fails_between_two_meetings_ends_all_at_once_and_they_say_why(failing: int) -> None:
    def fail(place: RankPlace) -> str:
        ranks = connect(place, timeout_s=600.0)
        with pytest.raises(Exception) as caught, ranks.failing_together():
            ranks.meet(RankState.GOES_ON)
            if place.rank == failing:
                raise ValueError("the observations\nare not finite")
            ranks.add_up([torch.ones(100)])
            ranks.meet(RankState.GOES_ON)  # whoever was further may have had what it needs for that
        assert ranks.is_broken
        return f"{type(caught.value).__name__}: {caught.value}"

    messages = in_ranks(4, fail)
    assert messages.pop(failing) == "ValueError: the observations\nare not finite"
    word = f"RankError: rank {failing} has failed: ValueError: the observations (its own log says more)"
    assert messages == [word] * 3


def test_who_never_comes_is_waited_for_no_longer_than_asked() -> None:
    first, _ = places(2)
    with pytest.raises(RankError, match=r"rank 0 of 2 cannot reach the others at 127.0.0.1:\d+ within 0.5 s"):
        connect(first, timeout_s=0.5)


def test_ranks_on_devices_of_two_kinds_are_refused_by_all() -> None:
    def connect_and_check(place: RankPlace) -> str:
        ranks = connect(place)
        with pytest.raises(RankError) as caught:
            ranks.check_devices(torch.device("cpu" if place.rank else "cuda"))
        return str(caught.value)

    for message in in_ranks(2, connect_and_check):
        assert message.startswith("rank 1 would train on a processor and the rest on GPUs")


def test_one_alone_has_nothing_to_agree_on() -> None:
    ranks, numbers, state = Ranks(), torch.ones(2), {"frames": 3}
    ranks.add_up([numbers])
    assert numbers.tolist() == [1.0, 1.0]
    assert ranks.share(state) is state
    assert ranks.meet(RankState.DONE).state == RankState.DONE
