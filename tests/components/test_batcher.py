"""The Batcher: datasets in the order of finishing, as many as allowed, and every slot back to its worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_profiler.components.batcher import Batcher, BatcherPorts
from sample_profiler.runtime.loop.event_loop import EventLoop, LocalWaiter, StalledError
from sample_profiler.runtime.messages.channels import LocalChannel
from sample_profiler.storage.sampling_plan import SamplingPlan

SLOTS = ((range(8, 9), range(3)), (range(0), range(3, 6)), (range(0), range(6, 8)))  # by worker and policy
PLAN = SamplingPlan(
    num_agents=1, rollout=1, groups=(),
    worker_slots=SLOTS, first_slots=SLOTS,
    slot_worker=(0, 0, 0, 1, 1, 1, 2, 2, 0), slot_policy=(1, 1, 1, 1, 1, 1, 1, 1, 0), dataset_slots=2,
)  # fmt: skip


class Wiring:
    """A Batcher of datasets of two trajectories, and the other ends of its channels."""

    def __init__(self, max_datasets: int, plan: SamplingPlan = PLAN) -> None:
        self.ports = BatcherPorts(LocalChannel(), LocalChannel(), LocalChannel(), [LocalChannel() for _ in range(3)])
        self.batcher = Batcher(1, plan, max_datasets, self.ports)

    def run(self) -> None:
        with pytest.raises(StalledError):  # until there is nothing left to do
            EventLoop([self.batcher], LocalWaiter).run()

    def free(self) -> list[list[int]]:
        return [channel.receive() for channel in self.ports.free]


@pytest.fixture
def wiring():
    return Wiring(max_datasets=2)


def test_datasets_are_made_in_the_order_in_which_trajectories_were_finished(wiring):
    for slots in ([5], [0, 3], [7]):
        wiring.ports.finished.send(slots)
    wiring.run()
    assert wiring.ports.datasets.receive() == [5, 0, 3, 7]


def test_an_incomplete_dataset_waits_for_more(wiring):
    wiring.ports.finished.send([5, 0, 3])
    wiring.run()
    assert wiring.ports.datasets.receive() == [5, 0]
    wiring.ports.finished.send([1])
    wiring.run()
    assert wiring.ports.datasets.receive() == [3, 1]


def test_the_learner_gets_no_more_datasets_than_it_may_have(wiring):
    wiring.ports.finished.send(range(7))
    wiring.run()
    assert wiring.ports.datasets.receive() == [0, 1, 2, 3]
    wiring.ports.trained.send([0, 1])
    wiring.run()
    assert wiring.ports.datasets.receive() == [4, 5]
    wiring.ports.trained.send([2])  # half a dataset back is no room for another
    wiring.ports.finished.send([7])
    wiring.run()
    assert wiring.ports.datasets.receive() == []
    wiring.ports.trained.send([3])
    wiring.run()
    assert wiring.ports.datasets.receive() == [6, 7]


def test_synchronous_training_has_one_dataset_at_a_time():
    wiring = Wiring(max_datasets=1)
    wiring.ports.finished.send(range(4))
    wiring.run()
    assert wiring.ports.datasets.receive() == [0, 1]


def test_slots_go_back_to_the_worker_that_they_belong_to_in_order(wiring):
    wiring.ports.trained.send([7, 4, 0, 3, 2, 1])
    wiring.run()
    assert wiring.free() == [[0, 2, 1], [4, 3], [7]]
    assert wiring.free() == [[], [], []]


def test_the_batcher_says_whom_it_waits_for(wiring):
    assert wiring.batcher.wait_block() == "wait_rollout_workers"
    wiring.ports.finished.send(range(7))
    wiring.run()
    assert wiring.batcher.wait_block() == "wait_learner"
    assert wiring.batcher.gauges() == {"finished_trajectories": 3, "trajectories_at_learner": 4}
    wiring.ports.trained.send([0, 1])
    wiring.run()
    assert wiring.batcher.wait_block() == "wait_rollout_workers"


def test_its_tree_has_the_work_and_the_wait(wiring):
    wiring.ports.finished.send(range(2))
    wiring.ports.trained.send(range(2))
    wiring.run()
    assert wiring.batcher.name == "Batcher_1"
    assert {"batching", "releasing_batches", "wait_rollout_workers"} <= set(wiring.batcher.timing)


def test_a_successor_may_fill_all_slots_of_a_lost_worker_but_those_that_are_on_their_way(wiring):
    ports, batcher = wiring.ports, wiring.batcher
    ports.finished.send([3, 6])
    ports.finished.send([4])  # finished, and waits for a second one
    wiring.run()
    assert ports.datasets.receive() == [3, 6]
    batcher.forget_worker(1)
    assert batcher.readmit_worker(1) == 1
    assert wiring.free() == [[], [5], []], "3 is at the Learner, 4 waits for it"
    ports.trained.send([3, 6])
    wiring.run()
    assert wiring.free() == [[], [3], [6]]


def test_what_a_lost_worker_had_still_sent_is_trained_on_and_not_filled_again(wiring):
    ports, batcher = wiring.ports, wiring.batcher
    batcher.forget_worker(1)
    ports.finished.send([5, 0])
    assert batcher.readmit_worker(1) == 2
    assert ports.datasets.receive() == [5, 0]
    assert wiring.free() == [[], [3, 4], []]


def test_between_a_loss_and_the_successor_nothing_is_given_back_twice(wiring):
    ports, batcher = wiring.ports, wiring.batcher
    ports.finished.send([3, 0])
    wiring.run()
    batcher.forget_worker(1)
    ports.trained.send([3, 0])
    wiring.run()
    assert wiring.free() == [[0], [], []], "the lost worker's channel is being emptied meanwhile"
    assert batcher.readmit_worker(1) == 3
    assert sorted(wiring.free()[1]) == [3, 4, 5]


@pytest.fixture
def withholding():
    """Two of worker 0's three slots and one of worker 1's may be filled before the first training step."""
    first = ((range(8, 9), range(2)), (range(0), range(3, 4)), (range(0), range(6, 8)))
    return Wiring(max_datasets=2, plan=replace(PLAN, first_slots=first))


def test_what_is_withheld_until_the_first_training_step_is_given_with_the_slots_of_it_and_only_once(withholding):
    withholding.ports.trained.send([3, 6])
    withholding.run()
    assert withholding.free() == [[2], [3, 4, 5], [6]]
    withholding.ports.trained.send([0, 1])
    withholding.run()
    assert withholding.free() == [[0, 1], [], []]


def test_a_successor_gets_what_is_withheld_only_after_the_first_training_step_and_only_once(withholding):
    withholding.batcher.forget_worker(1)
    assert withholding.batcher.readmit_worker(1) == 1
    assert withholding.free() == [[], [3], []]
    withholding.batcher.forget_worker(0)
    withholding.ports.trained.send([6])
    withholding.run()
    assert withholding.free() == [[], [4, 5], [6]]
    assert withholding.batcher.readmit_worker(0) == 3
    assert withholding.free() == [[0, 1, 2], [], []]
