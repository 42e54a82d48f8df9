"""The limit of a run that its resource manager changed is when its nodes are expected back."""

import pytest
from coplace.v1.jobs_pb2 import JobLimitChanged
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.bounds import WALLTIME_S
from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from tests.unit.shared.placement.region import (
    Twins,
    answered,
    done,
    end_us,
    event,
    feed,
    finished,
    placement,
    round_of,
    started,
    starts,
    submitted,
    suspended,
    unsuspended,
)

_HOUR_US = 3_600_000_000


def whole(job_id: str, time_us: int, hours: float = 1.0) -> Event:
    """A job of both nodes of p1."""
    return submitted(
        job_id, time_us, nodes=2, clusters=["p1"], app_id="", walltime_s=hours * 3_600.0
    )


def busy() -> tuple[Placement, PlacementDecided]:
    """Both nodes of p1 are taken for an hour."""
    processor = placement(2, Policy.BASE)
    [start] = round_of(processor, 0, whole("runs", end_us(0) - 1))
    feed(processor, [started(start)])
    return processor, start


def limited(start: PlacementDecided, ends_by_us: int, time_us: int, grant: int = -1) -> Event:
    """Its resource manager ends it then."""
    payload = JobLimitChanged(
        job_id=start.job_id,
        attempt=start.attempt,
        grant=start.grant if grant < 0 else grant,
        ends_by_us=ends_by_us,
        changed_at_us=time_us,
    )
    return event(f"limit/{start.job_id}/{time_us}", payload, time_us)


def ends_by_us(processor: Placement, job_id: str = "runs") -> int:
    """Until when a run has its nodes."""
    return answered(processor, job_id).allocation.ends_by_us


@pytest.mark.parametrize("hours", [-0.5, 0.5, 3.0, 100.0])
def test_what_waits_is_expected_when_the_changed_limit_ends(hours: float) -> None:
    processor, start = busy()
    was_us = ends_by_us(processor)
    ends_us = was_us + round(hours * _HOUR_US)
    changed = limited(start, ends_us, end_us(0))
    [waits] = round_of(processor, 1, changed, whole("waits", end_us(0)))
    assert ends_by_us(processor) == ends_us == waits.reservation.start_at_us


def test_a_shorter_limit_lets_a_job_be_backfilled_that_would_have_delayed_another() -> None:
    processor = placement(3, Policy.BASE)
    [start] = round_of(processor, 0, whole("runs", end_us(0) - 1))
    feed(processor, [started(start)])
    all_nodes = submitted("first", end_us(0), nodes=3, clusters=["p1"], app_id="")
    one = submitted(
        "small", end_us(0) + 1, nodes=1, clusters=["p1"], app_id="", walltime_s=2 * 3_600.0
    )
    assert starts(round_of(processor, 1, all_nodes, one)) == []
    longer = limited(start, ends_by_us(processor) + 3 * _HOUR_US, end_us(1))
    assert starts(round_of(processor, 2, longer)) == ["small"]


def test_a_limit_of_nobody_s_run_changes_nothing() -> None:
    processor, start = busy()
    known_us = ends_by_us(processor)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(limited(start, known_us, end_us(0)))
    for ends_us in (start.decided_at_us - 1, known_us + 2 * round(WALLTIME_S.most * 1e6)):
        with pytest.raises(RejectedError, match="ends_by_us"):
            processor.handle(limited(start, ends_us, end_us(0)))
    with pytest.raises(RejectedError, match="grant"):
        processor.handle(limited(start, known_us + 1, end_us(0), grant=start.grant + 1))
    feed(processor, [finished("runs", end_us(0))])
    with pytest.raises(AlreadyAppliedError):
        processor.handle(limited(start, known_us + 1, end_us(0)))
    assert ends_by_us(processor) == 0


def test_a_limit_that_comes_before_the_start_is_kept_until_that_comes() -> None:
    processor = placement(2, Policy.BASE)
    [start] = round_of(processor, 0, whole("runs", end_us(0) - 1))
    with pytest.raises(EarlyError, match="report its start first"):
        processor.handle(limited(start, end_us(0) + _HOUR_US, end_us(0)))


def test_a_limit_that_is_changed_while_a_job_is_suspended_counts_from_when_it_runs_on() -> None:
    processor, start = busy()
    was_us = ends_by_us(processor)
    [stop] = round_of(processor, 1, suspended("runs", end_us(0)))
    feed(processor, [done(stop, end_us(1)), limited(start, was_us + _HOUR_US, end_us(1) + 1)])
    [resume] = round_of(processor, 2, unsuspended("runs", end_us(1) + 2))
    feed(processor, [done(resume, end_us(2))])
    assert ends_by_us(processor) == was_us + _HOUR_US + end_us(2) - end_us(1)


@given(st.lists(st.tuples(st.booleans(), st.integers(-50, 50)), max_size=6))
def test_a_process_that_is_killed_anywhere_knows_the_same_limits(
    changes: list[tuple[bool, int]],
) -> None:
    twins = Twins(lambda: placement(2, Policy.BASE))
    [start] = twins.round_of(0, whole("runs", end_us(0) - 1))
    twins.tell(started(start))
    was_us = ends_by_us(twins.lived)
    for number, (is_killed, minutes) in enumerate(changes, 1):
        ends_us = was_us + minutes * 60_000_000 + number
        twins.round_of(number, limited(start, ends_us, end_us(number - 1)))
        if is_killed:
            twins.kill()
        assert ends_by_us(twins.killed) == ends_by_us(twins.lived) == ends_us
