"""What is counted over the lives of a unit."""

from collections.abc import Mapping

from shared.catalogue.record import TopicPartition
from shared.streams.stages.failures import Beginnings

ONE, OTHER = TopicPartition("jobs.events", 1), TopicPartition("jobs.events", 2)
AFTER = 3


def lives(*begins: Mapping[TopicPartition, int], kept: bytes | None = None) -> bytes | None:
    """What lives leave that each begin there and pass nothing."""
    for begin in begins:
        begun = Beginnings(kept, AFTER)
        assert begun.begin(begin)
        kept = begun.kept
    return kept


def test_as_many_lives_in_a_row_at_the_same_record_may_have_been_ended_by_it() -> None:
    assert not Beginnings(lives({ONE: 7}, {ONE: 7}), AFTER).are_fatal
    assert not Beginnings(lives({ONE: 7}, {ONE: 7}, {ONE: 8}), AFTER).are_fatal, (
        "it began elsewhere"
    )
    assert not Beginnings(lives(*[{ONE: 7}] * 9), 0).are_fatal, "never means never"
    begun = Beginnings(lives({ONE: 7}, {ONE: 7}, {ONE: 7}), AFTER)
    assert begun.are_fatal
    assert begun.may_be_fatal({ONE: 7, OTHER: 2})
    assert not begun.may_be_fatal({OTHER: 2})


def test_lives_that_did_not_get_to_the_record_neither_count_nor_excuse_it() -> None:
    assert Beginnings(lives({ONE: 7}, {OTHER: 1}, {ONE: 7}, {OTHER: 2}, {ONE: 7}), AFTER).are_fatal


def test_a_life_notes_only_where_it_begins() -> None:
    begun = Beginnings(None, AFTER)
    assert begun.begin({ONE: 7})
    assert not begun.begin({ONE: 8})
    assert begun.begin({ONE: 9, OTHER: 1})


def test_what_is_passed_is_forgotten() -> None:
    begun = Beginnings(lives({ONE: 7}, {ONE: 7}, {ONE: 7}), AFTER)
    assert not begun.forget(lambda seen: seen.number < 7)
    assert begun.forget(lambda seen: seen.number < 8)
    assert (begun.kept, begun.are_fatal) == (None, False)
