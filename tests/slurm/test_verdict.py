"""The verdict sees a heterogeneous job that did not start whole."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from tests.slurm.lines import Line
from tests.slurm.verdict import Outcome
from tests.slurm.watcher import Eligible, ShownJob, Watcher

_LINE = Line(0, "het", ("small",), beside="big")
_ALONE = Line(0, "plain", ("small",))


def part(number: int, nodes: str, start_s: int = 10) -> ShownJob:
    state = "COMPLETED"
    return ShownJob(7, number, state, nodes, 1, start_s if nodes else 0, 20, 0, "None")


def wrong(
    *jobs: ShownJob, line: Line = _LINE, began_s: Sequence[float] = (), killed_s: float = 0.0
) -> list[str]:
    """What the verdict says of one line whose first part is job 7, of which the task 0 began so
    often, where slurmctld was killed at some time."""
    play = SimpleNamespace(
        lines=[line],
        watcher=Watcher([line]),
        jobs=jobs,
        places={7: 0},
        journal=lambda: [(0, 7, 0, at_s) for at_s in began_s],
    )
    play.eligible = lambda: Eligible([line], play.places, jobs, {})
    return list(Outcome(play, [killed_s]).wrong())  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("began_s", "killed_s", "problems"),
    [
        ([10], 0, []),
        ([10, 30], 0, ["line 0 task 0 began 2 times"]),
        ([10, 30], 14, []),  # forgotten
        ([10, 30], 20, ["line 0 task 0 began 2 times"]),  # saved before
        ([10, 30], 9, ["line 0 task 0 began 2 times"]),
        ([10, 13, 30], 14, []),
        ([10, 30, 50], 14, ["line 0 task 0 began 2 times"]),
    ],
)
def test_a_second_begin_is_wrong_but_behind_one_that_slurm_forgot(
    began_s: list[float], killed_s: float, problems: list[str]
) -> None:
    job = ShownJob(7, 0, "COMPLETED", "a1", 1, 10, 20, 0, "None")
    assert wrong(job, line=_ALONE, began_s=began_s, killed_s=killed_s) == problems
