"""The verdict sees a heterogeneous job that did not start whole."""

from types import SimpleNamespace

import pytest

from tests.slurm.lines import Line
from tests.slurm.verdict import Outcome
from tests.slurm.watcher import Eligible, ShownJob, Watcher

_LINE = Line(0, "het", ("small",), beside="big")


def part(number: int, nodes: str, start_s: int = 10) -> ShownJob:
    state = "COMPLETED"
    return ShownJob(7, number, state, nodes, 1, start_s if nodes else 0, 20, 0, "None")


def wrong(*jobs: ShownJob) -> list[str]:
    """What the verdict says of one line whose first part is job 7."""
    play = SimpleNamespace(
        lines=[_LINE], watcher=Watcher([_LINE]), jobs=jobs, places={7: 0}, journal=list
    )
    play.eligible = lambda: Eligible([_LINE], play.places, jobs, {})
    return list(Outcome(play).wrong())  # type: ignore[arg-type]


def test_parts_that_start_together_where_their_user_asked_are_right() -> None:
    assert wrong(part(0, "a1"), part(1, "b1")) == []


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (part(1, "a2"), "7_1 (het) ran on a2, not in ['b1', 'b2', 'b3', 'b4']"),
        (part(1, "b1", 12), "7 (het) has parts that began at [10, 12]"),
        (part(1, ""), "7 (het) has parts that began at [10, 0]"),
    ],
)
def test_a_part_elsewhere_later_or_not_at_all_is_wrong(other: ShownJob, words: str) -> None:
    assert wrong(part(0, "a1"), other) == [words]


def test_a_part_that_nobody_saw_is_wrong() -> None:
    assert wrong(part(0, "a1")) == ["7 (het) has parts that began at [10]"]
