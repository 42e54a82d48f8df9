"""An interactive job is answered in the round of its submission: it starts, or when it does."""

from typing import Any

import pytest
from coplace.v1.control_pb2 import LIMIT_SUBJECT_USER
from coplace.v1.placement_pb2 import MISFIT_KIND_STARTS_TOO_LATE, PlacementDecided
from coplace.v1.placement_service_pb2 import JOB_STANDING_REJECTED

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    Twins,
    answered,
    end_us,
    feed,
    finished,
    held,
    limits,
    placement,
    round_of,
    starts,
    submitted,
    verdicts,
)

LIMIT_S = 3600.0


def busy() -> Placement:
    """Both nodes of p1 are taken for an hour from the end of round 0 on."""
    processor = placement(2, Policy.BASE, start_timeout_s=0.0)
    assert starts(round_of(processor, 0, whole("runs"))) == ["runs"]
    return processor


def whole(job_id: str, time_us: int = T0_US, **changes: Any) -> Event:
    """A job of all nodes of p1."""
    values: dict[str, Any] = {"nodes": 2, "clusters": ["p1"], "app_id": ""}
    return submitted(job_id, time_us, **(values | {"walltime_s": LIMIT_S} | changes))


def asked(job_id: str, time_us: int, within_s: float = 0.0, **changes: Any) -> Event:
    return whole(job_id, time_us, is_interactive=True, starts_within_s=within_s, **changes)


def only(decided: list[PlacementDecided]) -> PlacementDecided:
    [found] = decided
    return found


def test_one_that_fits_starts_at_once() -> None:
    processor = placement(2, Policy.BASE)
    started = only(round_of(processor, 0, asked("a", T0_US, 1.0)))
    assert verdicts([started]) == [("a", "start")]
    assert started.expected_start_us == 0


def test_one_that_waits_is_answered_in_its_round_with_its_expected_start() -> None:
    processor = busy()
    waits = only(round_of(processor, 1, asked("a", end_us(0))))
    assert verdicts([waits]) == [("a", "queued")]
    assert waits.expected_start_us == end_us(0) + round(LIMIT_S * 1e6)
    assert waits.reason.endswith("; interactive: expected to start 2026-01-01T01:00:30Z")
    second = only(round_of(processor, 2, asked("b", end_us(1))))
    assert second.expected_start_us == waits.expected_start_us + round(LIMIT_S * 1e6)


def test_one_that_is_held_is_answered_too() -> None:
    processor = busy()
    waits = only(round_of(processor, 1, asked("a", end_us(0)), held("a", end_us(0), "why")))
    assert verdicts([waits]) == [("a", "held")]
    assert (waits.expected_start_us, "no start is expected" in waits.reason) == (0, True)


def test_one_that_would_start_too_late_is_rejected_and_says_when_it_would() -> None:
    processor = busy()
    late = only(round_of(processor, 1, asked("a", end_us(0), 600.0)))
    assert verdicts([late]) == [("a", "rejected")]
    assert late.expected_start_us == end_us(0) + round(LIMIT_S * 1e6)
    words = "was to start within 600 s of its submission, and is expected to start 2026-01-01T01:00"
    assert late.reason.startswith(words)
    [misfit] = late.misfits
    assert (misfit.kind, misfit.needed, misfit.available) == (
        MISFIT_KIND_STARTS_TOO_LATE,
        LIMIT_S,
        600.0,
    )
    answer = answered(processor, "a")
    assert (answer.standing, answer.reason) == (JOB_STANDING_REJECTED, late.reason)


def test_what_it_would_have_kept_waiting_starts_in_the_same_round() -> None:
    processor = placement(2, Policy.BASE, start_timeout_s=0.0)
    round_of(processor, 0, whole("runs", nodes=1))
    long = whole("long", end_us(0) + 1, nodes=1, walltime_s=2 * LIMIT_S)
    decided = round_of(processor, 1, asked("a", end_us(0), 60.0), long)
    assert sorted(verdicts(decided)) == [("a", "rejected"), ("long", "start")]


