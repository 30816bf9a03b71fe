"""Why processes end for want of memory, with a kernel that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_profiler.profiling.process.control_groups import ControlGroup
from sample_profiler.runtime.machine import memory_watch
from sample_profiler.runtime.machine.memory_limits import MemoryLimit, ProcessMemory
from sample_profiler.runtime.machine.memory_watch import MemoryWatch

MIB = 1 << 20
GROUP = ControlGroup(2, Path("/cgroup"), Path("/cgroup/box"))
MACHINE, OF_GROUP = Path("vmstat"), Path("memory.events")
NAMES = {1: "the main process", 2: "Learner_0", 3: "RolloutWorker_w0", 4: "RolloutWorker_w1"}


class Kernel:
    """Memory of processes by number, in MiB, and how many it has ended."""

    def __init__(self, monkeypatch):
        self.now_s = 100.0
        self.mib = dict.fromkeys(NAMES, 100)
        self.limits = ()
        self.kills = {MACHINE: 5, OF_GROUP: 0}
        self.watch = MemoryWatch(lambda: self.now_s)
        monkeypatch.setattr(memory_watch, "groups_of", lambda *_: (GROUP,))
        monkeypatch.setattr(memory_watch, "count_kills", lambda _: dict(self.kills))
        monkeypatch.setattr(memory_watch, "find_limit", lambda _: MemoryLimit(2048 * MIB, "of the group"))
        monkeypatch.setattr(memory_watch, "read_process_memory", self._memory)

    def _memory(self, pid):
        return ProcessMemory(self.mib[pid] * MIB, self.limits) if pid in self.mib else None

    def look(self, started=None):
        self.watch.look({pid: NAMES[pid] for pid in self.mib if pid in NAMES}, started or {})

    def pass_s(self, seconds, growing=None, mib_per_s=0):
        for _ in range(int(seconds)):
            self.now_s += 1
            if growing:
                self.mib[growing] += mib_per_s
            if self.now_s % 2 == 0:
                self.look()

    def end(self, pid, most_mib=0, *, by_kernel=True):
        del self.mib[pid]
        for counter in self.kills:
            self.kills[counter] += by_kernel
        self.look()
        self.watch.note_end(pid, most_mib * MIB)


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel(monkeypatch)
    kernel.look()
    return kernel


def test_who_was_killed_by_somebody_did_not_lack_memory(kernel):
    kernel.pass_s(5, growing=4, mib_per_s=300)
    kernel.end(4, by_kernel=False)
    assert kernel.watch.explain_end(4, was_killed=True) is None
    assert kernel.watch.explain_end(77, was_killed=True) is None, "nobody knows it"


@pytest.mark.parametrize("counter", [MACHINE, OF_GROUP])
def test_whom_the_kernel_has_ended_is_told_with_its_growth_and_with_all_others(kernel, counter):
    kernel.pass_s(20)
    kernel.pass_s(10, growing=4, mib_per_s=100)
    kernel.kills = {counter: kernel.kills[counter]}
    kernel.end(4, most_mib=1150)
    lack = kernel.watch.explain_end(4, was_killed=True)
    assert lack.by_kernel and lack.limit.num_bytes == 2048 * MIB
    assert (lack.lost.name, lack.lost.num_bytes, lack.lost.before_bytes) == (NAMES[4], 1150 * MIB, 100 * MIB)
    assert 9 <= lack.lost.grown_s <= 12
    assert [use.name for use in lack.others] == [NAMES[pid] for pid in (1, 2, 3)]


def test_one_kill_explains_one_end(kernel):
    kernel.pass_s(6)
    kernel.end(3)
    assert kernel.watch.explain_end(3, was_killed=True)
    kernel.now_s += 0.5
    kernel.end(4, by_kernel=False)
    assert kernel.watch.explain_end(4, was_killed=True) is None
    assert not kernel.watch.has_new_kills(2)
    kernel.pass_s(3)
    kernel.now_s += 0.1
    kernel.end(2)
    assert kernel.watch.explain_end(2, was_killed=True), "the next one has one of its own"


def test_two_that_are_ended_in_one_moment_are_both_explained(kernel):
    kernel.pass_s(6)
    kernel.end(3)
    kernel.kills = {counter: count + 1 for counter, count in kernel.kills.items()}
    assert kernel.watch.has_new_kills(3)
    assert not kernel.watch.has_new_kills(77)
    kernel.pass_s(1)
    del kernel.mib[4]  # it takes longer to end, and may be seen alive although it is counted
    kernel.watch.note_end(4, 700 * MIB)
    first = kernel.watch.explain_end(3, was_killed=True)
    assert [use.num_bytes for use in first.others if use.name == NAMES[4]] == [700 * MIB]
    assert kernel.watch.explain_end(4, was_killed=True)
    assert kernel.watch.explain_end(3, was_killed=True) is None


def test_one_that_was_never_looked_at_is_known_by_what_it_had_at_most(kernel):
    kernel.pass_s(4)
    kernel.watch.begin(9, "RolloutWorker_w2")
    kernel.kills[MACHINE] += 1
    kernel.watch.note_end(9, 800 * MIB)
    assert kernel.watch.explain_end(9, was_killed=True).lost.num_bytes == 800 * MIB


def test_who_breaks_off_near_a_limit_of_its_own_lacked_memory(kernel):
    kernel.limits = (MemoryLimit(2000 * MIB, "of addresses", used=1000 * MIB),)
    kernel.look()
    kernel.end(3, by_kernel=False)
    assert kernel.watch.explain_end(3, was_killed=False) is None, "it had half of it"
    kernel.end(4, most_mib=1050, by_kernel=False)  # 950 more since the latest look
    lack = kernel.watch.explain_end(4, was_killed=False)
    assert not lack.by_kernel and lack.limit.owner == "of addresses"


def test_what_was_refused_memory_is_told_with_its_own_limit_or_that_of_all(kernel):
    assert kernel.watch.explain_refusal(4, was_refused=True).limit.owner == "of the group"
    kernel.limits = (MemoryLimit(9000 * MIB, "of data", 5), MemoryLimit(9000 * MIB, "of addresses", 8000 * MIB))
    kernel.look()
    assert kernel.watch.explain_refusal(4, was_refused=True).limit.owner == "of addresses"
    assert kernel.watch.explain_refusal(77, was_refused=True) is None


def test_what_failed_when_the_kernel_had_ended_something_may_have_lost_that(kernel):
    kernel.pass_s(12)
    assert kernel.watch.explain_refusal(4, was_refused=False) is None
    kernel.kills[OF_GROUP] += 1
    kernel.pass_s(5)  # it takes a while to notice
    assert kernel.watch.explain_refusal(4, was_refused=False).by_kernel
    assert kernel.watch.explain_refusal(3, was_refused=False) is None, "that was told"


def test_another_error_near_a_limit_of_its_own_may_be_that_of_a_refusal(kernel):
    kernel.limits = (MemoryLimit(9000 * MIB, "of addresses", 8500 * MIB),)
    kernel.look()
    lack = kernel.watch.explain_refusal(4, was_refused=False)
    assert (lack.by_kernel, lack.limit.owner) == (False, "of addresses")


def test_what_a_process_has_started_counts_and_is_told_apart(kernel):
    kernel.mib |= {50: 30, 51: 40}
    kernel.look({4: [50, 51, 52]})
    use = kernel.watch.explain_refusal(4, was_refused=True).lost
    assert (use.num_bytes, use.started_bytes) == (170 * MIB, 70 * MIB)


def test_growth_counts_from_where_a_process_had_settled(kernel):
    """Libraries and networks make all of them grow at their start; a leak goes on for hours."""
    kernel.pass_s(6, growing=2, mib_per_s=100)
    kernel.pass_s(60)
    kernel.pass_s(2000, growing=3, mib_per_s=1)
    others = {use.name: use for use in kernel.watch.explain_refusal(4, was_refused=True).others}
    assert others["Learner_0"].recent_bytes == 0
    leaking = others["RolloutWorker_w0"]
    assert leaking.recent_bytes == 2000 * MIB
    assert leaking.before_bytes <= 200 * MIB and leaking.grown_s >= 1900


def test_of_one_whose_place_was_taken_the_successor_counts(kernel):
    kernel.end(3)
    kernel.mib[9] = 40
    kernel.watch.look({9: NAMES[3]}, {})
    others = kernel.watch.explain_refusal(4, was_refused=True).others
    assert [use.num_bytes for use in others if use.name == NAMES[3]] == [40 * MIB]


def test_a_successor_that_has_grown_before_anybody_looked_had_begun_as_its_predecessor(kernel):
    kernel.pass_s(10, growing=4, mib_per_s=100)
    kernel.end(4, most_mib=1100)
    kernel.now_s += 60
    kernel.watch.begin(5, NAMES[4])
    kernel.now_s += 3
    kernel.mib[5] = 900
    kernel.watch.look({5: NAMES[4]}, {})
    kernel.kills[MACHINE] += 1
    kernel.watch.note_end(5, 1100 * MIB)
    lost = kernel.watch.explain_end(5, was_killed=True).lost
    assert (lost.num_bytes, lost.before_bytes, lost.grown_s) == (1100 * MIB, 100 * MIB, 3)


def test_what_is_remembered_is_bounded_and_the_ended_are_forgotten(kernel):
    kernel.pass_s(3000)
    kernel.end(4)
    assert len(kernel.watch._courses[3].samples) <= 64
    assert 4 in kernel.watch._courses
    kernel.pass_s(20)
    assert 4 not in kernel.watch._courses
    assert len(kernel.watch._kills) <= 64
