"""Owns what the processes have in common that train one policy together, each on trajectories of its own: its *ranks*.

All of them hold the same weights. Each computes gradients of its part of a minibatch, they add these up, and take the
same optimizer step: the one that a single process would have taken on all parts together (Li et al. 2020,
arXiv:2006.15704, section 3). What a step depends on beside gradients is added up in the same way: how many steps count,
the moments of advantages, the statistics of normalizers, the KL divergence that a schedule follows.

Whoever exchanges something waits for all others. So they meet before each dataset, and one that comes to its end tells
the others there: after that nobody waits for anybody any more. One that fails between two meetings breaks its
connections instead, so that nobody waits for it, and leaves word of the reason.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import nn

from sample_profiler.errors import RankError
from sample_profiler.model.normalization import added_up
from sample_profiler.profiling import Timing
from sample_profiler.runtime.machine.clock_bounds import ClockBounds
from sample_profiler.runtime.machine.ranks import RankPlace, RankState
from sample_profiler.vocabulary import ALL_REDUCE

__all__ = ["ConnectedRanks", "Meeting", "Ranks", "connect_ranks"]

_Group = Any  # of torch.distributed, made directly: the default group of the process is its user's

_WORD = "word"  # the key of the reason why a rank has broken its connections
_NUM_READERS = "num_readers"  # of that word
_READ_S = 2.0  # that rank 0, where it serves that word, has for the others
_COMPARE_CLOCKS_S = 2.0  # another message that often: in between, they drift apart by a tenth of a millisecond
_RECENT = 0.1  # by which the latest wait counts in the mean of all before it


@dataclass(frozen=True)
class Meeting:
    """What ranks have heard of each other.

    Attributes:
        state: of the one that ends most urgently; `GOES_ON`: none does.
        rank: which that is.
        slowest: the one that has waited least for the others lately.
        slowest_in_steps: the one that has taken least time for adding up lately: it comes last there, too. None: that
            cannot be told, as of a single one, or of GPUs, which add up while their processes go on.
        adding_up_ratio: what adding up takes that one, to what it takes this rank: the rest is a wait for that one.
    """

    state: RankState = RankState.GOES_ON
    rank: int = 0
    slowest: int = 0
    slowest_in_steps: int | None = None
    adding_up_ratio: float = 1.0


class Ranks:
    """The ranks of a policy; this class: a single one, who has nobody to wait for.

    Attributes:
        rank: number of this process among them.
        size: how many there are.
        timeout_s: for which one waits for the others.
        clock: by how much this one's is ahead of rank 0's; None: it is that one.
        is_broken: whether it has no connections any more, since this one or another has failed.
    """

    rank = 0
    size = 1
    timeout_s = 0.0
    clock: ClockBounds | None = None
    is_broken = False

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace each of these tensors by its sum over all ranks; of the same shapes at each."""

    def adding_up(self, normalizer: nn.Module) -> contextlib.AbstractContextManager[None]:  # noqa: ARG002
        """Let what a normalizer takes into account meanwhile be what it does at all ranks."""
        return contextlib.nullcontext()

    def share(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state that rank 0 has given: tensors and plain data alone."""
        return state

    def meet(self, state: RankState) -> Meeting:
        """Wait until all ranks have come here, and hear how they are; `state` is what this one says of itself."""
        return Meeting(state)

    def failing_together(self) -> contextlib.AbstractContextManager[None]:
        """Let all ranks fail at once, with the reason, if this one does meanwhile."""
        return contextlib.nullcontext()


class ConnectedRanks(Ranks):
    """Several ranks, which exchange tensors through torch.distributed: gloo, and nccl between GPUs.

    Args:
        group: of all of them, for what is in the machine's memory.
        device_group: the same for what is where the network is trained.
        board: a store of torch.distributed, where one that fails leaves word for the others.
        is_board_here: whether that ends with this process.
        timeout_s: for which one waits for the others.
        timing: where it is recorded what adding up takes.
    """

    def __init__(
        self, group: _Group, device_group: _Group, board: Any, is_board_here: bool, timeout_s: float, timing: Timing
    ) -> None:
        self.rank, self.size = group.rank(), group.size()
        self._board = board
        self._is_board_here = is_board_here
        self._timing = timing
        self.timeout_s = timeout_s
        self._group = group
        self._device_group = device_group
        self._left_s = 0.0  # the latest meeting
        self._compared_s = -math.inf  # clocks, beside what meetings tell of them
        self.clock = ClockBounds() if self.rank else None
        self._waited_s = 0.0  # for the others when all met, a mean of the latest times
        self._adding_up_s = 0.0  # between two meetings, a mean of the latest
        self._added_up_s = 0.0  # since the latest meeting

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Add up in one message, whose length and not whose number of parts costs time.

        Raises:
            RankError: another rank is lost.
        """
        if not tensors:
            return
        with self._timing.add_time(ALL_REDUCE, device=True):
            dtype = functools.reduce(torch.promote_types, (each.dtype for each in tensors))
            flat = torch.cat([each.detach().reshape(-1).to(dtype) for each in tensors])
            began_s = time.perf_counter()
            # No name for the group: a traceback would hold it, and its connections are to end with it.
            self._wait(lambda: (self._group if flat.is_cpu else self._device_group).allreduce([flat]))
            for each, total in zip(tensors, torch.split(flat, [each.numel() for each in tensors]), strict=True):
                each.detach().copy_(total.view(each.shape))
            self._added_up_s += time.perf_counter() - began_s

    def adding_up(self, normalizer: nn.Module) -> contextlib.AbstractContextManager[None]:
        """Let the statistics be those of the samples of all ranks."""
        return added_up(normalizer, self.add_up)

    def share(self, state: dict[str, Any]) -> dict[str, Any]:
        """Send rank 0's state to all, as torch saves it: loading it executes nothing.

        Raises:
            RankError: another rank is lost.
        """
        stream = io.BytesIO()
        if self.rank == 0:
            torch.save(state, stream)
        data = torch.frombuffer(bytearray(stream.getvalue()) or bytearray(1), dtype=torch.uint8)
        length = torch.tensor([len(data)])
        self._wait(lambda: self._group.broadcast([length]))
        if self.rank > 0:
            data = torch.empty(int(length), dtype=torch.uint8)
        self._wait(lambda: self._group.broadcast([data]))
        loaded: dict[str, Any] = torch.load(io.BytesIO(data.numpy().tobytes()), weights_only=True)
        return loaded

    def meet(self, state: RankState) -> Meeting:
        """Wait until all ranks have come here, and hear how they are.

        Raises:
            RankError: another rank is lost, or does not come.
        """
        came_s = time.perf_counter()
        self._adding_up_s += _RECENT * (self._added_up_s - self._adding_up_s)
        self._added_up_s = 0.0
        is_time_to_compare = self.rank == 0 and came_s - self._compared_s >= _COMPARE_CLOCKS_S
        own = (float(state), self._waited_s, self._adding_up_s, float(is_time_to_compare), came_s, self._left_s)
        heard = self._gather(*own)
        left_s = self._leave(came_s, heard[0])
        self._waited_s += _RECENT * (left_s - came_s - self._waited_s)
        ending = max(range(self.size), key=lambda rank: heard[rank][0])
        slowest = min(range(self.size), key=lambda rank: heard[rank][1])
        state = RankState(int(heard[ending][0]))
        if heard[0][3] and state == RankState.GOES_ON:
            self._compare_clocks()
        if self._device_group is not self._group:
            return Meeting(state, ending, slowest)
        quickest_to_add = min(range(self.size), key=lambda rank: heard[rank][2])
        ratio = heard[quickest_to_add][2] / self._adding_up_s if self._adding_up_s else 1.0
        return Meeting(state, ending, slowest, quickest_to_add, ratio)

    def _compare_clocks(self) -> None:
        """Meet again at once: of a rank that the others always wait for, meetings say little of its clock."""
        self._compared_s = came_s = time.perf_counter()
        self._leave(came_s, self._gather(came_s, self._left_s)[0])

    def _leave(self, came_s: float, heard: Sequence[float]) -> float:
        """Note the end of a meeting, at which rank 0 has said last when it came, and left the one before; return it."""
        self._left_s = left_s = time.perf_counter()
        if self.clock is not None:
            self.clock.meet(came_s, left_s, *heard[-2:])
        return left_s

    @contextlib.contextmanager
    def failing_together(self) -> Iterator[None]:
        """Break the connections if something fails meanwhile, so that whoever waits in an exchange fails as well.

        The others are told why by their own errors. One of them that fails for this reason passes it on by breaking
        its own connections: an exchange waits for neighbours alone.
        """
        try:
            yield
        except RankError:
            self._break_off("")
            raise
        except BaseException as error:
            self._break_off(f"rank {self.rank} has failed: {type(error).__name__}: {_first_line(error)}")
            raise

    def check_devices(self, device: torch.device) -> None:
        """See that all ranks train on devices of one kind.

        Raises:
            RankError: they do not.
        """
        on_gpu = [bool(entry[0]) for entry in self._gather(float(device.type != "cpu"))]
        if len(set(on_gpu)) > 1:
            others = ", ".join(str(rank) for rank, is_on_gpu in enumerate(on_gpu) if not is_on_gpu)
            raise RankError(
                f"rank {others} would train on a processor and the rest on GPUs: give each rank a GPU, with "
                "--nproc-per-node as many as each machine has, or all of them --device=cpu"
            )

    def _gather(self, *values: float) -> list[list[float]]:
        mine = torch.tensor(values, dtype=torch.float64)
        everybody = [torch.empty_like(mine) for _ in range(self.size)]
        self._wait(lambda: self._group.allgather([everybody], [mine]))
        return [entry.tolist() for entry in everybody]

    def _break_off(self, word: str) -> None:
        """Leave word, unless another rank has, and end all connections.

        Args:
            word: the reason; empty: it is another one's.
        """
        if self.is_broken:
            return
        self.is_broken = True
        with contextlib.suppress(RuntimeError):  # who serves it may be gone
            if word:
                self._board.compare_set(_WORD, "", word)
        self._group = self._device_group = None  # nothing else holds them
        if self._is_board_here and word:
            self._await_readers()

    def _await_readers(self) -> None:
        """Stay until the others have read why this one fails."""
        deadline_s = time.monotonic() + _READ_S
        while self._board.add(_NUM_READERS, 0) < self.size - 1 and time.monotonic() < deadline_s:
            time.sleep(0.01)

    def _read_word(self) -> str:
        """Return what a rank has said that has broken its connections; empty: nothing, as one that was killed."""
        with contextlib.suppress(RuntimeError):
            if self._board.check([_WORD]):
                word: str = self._board.get(_WORD).decode()
                self._board.add(_NUM_READERS, 1)
                return word
        return ""

    def _wait(self, begin: Callable[[], Any]) -> None:
        try:
            begin().wait()
        except RuntimeError as error:
            if word := self._read_word():
                raise RankError(f"{word} (its own log says more)") from None
            raise RankError(
                f"rank {self.rank} cannot go on: another rank is lost, or has not answered for {self.timeout_s:g} s "
                f"({_first_line(error)}). The log of that one says more; torchrun with "
                "--max-restarts starts all of them again, from the latest checkpoint"
            ) from error


def connect_ranks(
    place: RankPlace, policy: int, device: torch.device, timeout_s: float, timing: Timing
) -> ConnectedRanks:
    """Connect several ranks that train a policy; wait until all of them are there.

    Args:
        place: of this process among them.
        policy: whose Learners these are: each has connections of its own.
        device: where the network is trained.
        timeout_s: for which one waits for the others, now and later.
        timing: of the Learner.

    Raises:
        RankError: they do not come, or train on other kinds of devices.
    """
    # Only now: who trains alone does without it.
    from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore  # type: ignore[attr-defined]

    timeout = timedelta(seconds=timeout_s)
    try:
        store = TCPStore(
            place.address,
            # Where rank 0 has to open it, each Learner of its does, in a process of its own.
            place.port if place.is_served else place.port + policy,
            place.size,
            is_master=place.is_first and not place.is_served,
            timeout=timeout,
            wait_for_workers=False,
        )
        own = PrefixStore(f"policy_{policy}/start_{place.num_restarts}", store)
        group = device_group = ProcessGroupGloo(own, place.rank, place.size, timeout)
        if device.type != "cpu":
            device_group = _make_device_group(own, place, timeout)
    except (RuntimeError, ValueError) as error:
        raise RankError(
            f"rank {place.rank} of {place.size} cannot reach the others at {place.address}:{place.port} within "
            f"{timeout_s:g} s ({_first_line(error)}): look whether all of them run, and whether ports are open "
            "between their machines"
        ) from error
    is_board_here = place.is_first and not place.is_served
    ranks = ConnectedRanks(group, device_group, own, is_board_here, timeout_s, timing)
    ranks.check_devices(device)
    return ranks


def _make_device_group(store: Any, place: RankPlace, timeout: timedelta) -> _Group:
    from torch.distributed import PrefixStore, ProcessGroupNCCL  # type: ignore[attr-defined]

    options = ProcessGroupNCCL.Options()
    options._timeout = timeout
    return ProcessGroupNCCL(PrefixStore("device", store), place.rank, place.size, options)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
