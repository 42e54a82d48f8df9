"""Begin times, deadlines, and the ties of submissions."""

from math import inf, nextafter
from typing import Any

import pytest
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_BEGIN, CONSTRAINT_KIND_DEADLINE

from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement, round_at_us
from tests.unit.shared.placement.region import (
    T0_US,
    answered,
    end_us,
    finished,
    held,
    lost,
    on,
    placement,
    released,
    round_of,
    saved,
    started,
    starts,
    submitted,
    verdict,
    verdicts,
)

SECOND_US = 1_000_000


def full(nodes: int = 4) -> Placement:
    """Both clusters are full for the time being."""
    processor = placement(nodes=nodes)
    runs = [submitted(name, T0_US + n, nodes=nodes) for n, name in enumerate("xy")]
    for run in round_of(processor, 0, *runs):
        round_of(processor, 1, started(run))
    return processor


def test_a_job_waits_for_its_begin_and_a_round_is_wanted_then() -> None:
    processor, begin_us = placement(), end_us(7)
    [queued] = round_of(processor, 0, submitted("a", begin_at_us=begin_us))
    assert verdict(queued) == "queued"
    assert "begin not before" in queued.reason
    answer = answered(processor, "a")
    [constraint] = answer.constraints
    assert (constraint.kind, constraint.until_us) == (CONSTRAINT_KIND_BEGIN, begin_us)
    assert processor.wake_us() == begin_us
    assert round_of(processor, 6) == []
    assert verdicts(round_of(processor, 7)) == [("a", "start")]


def test_a_job_that_begins_later_has_no_reservation_and_keeps_its_place() -> None:
    processor = full()
    first = submitted("first", end_us(1) + 1, nodes=4, begin_at_us=end_us(9))
    second = submitted("second", end_us(1) + 2, nodes=4)
    round_of(processor, 2, first, second)
    assert [each.place for each in answered(processor, "first").clusters] == [0, 0]
    assert [each.place for each in answered(processor, "second").clusters] == [1, 1]
    decided = round_of(processor, 9)
    assert starts(decided) == []
    assert [each.place for each in answered(processor, "first").clusters] == [1, 1]
    free = round_of(processor, 10, finished("x", end_us(9), grant=1))
    assert ("first", "start") in verdicts(free)


def test_a_deadline_that_cannot_be_met_is_said_at_once_with_the_earliest_end() -> None:
    processor = placement()
    [refused] = round_of(
        processor, 0, submitted("a", deadline_at_us=T0_US + 60 * SECOND_US, walltime_s=3600.0)
    )
    assert verdict(refused) == "held"
    assert "cannot end by its deadline, 2026-01-01T00:01:00Z" in refused.reason
    assert "the earliest end was 2026-01-01T0" in refused.reason
    [constraint] = answered(processor, "a").constraints
    assert constraint.kind == CONSTRAINT_KIND_DEADLINE
    assert (constraint.available, constraint.unit) == (60.0, "s")
    assert constraint.needed > 60.0


def test_a_job_that_waited_too_long_for_its_deadline_never_starts_and_says_so() -> None:
    processor = full()
    job = submitted("a", end_us(1), nodes=4, walltime_s=600.0, deadline_at_us=end_us(41))
    [queued] = round_of(processor, 2, job)
    assert verdict(queued) == "queued"
    due_us = processor.wake_us()
    assert due_us is not None
    assert end_us(2) < due_us < end_us(41)
    last = round_of(processor, 40)
    assert [(d.job_id, verdict(d)) for d in last if d.job_id == "a"] == [("a", "held")]
    assert "it had to start by" in last[-1].reason
    free = round_of(processor, 41, finished("x", end_us(40), grant=1))
    assert ("a", "start") not in verdicts(free)


def test_a_job_starts_where_its_limit_ends_just_by_its_deadline() -> None:
    processor = placement()
    limit_s = round_of(processor, 0, submitted("probe", walltime_s=600.0))[0].walltime_s
    deadline_us = end_us(1) + round(limit_s * 1e6) + 1
    fits = submitted("a", end_us(0), walltime_s=600.0, deadline_at_us=deadline_us)
    late = submitted("b", end_us(0), walltime_s=600.0, deadline_at_us=deadline_us - 3)
    assert verdicts(round_of(processor, 1, fits, late)) == [("a", "start"), ("b", "held")]


def test_a_deadline_is_met_on_a_cluster_that_is_ranked_since_a_slower_one_is_lost() -> None:
    processor = placement(policy=Policy.BASE)
    asked: dict[str, Any] = {"app_id": "unknown", "reference_cluster": "p2", "walltime_s": 3600.0}
    [probe] = round_of(processor, 0, submitted("probe", **asked))
    slow, fast = on(probe, "p2"), on(probe, "p1")
    assert (probe.cluster, fast.walltime_s < slow.walltime_s) == ("p2", True)
    between_s = (fast.walltime_s + slow.walltime_s) / 2
    job = submitted("a", end_us(0), deadline_at_us=end_us(1) + round(between_s * 1e6), **asked)
    decided = round_of(processor, 1, lost("p2", end_us(0) + 1), job)
    assert [(verdict(d), d.cluster) for d in decided if d.job_id == "a"] == [("start", "p1")]


def test_a_submission_that_comes_held_waits_until_it_is_released() -> None:
    processor = placement()
    [kept] = round_of(processor, 0, submitted("a", held_because="dependency burst:7"))
    assert (verdict(kept), kept.reason) == ("held", "held: dependency burst:7")
    assert ("a", "start") in verdicts(round_of(processor, 1, released("a", T0_US + 1)))


def test_a_release_lifts_the_hold_of_a_submission_and_none_that_is_newer() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", held_because="unknown"))
    round_of(processor, 1, held("a", end_us(0)))
    assert "unknown" in answered(processor, "a").reason
    round_of(processor, 2, released("a", T0_US + 1))
    assert answered(processor, "a").reason.startswith("held")
    assert "unknown" not in answered(processor, "a").reason


def test_a_restart_knows_when_jobs_may_begin() -> None:
    processor = placement()
    round_of(processor, 0, submitted("a", begin_at_us=end_us(7)))
    settings = PolicySettings(Policy.BASE)
    again = Placement(saved(processor.changes()), settings, 7.0)
    assert round_of(again, 1) == round_of(processor, 1) == []
    assert again.wake_us() == processor.wake_us() == end_us(7)
    assert verdicts(round_of(again, 7)) == [("a", "start")]


@pytest.mark.parametrize("limit_s", [3600.0, 3600 / 1.37, 1234.5678])
def test_a_round_that_is_wanted_for_something_is_not_before_it(limit_s: float) -> None:
    for until_us in range(T0_US, T0_US + 10_000_000, 9_973):
        due_s = nextafter(until_us / 1e6 - limit_s, inf)
        assert round_at_us(due_s) / 1e6 >= due_s
