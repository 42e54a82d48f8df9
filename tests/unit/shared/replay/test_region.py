"""A record replayed as placement decided on it."""

from shared.replay.region import Setting, replay
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US
from tests.unit.shared.replay.records import recorded, starts


def test_a_round_that_was_set_aside_decides_nothing_and_the_next_one_does() -> None:
    jobs = [region.submitted(name, T0_US + at) for at, name in enumerate("jk")]
    inputs, decided = recorded([*jobs, region.submitted("late", T0_US + 40_000_000)], {"j": 50.0})
    numbers = [each.round.number for each in inputs.rounds]
    first, second, *_ = numbers
    assert {each.round for each in decided} >= {first, second}
    again, _ = replay(inputs, Setting(), lambda _done: None, {first})
    assert first not in {each.round for each in again}
    assert {each.round for each in starts(again).values() if each.job_id in "jk"} == {second}
    assert starts(again).keys() == starts(decided).keys()
