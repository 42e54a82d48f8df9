"""What a queue knows of its entries: the bounds of kinds, and where each is."""

import pytest

from shared.scheduling.wait_queue import Entry, WaitQueue


def test_bounds_tell_of_kinds_that_are_there_once_the_others_are_forgotten() -> None:
    queue = WaitQueue()
    for number in range(3):
        queue.add(Entry(number, number, 4 - number, 60.0, in_parts=True, kind=number % 2))
    block = queue.blocks[0]
    assert queue.least_by_kind() == block.least_by_kind() == {0: (2, 60.0), 1: (3, 60.0)}
    queue.remove(1)
    assert block.least_by_kind().keys() == {0, 1}
    queue.forget_kinds()
    assert queue.least_by_kind() == block.least_by_kind() == {0: (2, 60.0)}


@pytest.mark.parametrize("count", [1, 5, 1000])
def test_entries_stand_in_order_in_their_blocks_and_each_knows_how_many_are_before(
    count: int,
) -> None:
    queue = WaitQueue()
    orders = [3 * ((7 * number) % count) for number in range(count)]
    for number, order in enumerate(orders):
        queue.add(Entry(order, number, 1 + number % 7, 60.0, kind=number % 5))
    for left in (orders, orders[count // 2 :]):
        for number in range(count - len(left)):
            queue.remove(number)
        there = sorted(left)
        assert [each.order for each in queue] == there
        assert queue.last_order == there[-1]
        assert [queue.position(order) for order in there] == list(range(len(there)))
        assert [queue.position(order + 1) for order in there] == list(range(1, len(there) + 1))
        for block in queue.blocks:
            held = [each.order for each in block.entries]
            assert block.first_order <= held[0] <= held[-1] <= block.last_order
        for block in (*queue.blocks, *queue.copy().blocks):
            asked = list(zip(block.kinds, block.nodes, strict=True))
            assert asked == [(each.kind, each.nodes) for each in block.entries]
