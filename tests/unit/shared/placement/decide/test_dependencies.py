"""Jobs that wait for other jobs."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER as AFTER
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_ANY as AFTER_ANY
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_NOT_OK as AFTER_NOT_OK
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK as AFTER_OK
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_SINGLETON as SINGLETON
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED, Dependency
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.placement.decide.pending_reason import Unmet
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    answered,
    cancelled,
    end_us,
    finished,
    placement,
    requeued,
    round_of,
    started,
    starts,
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


def singleton(job_id: str, time_us: int = T0_US, **changes: Any) -> Event:
    return submitted(
        job_id, time_us, job_name="train", depends_on=[Dependency(condition=SINGLETON)], **changes
    )


def test_after_is_met_by_a_start_and_by_a_cancellation() -> None:
    processor = placement()
    b, c = (submitted(name, T0_US + 1, depends_on=after(AFTER, "a")) for name in "bc")
    start, *queued = round_of(processor, 0, submitted("a"), b, c)
    assert [one.reason for one in queued] == ["after a: it has not started"] * 2
    assert round_of(processor, 1) == []
    assert verdicts(round_of(processor, 2, started(start))) == [("b", "start"), ("c", "start")]
    held_one = submitted("d", end_us(2), held_because="no")
    round_of(processor, 3, held_one, submitted("e", end_us(2), depends_on=after(AFTER, "d")))
    assert ("e", "start") in verdicts(round_of(processor, 4, cancelled("d", end_us(3))))


def test_a_delay_counts_from_the_start_that_the_resource_manager_reported() -> None:
    processor = placement()
    waits = Dependency(job_id="a", condition=AFTER, delay_s=120.0)
    start, _ = round_of(processor, 0, submitted("a"), submitted("b", depends_on=[waits]))
    started_us = end_us(0) + 1_000_000
    [queued] = round_of(processor, 1, started(start, started_at_us=started_us))
    assert queued.reason.startswith("after a: the delay after it ends 2026-01-01T00:0")
    assert processor.wake_us() == started_us + 120_000_000
    assert round_of(processor, 4) == []
    assert verdicts(round_of(processor, 5)) == [("b", "start")]
    late = submitted("c", end_us(5), depends_on=[waits])
    assert verdicts(round_of(processor, 6, late)) == [("c", "start")]


def test_a_delay_after_a_start_by_a_clock_ahead_counts_from_the_round() -> None:
    processor = placement()
    waits = Dependency(job_id="a", condition=AFTER, delay_s=60.0)
    start, _ = round_of(processor, 0, submitted("a"), submitted("b", depends_on=[waits]))
    round_of(processor, 1, started(start, started_at_us=end_us(10_000)))
    assert processor.wake_us() == end_us(3)


def test_a_delay_after_an_end_goes_on_when_the_other_job_is_forgotten() -> None:
    processor = placement()
    day_s = 86_400.0
    waits = Dependency(job_id="a", condition=AFTER_ANY, delay_s=9 * day_s)
    round_of(processor, 0, submitted("a"), submitted("b", depends_on=[waits]))
    round_of(processor, 1, finished("a", end_us(0)))
    due_us = processor.wake_us()
    days = 2880
    round_of(processor, 8 * days)
    assert answered(processor, "b").reason.startswith("after_any a: the delay after it ends")
    assert verdicts(round_of(processor, 9 * days - 1)) == []
    assert processor.wake_us() == due_us == end_us(9 * days)
    assert verdicts(round_of(processor, 9 * days)) == [("b", "start")]


def test_a_completion_makes_after_not_ok_hopeless_and_a_failure_meets_it() -> None:
    processor = placement()
    for name in "ab":
        round_of(processor, 0 if name == "a" else 1, submitted(name, T0_US + ord(name)))
    c = submitted("c", end_us(1), depends_on=after(AFTER_NOT_OK, "a"))
    d = submitted("d", end_us(1), depends_on=after(AFTER_NOT_OK, "b"))
    round_of(processor, 2, c, d)
    failed = finished("b", end_us(2), outcome=JOB_OUTCOME_FAILED)
    decided = round_of(processor, 3, finished("a", end_us(2)), failed)
    assert sorted(verdicts(decided)) == [("c", "held"), ("d", "start")]
    reason = next(one.reason for one in decided if one.job_id == "c")
    assert reason == "after_not_ok a: it completed, so that this job never starts: cancel it"


def test_where_one_is_enough_the_first_that_is_met_lets_the_job_start() -> None:
    processor = placement()
    both = [*after(AFTER_OK, "a"), *after(AFTER_OK, "b")]
    others = submitted("a"), submitted("b", T0_US + 1)
    job = submitted("c", T0_US + 2, depends_on=both, depends_on_any=True)
    round_of(processor, 0, *others, job)
    [queued] = round_of(processor, 1, finished("a", end_us(0), outcome=JOB_OUTCOME_FAILED))
    assert (verdict(queued), queued.reason) == ("queued", "after_ok b: it has not ended")
    assert verdicts(round_of(processor, 2, finished("b", end_us(1)))) == [("c", "start")]


def test_where_one_is_enough_all_must_have_failed_to_make_it_hopeless() -> None:
    processor = placement()
    both = [*after(AFTER_OK, "a"), *after(AFTER_OK, "b")]
    job = submitted("c", T0_US + 2, depends_on=both, depends_on_any=True)
    round_of(processor, 0, submitted("a"), submitted("b", T0_US + 1), job)
    ends = [finished(name, end_us(0), outcome=JOB_OUTCOME_FAILED) for name in "ab"]
    assert verdicts(round_of(processor, 1, *ends)) == [("c", "held")]


def test_a_circle_holds_a_job_for_which_one_is_enough_only_if_all_lead_into_it() -> None:
    processor = placement(nodes=4)
    [run] = round_of(processor, 0, submitted("x", nodes=1))
    round_of(processor, 1, started(run))
    two = [*after(AFTER_OK, "b"), *after(AFTER_OK, "x")]
    a = submitted("a", end_us(1), depends_on=two, depends_on_any=True)
    b = submitted("b", end_us(1), depends_on=after(AFTER_OK, "a"))
    assert verdicts(round_of(processor, 2, a, b)) == [("a", "queued"), ("b", "queued")]
    assert verdicts(round_of(processor, 3, finished("x", end_us(2), grant=1))) == [("a", "start")]
    alone = submitted("c", end_us(3), depends_on=after(AFTER_OK, "d"), depends_on_any=True)
    d = submitted("d", end_us(3), depends_on=after(AFTER_OK, "c"))
    assert verdicts(round_of(processor, 4, alone, d)) == [("c", "held"), ("d", "held")]


def test_singletons_start_one_after_the_other_in_the_order_of_their_manager() -> None:
    processor = placement()
    jobs = [singleton("b", sequence="10"), singleton("a", T0_US + 1, sequence="9")]
    start, queued = round_of(processor, 0, *jobs)
    assert (start.job_id, verdict(start)) == ("a", "start")
    assert queued.reason == "singleton a: it goes first, of the same user and name"
    assert round_of(processor, 1, started(start)) == []
    assert verdicts(round_of(processor, 2, finished("a", end_us(1), grant=1))) == [("b", "start")]


def test_a_singleton_waits_for_jobs_of_its_name_that_are_none_and_not_for_others() -> None:
    processor = placement()
    run = submitted("a", job_name="train")
    other = submitted("c", T0_US + 1, job_name="other")
    theirs = singleton("d", T0_US + 2, user="bob")
    decided = round_of(processor, 0, run, other, theirs, singleton("b", T0_US + 3))
    assert sorted(verdicts(decided)) == [
        ("a", "start"),
        ("b", "queued"),
        ("c", "start"),
        ("d", "start"),
    ]
    assert ("b", "start") in verdicts(round_of(processor, 1, cancelled_start("a", decided)))


def cancelled_start(job_id: str, decided: list[PlacementDecided]) -> Event:
    """It ran and ended at once."""
    [start] = [one for one in decided if one.job_id == job_id]
    return finished(job_id, end_us(0), grant=start.grant)


def test_a_later_job_of_its_name_that_starts_first_makes_a_singleton_wait() -> None:
    processor = placement(nodes=4)
    fill = [submitted(n, T0_US + i, nodes=3) for i, n in enumerate("xy")]
    for run in round_of(processor, 0, *fill):
        round_of(processor, 1, started(run))
    large = singleton("large", end_us(1), nodes=4)
    small = submitted("small", end_us(1) + 1, nodes=1, walltime_s=60.0, job_name="train")
    decided = round_of(processor, 2, large, small)
    assert ("small", "start") in verdicts(decided)
    ends = [finished(name, end_us(2), grant=1) for name in "xy"]
    later = round_of(processor, 3, *ends)
    assert ("large", "start") not in verdicts(later)
    assert answered(processor, "large").reason.startswith("singleton small: it goes first")
    done = round_of(processor, 4, finished("small", end_us(3), grant=1))
    assert verdicts(done) == [("large", "start")]


def test_a_singleton_that_may_start_leads_out_of_a_circle_where_one_is_enough() -> None:
    processor = placement()
    a = submitted("a", held_because="no", depends_on=after(AFTER_OK, "b"))
    b = submitted("b", T0_US + 1, depends_on=after(AFTER_OK, "a"))
    either = [Dependency(condition=SINGLETON), *after(AFTER_OK, "b")]
    c = submitted("c", T0_US + 2, job_name="x", depends_on=either, depends_on_any=True)
    assert sorted(verdicts(round_of(processor, 0, a, b, c))) == [
        ("a", "held"),
        ("b", "held"),
        ("c", "start"),
    ]


def test_a_requeued_singleton_is_one_still() -> None:
    processor = placement()
    [run] = round_of(processor, 0, singleton("a"))
    round_of(processor, 1, started(run))
    [waits] = round_of(processor, 2, singleton("b", end_us(1)))
    assert verdict(waits) == "queued"
    decided = round_of(processor, 3, requeued("a", end_us(2)))
    assert len(starts(decided)) == 1


def test_a_circle_through_a_singleton_is_found() -> None:
    processor = placement()
    first = submitted("a", job_name="train", depends_on=after(AFTER_OK, "b"))
    decided = round_of(processor, 0, first, singleton("b", T0_US + 1))
    assert verdicts(decided) == [("a", "held"), ("b", "held")]
    freed = round_of(processor, 1, cancelled("a", end_us(0)))
    assert ("b", "start") in verdicts(freed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"depends_on": [Dependency(condition=SINGLETON)]},
        {"depends_on": [Dependency(condition=SINGLETON, job_id="a")], "job_name": "x"},
        {"depends_on": [Dependency(condition=SINGLETON, delay_s=5.0)], "job_name": "x"},
        {"depends_on": [Dependency(condition=AFTER, job_id="a", delay_s=1e9)]},
        {"depends_on": [Dependency(condition=AFTER, job_id="a", delay_s=-1)]},
    ],
)
def test_singletons_and_delays_that_mean_nothing_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(RejectedError):
        placement().handle(submitted("b", **wrong))
