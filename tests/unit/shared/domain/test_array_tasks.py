"""Indices of tasks as ranges, and sets of ordinals as runs."""

import tracemalloc
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.domain.array_tasks import (
    Ordinals,
    as_task,
    count_of,
    has_ordinal,
    in_both,
    in_either,
    of_same_index,
    packed,
    parse_tasks,
    task_id,
    unpacked,
    with_ordinal,
    without_ordinal,
)

ORDINALS = st.sets(st.integers(0, 40))


def ordinals_of(numbers: set[int]) -> Ordinals:
    """The set as runs, made one by one."""
    found: Ordinals = ()
    for number in numbers:
        found = with_ordinal(found, number)
    return found


def numbers_of(ordinals: Ordinals) -> set[int]:
    """All ordinals, one by one."""
    return {number for first, behind in ordinals for number in range(first, behind)}


@given(ORDINALS, st.integers(0, 40))
def test_runs_are_sets(numbers: set[int], one: int) -> None:
    ordinals = ordinals_of(numbers)
    assert numbers_of(ordinals) == numbers
    assert all(behind < first for (_, behind), (first, _) in pairwise(ordinals))
    assert numbers_of(with_ordinal(ordinals, one)) == numbers | {one}
    assert numbers_of(without_ordinal(ordinals, one)) == numbers - {one}
    assert (has_ordinal(ordinals, one), count_of(ordinals)) == (one in numbers, len(numbers))


@given(st.sets(st.integers(0, 400)), st.integers(0, 90_000))
def test_a_set_comes_back_from_its_bytes(numbers: set[int], behind: int) -> None:
    for found in (ordinals_of(numbers), ((0, 1), (behind + 2, behind + 9))):
        assert unpacked(packed(found)) == found


def test_the_bytes_of_a_set_are_an_eighth_of_one_each_at_most() -> None:
    every_other = tuple((n, n + 1) for n in range(0, 100_000, 2))
    assert unpacked(packed(every_other)) == every_other
    assert len(packed(every_other)) <= 12_510


@given(ORDINALS, ORDINALS)
def test_what_is_in_both_is_in_both(one: set[int], other: set[int]) -> None:
    assert numbers_of(in_both(ordinals_of(one), ordinals_of(other))) == one & other


@given(ORDINALS, ORDINALS)
def test_what_is_in_either_is_in_one(one: set[int], other: set[int]) -> None:
    assert in_either(ordinals_of(one), ordinals_of(other)) == ordinals_of(one | other)


@st.composite
def texts_of_tasks(draw: st.DrawFn) -> str:
    """Ranges with steps, some of one index."""
    parts, behind = list[str](), 0
    for _ in range(draw(st.integers(1, 4))):
        first = behind + draw(st.integers(0, 9))
        last, step = first + draw(st.integers(0, 40)), draw(st.integers(1, 7))
        parts.append(f"{first}-{last}:{step}")
        behind = last + 1
    return ",".join(parts)


@given(texts_of_tasks(), texts_of_tasks(), st.sets(st.integers(0, 160)))
def test_ordinals_of_the_same_index_are_those_found_one_by_one(
    one: str, two: str, numbers: set[int]
) -> None:
    own, other = parse_tasks(one), parse_tasks(two)
    numbers = {number for number in numbers if number < len(other)}
    one_by_one = {own.ordinal(other.index(number)) for number in numbers} - {None}
    found = of_same_index(own, other, ordinals_of(numbers))
    assert numbers_of(found) == one_by_one
    assert all(behind < first for (_, behind), (first, _) in pairwise(found))


def test_every_other_index_of_a_large_array_is_found_at_once() -> None:
    own, other = parse_tasks("0-99998"), parse_tasks("0-99998:2")
    before_s = process_time()
    found = of_same_index(own, other, ((0, len(other)),))
    assert process_time() - before_s < 1
    assert found == tuple((n, n + 1) for n in range(0, 99_999, 2))


def test_indices_of_many_long_texts_take_few_bytes() -> None:
    texts = [",".join(str(2 * (n + at)) for at in range(800)) for n in range(200)]
    tracemalloc.start()
    try:
        for text in texts:
            parse_tasks(text)
        assert tracemalloc.get_traced_memory()[0] < 20_000_000
    finally:
        tracemalloc.stop()


def test_places_and_indices_lead_to_each_other() -> None:
    tasks = parse_tasks("1,3,5-9:2,100-200")
    indices = [tasks.index(ordinal) for ordinal in range(len(tasks))]
    assert indices == [1, 3, 5, 7, 9, *range(100, 201)]
    assert [tasks.ordinal(index) for index in indices] == list(range(len(tasks)))
    assert [tasks.ordinal(index) for index in (0, 2, 6, 10, 201)] == [None] * 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3-1", "must ascend to at most"),
        ("1,1", "must ascend, '1' does not"),
        ("5,3-9", "must ascend, '3-9' does not"),
        ("1-9:0", "by steps of at least 1"),
        ("a", "must be ranges such as"),
        ("1-", "must be ranges such as"),
        ("0-100000", "must name at most 100,000 tasks"),
        ("0-2147483648", "must ascend to at most 2,147,483,647"),
        ("1," * 4096, "must be 1 to 4,096 characters"),
    ],
)
def test_what_is_no_list_of_ranges_is_refused(text: str, problem: str) -> None:
    with pytest.raises(RejectedError, match=problem):
        parse_tasks(text)


def test_ids_of_tasks_are_told_from_others() -> None:
    assert as_task(task_id("site/c1/7_b/9", 12)) == ("site/c1/7_b/9", 12)
    for other in ("a", "a_", "_1", "a_01", "a_1x", "a_-1", "a_²", "a_99999999999"):
        assert as_task(other) is None
