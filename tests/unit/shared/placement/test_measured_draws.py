"""What meters show of a job that runs counts under caps for the rest of its run."""

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START
from coplace.v1.prediction_pb2 import RunningPowerMeasured

from shared.catalogue.event import Event
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    declared,
    event,
    feed,
    finished,
    power,
    round_of,
    started,
    submitted,
)

MINUTE_US = 60_000_000


def measured(node_power_w: float, *, attempt: int = 1, freq_ghz: float = 2.7) -> Event:
    at_us = T0_US + MINUTE_US
    payload = RunningPowerMeasured(
        job_id="a",
        attempt=attempt,
        cluster="p1",
        freq_ghz=freq_ghz,
        node_power_w=node_power_w,
        measured_at_us=at_us,
    )
    return event(f"measured/{node_power_w}/{attempt}/{freq_ghz}", payload, at_us)


def running(watts: float) -> tuple[Placement, dict[str, bytes]]:
    """`a`, predicted to draw 333 W on one of two nodes that idle at 100 W, runs under a cap."""
    processor = Placement({}, Rules(), 7.0)
    feed(processor, [declared("p1", 2), power()])
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, watts))
    [start] = round_of(processor, 0, cap, submitted("a"))
    assert start.verdict == VERDICT_START
    round_of(processor, 1, started(start))
    state = {key: value for key, value in processor.changes().items() if value is not None}
    return processor, state


@pytest.mark.parametrize(
    ("node_power_w", "verdict"),
    [(None, VERDICT_QUEUED), (300.0, VERDICT_START), (400.0, VERDICT_QUEUED)],
)
def test_the_next_job_starts_in_what_those_that_run_leave(
    node_power_w: float | None, verdict: int
) -> None:
    """200 W of idle nodes and 433 W: 233 W for the next job, and 200 W for the one that runs."""
    processor, _ = running(200 + 433)
    told = [measured(node_power_w)] if node_power_w else []
    [decided] = round_of(processor, 2, *told, submitted("b", T0_US + MINUTE_US))
    assert decided.verdict == verdict


def test_a_restart_knows_what_was_measured() -> None:
    processor, state = running(200 + 433)
    round_of(processor, 2, measured(300.0))
    state |= {key: value for key, value in processor.changes().items() if value is not None}
    restarted = Placement(state, Rules(), 7.0)
    [decided] = round_of(restarted, 3, submitted("b", T0_US + MINUTE_US))
    assert decided.verdict == VERDICT_START


@pytest.mark.parametrize("late", [measured(300.0, attempt=2), measured(300.0, freq_ghz=2.5)])
def test_what_was_measured_of_another_attempt_or_mode_does_not_count(late: Event) -> None:
    processor, _ = running(200 + 433)
    with pytest.raises(AlreadyAppliedError):
        processor.handle(late)


def test_what_was_measured_of_a_job_that_ended_does_not_count() -> None:
    processor, _ = running(200 + 433)
    round_of(processor, 2, finished("a", T0_US + MINUTE_US))
    with pytest.raises(AlreadyAppliedError):
        processor.handle(measured(300.0))


def test_what_draws_more_than_predicted_is_asked_to_draw_less() -> None:
    processor, _ = running(200 + 233)
    [asked] = round_of(processor, 2, measured(390.0))
    assert asked.job_id == "a"
    assert asked.action.number == 1
