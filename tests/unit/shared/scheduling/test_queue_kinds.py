from shared.scheduling.wait_queue import Entry, WaitQueue


def test_bounds_tell_of_kinds_that_are_there_once_the_others_are_forgotten() -> None:
    queue = WaitQueue()
    for number in range(3):
        queue.add(Entry(number, number, 4 - number, 60.0, in_parts=True, kind=number % 2))
    assert queue.least_by_kind() == {0: (2, 60.0), 1: (3, 60.0)}
    queue.remove(1)
    assert queue.blocks[0].least_by_kind().keys() == {0, 1}
    queue.forget_kinds()
    assert queue.least_by_kind() == queue.blocks[0].least_by_kind() == {0: (2, 60.0)}
