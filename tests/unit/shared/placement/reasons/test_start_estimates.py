"""What lies before a job: others, and its start if nothing else arrives."""

from shared.domain.eamc_policy import Policy
from shared.placement.processor import Placement
from shared.placement.reasons.start_estimates import StartEstimate, StartEstimates
from shared.scheduling.forecast import Expected
from tests.unit.shared.placement.region import T0_US, end_us, placement, round_of, submitted

_HOUR_S = 3600.0


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