def test_one_that_was_to_start_in_time_and_did_not_is_rejected_when_its_time_is_over() -> None:
    twins = Twins(busy)
    [waits] = twins.round_of(1, asked("a", end_us(0), LIMIT_S))
    assert verdicts([waits]) == [("a", "queued")]
    twins.kill()
    over_us = end_us(0) + round(LIMIT_S * 1e6)
    assert twins.lived.next_start_us() == over_us
    before, after = (over_us - T0_US) // 30_000_000 - 2, (over_us - T0_US) // 30_000_000
    assert twins.round_of(before) == []
    twins.kill()
    [late] = twins.round_of(after)
    assert verdicts([late]) == [("a", "rejected")]


def test_one_that_starts_in_time_is_not_rejected_later() -> None:
    processor = busy()
    round_of(processor, 1, asked("a", end_us(0), LIMIT_S))
    assert starts(round_of(processor, 2, finished("runs", end_us(1)))) == ["a"]
    assert round_of(processor, 200) == []


def test_no_limit_of_its_user_leaves_it_without_an_answer() -> None:
    processor = placement(2, Policy.BASE, start_timeout_s=0.0)
    most = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1)
    round_of(processor, 0, most, whole("runs", nodes=1))
    waits = only(round_of(processor, 1, asked("a", end_us(0), nodes=1)))
    assert "user ada may run 1 jobs at once" in waits.reason
    assert "; interactive: no start is expected" in waits.reason


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"starts_within_s": 5.0}, "starts_within_s"),
        ({"is_interactive": True, "array": "0-3"}, "is_interactive"),
        ({"is_interactive": True, "starts_within_s": 1e9}, "starts_within_s"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RejectedError, match=field):
        feed(placement(), [whole("a", **changes)])


def behind_many(count: int) -> Placement:
    """A job runs on p1, and so many wait for the same nodes, each for a minute."""
    processor = busy()
    round_of(processor, 1, *(whole(f"w{n}", end_us(0), walltime_s=60.0) for n in range(count)))
    return processor


def test_soon_after_another_one_a_start_that_lies_far_ahead_is_a_time_before_which_it_is_not() -> (
    None
):
    processor = behind_many(310)
    first = only(round_of(processor, 2, asked("a", end_us(1), walltime_s=60.0)))
    starts_us = end_us(0) + round((LIMIT_S + 310 * 60) * 1e6)
    assert first.expected_start_us == starts_us
    # Thirty seconds later a forecast looks 300 instants ahead, the first of which is now.
    second = only(round_of(processor, 3, asked("b", end_us(2), walltime_s=60.0)))
    assert second.expected_start_us == 0
    assert "; interactive: no start is expected before 2026-01-01T05:" in second.reason
    much_later = 3 + 2 * 100
    third = round_of(processor, much_later, asked("c", end_us(much_later - 1), walltime_s=60.0))
    assert only(third).expected_start_us > starts_us


@pytest.mark.parametrize(
    ("within_s", "verdict"), [(4 * 3600.0, "rejected"), (12 * 3600.0, "queued")]
)
def test_one_whose_start_is_not_known_is_rejected_only_if_it_is_too_late_for_sure(
    within_s: float, verdict: str
) -> None:
    processor = behind_many(310)
    round_of(processor, 2, asked("a", end_us(1), walltime_s=60.0))
    second = only(round_of(processor, 3, asked("b", end_us(2), within_s, walltime_s=60.0)))
    assert verdicts([second]) == [("b", verdict)]
    assert "no start is expected before 2026-01-01T05:" in second.reason


def test_a_restart_looks_as_far_ahead() -> None:
    twins = Twins(lambda: behind_many(310))
    twins.round_of(2, asked("a", end_us(1), walltime_s=60.0))
    twins.kill()
    [second] = twins.round_of(3, asked("b", end_us(2), walltime_s=60.0))
    assert second.expected_start_us == 0
