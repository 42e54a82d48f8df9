"""What lies before a job: others, and its start if nothing else arrives."""

from services.placement.foresight import Foresight, Outlook
from services.placement.processor import Placement
from shared.eamc.ranking import Policy
from shared.scheduling.forecast import Expected
from tests.unit.services.placement.region import T0_US, end_us, placement, round_of, submitted

_HOUR_S = 3600.0


def queued() -> Placement:
    """Four nodes for an hour each: a starts, b, c and d wait behind it."""
    processor = placement(policy=Policy.BASE)
    jobs = (submitted(name, T0_US + n, nodes=4) for n, name in enumerate("abcd"))
    round_of(processor, 0, *jobs)
    return processor


def outlook(processor: Placement, job_id: str, most_starts: int = 100) -> Outlook | None:
    arrival = processor.inquiry.arrival(job_id)
    assert arrival is not None
    return Foresight(processor.inquiry.snapshot(), most_starts).of(arrival)


def test_a_job_starts_when_those_before_it_have_run_to_their_limits() -> None:
    began_s = end_us(0) / 1e6
    processor = queued()
    assert outlook(processor, "b") == Outlook(0, Expected("p1", began_s + _HOUR_S))
    assert outlook(processor, "d") == Outlook(2, Expected("p1", began_s + 3 * _HOUR_S))


def test_a_job_behind_more_starts_than_are_foreseen_is_told_before_when_it_does_not_start() -> None:
    began_s = end_us(0) / 1e6
    assert outlook(queued(), "d", most_starts=2) == Outlook(2, None, began_s + 2 * _HOUR_S)


def test_a_job_that_does_not_wait_has_no_outlook() -> None:
    processor = queued()
    assert Foresight(processor.inquiry.snapshot(), 100).of(0) is None


def test_several_questions_share_one_forecast_in_any_order() -> None:
    processor = queued()
    foresight = Foresight(processor.inquiry.snapshot(), 100)
    found = [foresight.of(arrival) for arrival in (3, 1, 2)]
    assert found == [outlook(processor, job_id) for job_id in ("d", "b", "c")]


def test_a_forecast_leaves_the_queue_as_it_is() -> None:
    processor = queued()
    outlook(processor, "d")
    assert outlook(processor, "d") == outlook(processor, "d")
    assert round_of(processor, 1) == []
