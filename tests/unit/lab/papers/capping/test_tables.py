"""The tables of `make bench-capping`, on outcomes made up."""

from dataclasses import replace

from lab.papers.capping.instances import Instance
from lab.papers.capping.plays import Outcome
from lab.papers.capping.tables import (
    beside_lists,
    beside_published,
    equal_waits,
    headline,
    rows_of,
    slowdowns,
)

ONE = Instance(
    "50 jobs in 300 s", "a", (), (), {}, {(75, "LS"): 2.0, (75, "BF"): 3.0}, {(75, "LS"): 5.4}
)
OTHER = replace(ONE, name="b", published={(75, "LS"): 4.0})
OUTCOME = Outcome("50 jobs in 300 s", "a", 75, "LS", 1.5, 1.2, 10.0, 5.0, 100.0, 99.0, 0.1)
BF = replace(OUTCOME, contender="BF", bounded_slowdown=6.0)
BOTH = [OUTCOME, BF, *(replace(o, instance="b", bounded_slowdown=2.5) for o in (OUTCOME, BF))]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_means_are_over_the_instances_that_all_solved() -> None:
    # Of the second three nobody let a job of the other instance start under BF.
    for solved, means in ((BOTH, ["2", "2.000", "4.250"]), (BOTH[:3], ["1", "1.500", "6.000"])):
        rows = rows_of([ONE, OTHER], solved)
        [line] = cells(slowdowns(rows, ["LS", "BF"], "bounded_slowdown"))
        assert line == ["50 jobs in 300 s", "75", *means]


def test_what_was_published_counts_only_where_it_is_of_the_same_instances() -> None:
    rows = rows_of([ONE, OTHER], BOTH)
    [line] = cells(beside_published(rows, {"LS": "LS", "BF": "BF"}))
    assert line[3:] == ["2.000", "3.000 (-33.3)", "4.250", "-"]


def test_the_headline_is_how_far_below_the_better_published_one() -> None:
    [line] = cells(headline(rows_of([ONE], BOTH), ["LS", "BF"]))
    assert line[3:] == ["2.000", "25.0", "-200.0"]


def test_dec_is_beside_the_lists_with_its_plans_and_cpu_time() -> None:
    names = ("LS", "LS by walltime", "hybrid", "DEC")
    of_each = replace(OUTCOME, cpu_s=20.4, plans=1_200, improved=7)
    outcomes = [
        replace(
            of_each,
            contender=name,
            bounded_slowdown=1.0 + number,
            weighted_queue_time_s=1e6 + 1e3 * number,
        )
        for number, name in enumerate(names)
    ]
    [line] = cells(beside_lists(rows_of([ONE], outcomes), "DEC"))
    assert line[2:8] == ["1", "2.000", "1.000", "2.000", "3.000", "4.000"]
    assert line[8:] == ["1,000", "1,003", "1,200, 7, 0", "20"]
    unknown = [replace(ONE, published={})]
    assert cells(beside_lists(rows_of(unknown, outcomes), "DEC")) == []


def test_waits_are_equal_to_the_second() -> None:
    lines = cells(equal_waits([ONE, OTHER], BOTH, "LS", "LS"))
    assert lines[1] == ["75", "2", "2"]
    later = [replace(each, queue_time_s=6.5) for each in BOTH]
    assert cells(equal_waits([ONE, OTHER], later, "LS", "LS"))[1] == ["75", "2", "0"]


def test_instances_of_which_nothing_was_published_are_separate() -> None:
    unknown = replace(OTHER, published={})
    rows = rows_of([ONE, unknown], BOTH)
    assert [row.group for row in rows] == ["50 jobs in 300 s", "50 jobs in 300 s, unpublished"]
    assert len(cells(headline(rows, ["LS"]))) == 1
