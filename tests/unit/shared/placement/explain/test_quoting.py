"""What a job is quoted and may expect, beside what becomes of it when it is submitted."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK, JobSubmitted
from coplace.v1.placement_service_pb2 import QuotedPlacement
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.eamc_policy import Policy
from shared.domain.queue_order import QueueOrder
from shared.placement.evaluate.run_shares import LEAST_JOBS
from shared.placement.explain.quoting import quoted_placement
from shared.placement.explain.start_estimates import StartEstimate, StartEstimates
from shared.placement.processor.placement import Placement
from shared.scheduling.forecast import Expected
from tests.unit.shared.placement.region import (
    T0_US,
    after,
    end_us,
    event,
    finished,
    licences,
    limits,
    placement,
    round_of,
    started,
    submitted,
)

_HOUR_S = 3600.0


def quoted(processor: Placement, job: JobSubmitted) -> QuotedPlacement:
    """What the service answers, without the service."""
    queries = processor.queries
    found = queries.quoted(job_of(job), dependencies_of(job))
    runs = found.runs if found.arriving.entries else ()
    snapshots = [queries.snapshot_with(found, each) for each in runs]
    starts = [StartEstimates(one, 1000).of(found.arrival) for one in snapshots]
    return quoted_placement(found, queries.as_of_us / 1e6, starts)


def job(**changes: Any) -> JobSubmitted:
    payload = submitted("quote", T0_US, **changes).payload
    assert isinstance(payload, JobSubmitted)
    return payload


def full(jobs: str = "a", **rules: Any) -> Placement:
    """Jobs of four nodes and an hour each on p1, of which the first runs."""
    processor = placement(policy=Policy.BASE, **rules)
    decided = round_of(
        processor, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate(jobs))
    )
    round_of(processor, 1, *(started(each) for each in decided if each.node_indices))
    return processor


def with_past(share: float = 0.5) -> Placement:
    """As `full`, where jobs of the same user ran for a share of their limits."""
    processor, number = placement(policy=Policy.BASE), 0
    for number in range(LEAST_JOBS):
        name = f"past-{number}"
        [start] = round_of(processor, number, submitted(name, T0_US + number))
        begin_us = end_us(number)
        ends_us = begin_us + round(start.walltime_s * share * 1e6)
        end = finished(name, ends_us, cluster=start.cluster)
        end.payload.started_at_us = begin_us  # type: ignore[attr-defined]
        processor.handle(started(start))
        processor.handle(end)
    decided = round_of(processor, number + 1, submitted("a", nodes=4), submitted("b", nodes=4))
    round_of(processor, number + 2, *(started(each) for each in decided if each.node_indices))
    return processor


def test_a_job_that_fits_now_is_quoted_no_wait() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0)
    found = quoted(processor, job(nodes=2))
    wait = found.wait_s
    assert (found.cluster, wait.low, wait.expected, wait.high) == ("p1", 0, 0, 0)


def test_the_latest_start_is_that_at_the_limits_of_who_comes_before() -> None:
    found = quoted(full("abc"), job(nodes=4))
    assert found.wait_s.high == pytest.approx(3 * _HOUR_S - 30)
    assert found.wait_s.low <= found.wait_s.expected <= found.wait_s.high


def test_past_jobs_of_the_user_tell_for_how_long_it_runs_and_others_do() -> None:
    found = quoted(with_past(0.5), job(nodes=4))
    assert found.run_s.low == found.run_s.high == pytest.approx(found.walltime_s / 2)
    assert found.wait_s.expected == pytest.approx(_HOUR_S, abs=60)
    assert found.wait_s.high == pytest.approx(2 * _HOUR_S, abs=60)


def test_without_past_jobs_the_run_is_anything_up_to_its_limit() -> None:
    found = quoted(full(), job(nodes=4))
    run = found.run_s
    assert (run.low, run.expected, run.high) == (0, found.walltime_s, found.walltime_s)


def test_the_energy_is_that_of_all_nodes_over_the_run() -> None:
    found = quoted(full(), job(nodes=4))
    assert found.energy_j.high >= found.energy_j.expected
    assert found.energy_j.expected == pytest.approx(4 * 380 * found.run_s.expected, rel=0.01)


def test_beside_others_it_may_be_slowed_down_by_what_the_policy_lets_neighbours() -> None:
    found = quoted(full(max_slowdown=1.5), job(nodes=4, shareable=True))
    assert (found.shareable, found.slowdown_ratio) == (True, 1.5)
    assert quoted(full(max_slowdown=1.5), job(nodes=4)).slowdown_ratio == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": 40}, "fits on no cluster"),
        ({"reference_cluster": "p9"}, "reference cluster p9 is not declared"),
        (
            {"depends_on": after(DEPENDENCY_CONDITION_AFTER_OK, "nobody")},
            "not eligible",
        ),
    ],
)
def test_what_would_be_rejected_or_never_start_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    found = quoted(full(), job(**changes))
    assert found.is_refused
    assert words in found.reason
    assert not found.cluster
    assert bool(found.misfits) == ("depends_on" not in changes)


def test_who_is_at_a_limit_is_told_so_and_what_it_would_cost_all_the_same() -> None:
    processor = full()
    round_of(processor, 2, limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1))
    found = quoted(processor, job())
    assert not found.is_refused
    assert "may run 1 jobs at once" in found.reason
    assert found.cluster == "p1"
    assert not found.HasField("wait_s")


@settings(max_examples=25)
@given(
    names=st.integers(0, 6),
    nodes=st.integers(1, 4),
    walltime_s=st.floats(60, 7200),
    shareable=st.booleans(),
)
def test_a_quote_changes_nothing_and_its_latest_start_is_what_comes(
    names: int, nodes: int, walltime_s: float, shareable: bool
) -> None:
    processor, other = full("abcdef"[:names]), full("abcdef"[:names])
    asked = job(nodes=nodes, walltime_s=walltime_s, shareable=shareable)
    found = quoted(processor, asked)
    assert processor.changes() == other.changes()
    came = event("submitted/quote/1", asked)
    assert round_of(processor, 2, came) == round_of(other, 2, came)
    arrival = processor.queries.arrival("quote")
    if arrival is None:
        assert found.wait_s.high == 0
        return
    estimate = StartEstimates(processor.queries.snapshot(), 1000).of(arrival)
    assert estimate is not None
    assert estimate.expected is not None
    assert found.wait_s.high + end_us(1) / 1e6 == pytest.approx(estimate.expected.start_s, abs=31)


def queued() -> Placement:
    """Four nodes for an hour each: a starts, b, c and d wait behind it."""
    processor = placement(policy=Policy.BASE)
    jobs = (submitted(name, T0_US + n, nodes=4) for n, name in enumerate("abcd"))
    round_of(processor, 0, *jobs)
    return processor


def estimate(processor: Placement, job_id: str, most_starts: int = 100) -> StartEstimate | None:
    arrival = processor.queries.arrival(job_id)
    assert arrival is not None
    return StartEstimates(processor.queries.snapshot(), most_starts).of(arrival)


def test_a_job_starts_when_those_before_it_have_run_to_their_limits() -> None:
    began_s = end_us(0) / 1e6
    processor = queued()
    assert estimate(processor, "b") == StartEstimate(0, Expected("p1", began_s + _HOUR_S))
    assert estimate(processor, "d") == StartEstimate(2, Expected("p1", began_s + 3 * _HOUR_S))


def test_a_job_behind_more_starts_than_are_foreseen_is_told_before_when_it_does_not_start() -> None:
    began_s = end_us(0) / 1e6
    assert estimate(queued(), "d", most_starts=2) == StartEstimate(2, None, began_s + 2 * _HOUR_S)


def test_a_job_that_does_not_wait_has_no_outlook() -> None:
    processor = queued()
    assert StartEstimates(processor.queries.snapshot(), 100).of(0) is None


def test_several_questions_share_one_forecast_in_any_order() -> None:
    processor = queued()
    start_estimates = StartEstimates(processor.queries.snapshot(), 100)
    found = [start_estimates.of(arrival) for arrival in (3, 1, 2)]
    assert found == [estimate(processor, job_id) for job_id in ("d", "b", "c")]


def test_a_forecast_leaves_the_queue_as_it_is() -> None:
    processor = queued()
    estimate(processor, "d")
    assert estimate(processor, "d") == estimate(processor, "d")
    assert round_of(processor, 1) == []


def test_a_job_that_begins_later_is_quoted_a_wait_until_then() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0)
    begin_us = end_us(0) + round(2 * _HOUR_S * 1e6)
    wait = quoted(processor, job(begin_at_us=begin_us)).wait_s
    assert (wait.low, wait.expected, wait.high) == (2 * _HOUR_S,) * 3
    behind = quoted(full("abc"), job(nodes=4, begin_at_us=begin_us)).wait_s
    assert behind.low >= 2 * _HOUR_S - 60
    assert behind.high == pytest.approx(3 * _HOUR_S - 30)


def test_a_deadline_that_cannot_be_met_is_refused_and_one_that_the_queue_lets_miss_is_said() -> (
    None
):
    processor = full("abc")
    never = quoted(processor, job(nodes=4, deadline_at_us=end_us(1) + 1_000_000))
    assert never.is_refused
    assert "cannot end by its deadline" in never.reason
    missed = quoted(processor, job(nodes=4, deadline_at_us=end_us(1) + round(2 * _HOUR_S * 1e6)))
    assert not missed.is_refused
    assert "it is expected to end 2026-01-01T0" in missed.reason
    met = quoted(processor, job(nodes=4, deadline_at_us=end_us(1) + round(9 * _HOUR_S * 1e6)))
    assert (met.is_refused, met.reason) == (False, "")


def test_a_job_is_quoted_the_time_at_which_its_licences_come_back() -> None:
    processor = placement(policy=Policy.BASE)
    first = submitted("a", T0_US + 1, licences={"matlab": 2})
    [runs] = round_of(processor, 0, licences("matlab", 2), first)
    waits = quoted(processor, job(licences={"matlab": 1}))
    assert waits.wait_s.high == pytest.approx(runs.walltime_s)
    assert quoted(processor, job()).wait_s.high == 0
    assert "can give a job 2 in all" in quoted(processor, job(licences={"matlab": 3})).reason


@pytest.mark.parametrize("order", QueueOrder)
@pytest.mark.parametrize("clusters", [["p1"], []])
@pytest.mark.parametrize("array", [{}, {"array": "0-3"}, {"array": "0-3", "array_at_most": 1}])
@pytest.mark.parametrize(
    "size", [{"nodes": 4}, {"nodes": 3, "cores_per_unit": 1, "shareable": True}], ids=str
)
def test_a_job_that_waits_already_is_quoted_the_wait_of_its_own_place(
    order: QueueOrder, clusters: list[str], array: dict[str, Any], size: dict[str, Any]
) -> None:
    def asked(name: str, **changes: Any) -> Event:
        values: dict[str, Any] = {
            "manager_priority": 5,
            "clusters": ["p1"],
            "nodes": 4,
            "app_id": "",
        }
        return submitted(name, T0_US + ord(name[0]), **(values | changes))

    for place, name in enumerate("abc"):
        processor = placement(policy=Policy.BASE, order=order)
        other: dict[str, Any] = {"manager_priority": 9, "clusters": ["p2"]}
        runs = round_of(processor, 0, asked("1"), asked("2", **other))
        own: dict[str, Any] = {"clusters": clusters, **size, **array}
        waiting = [asked(each, **(own if each == name else {})) for each in "abc"]
        round_of(processor, 1, *(started(each) for each in runs if each.node_indices), *waiting)
        payload = asked(name, **own).payload
        assert isinstance(payload, JobSubmitted)
        wait = quoted(processor, payload).wait_s
        assert wait.high == pytest.approx((place + 1) * _HOUR_S - 30)
        assert wait.expected <= wait.high
