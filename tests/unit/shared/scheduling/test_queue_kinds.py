from shared.scheduling.queue import Entry, Line


def test_bounds_tell_of_kinds_that_are_there_once_the_others_are_forgotten() -> None:
    line = Line()
    for number in range(3):
        line.add(Entry(number, number, 4 - number, 60.0, in_parts=True, kind=number % 2))
    assert line.least_by_kind() == {0: (2, 60.0), 1: (3, 60.0)}
    line.remove(1)
    assert line.blocks[0].least_by_kind().keys() == {0, 1}
    line.forget_kinds()
    assert line.least_by_kind() == line.blocks[0].least_by_kind() == {0: (2, 60.0)}
