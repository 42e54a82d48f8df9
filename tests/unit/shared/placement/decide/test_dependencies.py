"""Jobs that wait for other jobs."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_ANY as AFTER_ANY
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK as AFTER_OK
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED, Dependency

from coplace_client.errors import RejectedError
from shared.placement.decide.pending_reason import Unmet
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    cancelled,
    end_us,
    finished,
    placement,
    requeued,
    round_of,
    started,
    submitted,
    verdict,
    verdicts,
)


def test_a_job_starts_in_the_round_in_which_what_it_waits_for_has_completed() -> None:
    processor = placement()
    dependent = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a"))
    first, second = round_of(processor, 0, submitted("a"), dependent)
    assert (verdict(second), second.reason) == ("queued", "after_ok a: it has not ended")
    assert round_of(processor, 1) == []
    assert verdicts(round_of(processor, 2, finished("a", end_us(1)))) == [("b", "start")]
    assert verdict(first) == "start"


def test_a_failure_meets_after_any_and_makes_after_ok_hopeless() -> None:
    processor = placement()
    strict = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a"))
    lax = submitted("c", T0_US + 2, depends_on=after(AFTER_ANY, "a"))
    round_of(processor, 0, submitted("a"), strict, lax)
    failed = finished("a", end_us(0), outcome=JOB_OUTCOME_FAILED)
    start, hopeless = round_of(processor, 1, failed)
    assert (start.job_id, verdict(start)) == ("c", "start")
    assert (hopeless.job_id, verdict(hopeless)) == ("b", "held")
    assert hopeless.reason == "after_ok a: it ended without completing"


def test_what_was_hopeless_is_possible_again_when_the_other_job_is_requeued() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"), submitted("b", depends_on=after(AFTER_OK, "a")))
    round_of(processor, 1, finished("a", end_us(0), outcome=JOB_OUTCOME_FAILED))
    decided = round_of(processor, 2, requeued("a", end_us(1)))
    assert ("b", "queued") in verdicts(decided)
    assert verdicts(round_of(processor, 3, finished("a", end_us(2), attempt=2))) == [("b", "start")]


def test_a_job_that_is_cancelled_while_it_waits_has_ended_without_completing() -> None:
    processor = placement()
    strict = submitted("c", T0_US + 2, depends_on=after(AFTER_OK, "b"))
    lax = submitted("d", T0_US + 3, depends_on=after(AFTER_ANY, "b"))
    round_of(processor, 0, submitted("b", depends_on=after(AFTER_OK, "x")), strict, lax)
    decided = round_of(processor, 1, cancelled("b", end_us(0)))
    assert sorted(verdicts(decided)) == [
        ("b", "cancelled"),
        ("c", "held"),
        ("d", "start"),
    ]


def test_a_dependency_on_a_job_that_nobody_knows_is_held_until_it_comes() -> None:
    processor = placement()
    [held] = round_of(processor, 0, submitted("b", depends_on=after(AFTER_ANY, "a")))
    assert (verdict(held), held.reason) == (
        "held",
        f"after_any a: {Unmet.NOT_ELIGIBLE}",
    )
    decided = round_of(processor, 1, submitted("a", end_us(0)))
    assert sorted(verdicts(decided)) == [("a", "start"), ("b", "queued")]


def test_jobs_that_wait_in_a_circle_are_held_and_so_are_those_behind_them() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", depends_on=after(AFTER_OK, "c")))
    round_of(processor, 1, submitted("b", depends_on=after(AFTER_OK, "a")))
    behind = submitted("d", T0_US + 9, depends_on=after(AFTER_ANY, "a"))
    closing = submitted("c", depends_on=after(AFTER_OK, "b"))
    decided = {d.job_id: d for d in round_of(processor, 2, closing, behind)}
    assert {verdict(d) for d in decided.values()} == {"held"}
    assert decided["c"].reason == "waits for b, which waits in a circle"
    assert decided["d"].reason == "waits for a, which waits in a circle"
    freed = {d.job_id: d for d in round_of(processor, 3, cancelled("c", end_us(2)))}
    assert {job_id: verdict(d) for job_id, d in freed.items()} == {
        "a": "held",
        "c": "cancelled",
        "b": "queued",
        "d": "queued",
    }
    assert freed["a"].reason == "after_ok c: it ended without completing"
    assert freed["b"].reason == "after_ok a: it has not ended"


def test_what_was_met_stays_met_after_the_other_job_was_forgotten() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a"))
    jobs = [submitted("x", T0_US + 1, nodes=4), submitted("y", T0_US + 2, nodes=4)]
    waiting = submitted("b", T0_US + 3, nodes=4, depends_on=after(AFTER_OK, "a"))
    round_of(processor, 1, finished("a", end_us(0)), *jobs, waiting)
    week = 8 * 2880
    decided = round_of(processor, week, finished("y", end_us(week - 1)))
    assert ("b", "start") in verdicts(decided)


@pytest.mark.parametrize(
    "depends_on",
    [
        after(AFTER_OK, "b"),
        [Dependency(job_id="a")],
        after(AFTER_OK, ""),
        after(AFTER_OK, "a") * 65,
    ],
)
def test_dependencies_that_mean_nothing_are_rejected(depends_on: list[Dependency]) -> None:
    with pytest.raises(RejectedError, match="depends_on"):
        placement().handle(submitted("b", depends_on=depends_on))


def test_a_dependency_on_a_job_of_somebody_else_tells_nothing_of_it() -> None:
    processor = placement()
    others: dict[str, Any] = {"user": "mallory", "account": "other"}
    [run] = round_of(processor, 0, submitted("secret"))
    round_of(processor, 1, started(run))

    def told(job_id: str, awaited: str, number: int) -> tuple[str, str]:
        depends = after(AFTER_ANY, awaited)
        [one] = round_of(processor, number, submitted(job_id, depends_on=depends, **others))
        return verdict(one), one.reason.replace(awaited, "")

    runs, unknown = told("m1", "secret", 2), told("m2", "none", 3)
    round_of(processor, 4, finished("secret", end_us(3), outcome=JOB_OUTCOME_FAILED, grant=1))
    assert runs == unknown == told("m3", "secret", 5)
    [seen] = round_of(processor, 6, submitted("n", depends_on=after(AFTER_ANY, "secret")))
    assert verdict(seen) == "start"


def test_a_circle_through_a_job_of_somebody_else_is_none() -> None:
    processor = placement()
    mine = submitted("a", depends_on=after(AFTER_ANY, "b"))
    theirs = submitted(
        "b",
        depends_on=after(AFTER_ANY, "a"),
        user="mallory",
        account="other",
    )
    told = round_of(processor, 0, mine, theirs)
    assert {one.reason.partition(": ")[2].partition(":")[0] for one in told} == {"not eligible"}
