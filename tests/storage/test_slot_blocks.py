"""Slots come back one by one, and are taken block by block."""

from __future__ import annotations

from sample_profiler.storage.slot_blocks import SlotBlocks


def test_a_block_may_be_taken_when_all_of_it_has_come_back():
    blocks = SlotBlocks(3)
    assert blocks.add([3, 4]) == []
    assert blocks.held() == [3, 4]
    assert blocks.add([5, 0, 1]) == [3, 4, 5]
    assert blocks.held() == [0, 1]
    assert blocks.add([2, 6, 7, 8]) == [0, 1, 2, 6, 7, 8], "in the order in which they were whole"
    assert blocks.held() == []


def test_the_slots_of_a_block_are_neighbours_whatever_order_they_come_back_in():
    assert SlotBlocks(3).add([4, 5, 3]) == [3, 4, 5]


def test_where_every_slot_is_a_block_it_is_taken_as_it_comes():
    assert SlotBlocks(1).add([7, 2, 5]) == [7, 2, 5]


def test_what_lies_scattered_is_taken_when_it_is_enough_for_a_group():
    blocks = SlotBlocks(3)
    assert blocks.add([0, 1, 4]) == [0, 1, 4]
    assert blocks.held() == []
    assert blocks.add([2, 5, 3, 8, 7]) == [2, 5, 3]
    assert sorted(blocks.held()) == [7, 8]
    assert blocks.add([6]) == [6, 7, 8]
