"""What is kept of applications is bounded."""

from coplace.v1.placement_pb2 import PREDICTION_BASIS_FIRST_RUN, PREDICTION_BASIS_SIGNATURE

from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    Twins,
    end_us,
    feed,
    finished,
    placement,
    round_of,
    signature,
    submitted,
)


def basis(processor: Placement, number: int, app: int) -> int:
    """What a job of an application is predicted from; it ends at once."""
    name = f"probe-{number}-{app}"
    [decided] = round_of(processor, number, submitted(name, app_id=APPS[app]))
    feed(processor, [finished(name, end_us(number))])
    return decided.candidates[0].basis


def test_the_applications_that_were_not_seen_for_longest_are_forgotten() -> None:
    processor = placement(most_applications=6)
    feed(processor, [signature(0, cluster, T0_US + 1) for cluster in ("p1", "p2")])
    processor.changes()
    round_of(processor, 0)
    forgotten = sorted(key for key, value in processor.changes().items() if value is None)
    assert len(forgotten) == 6
    assert forgotten[0] == "publication|coplace.v1.SignatureUpdated/app-1|gold-6254"
    assert basis(processor, 1, 1) == PREDICTION_BASIS_FIRST_RUN
    assert basis(processor, 2, 0) == PREDICTION_BASIS_SIGNATURE


def test_an_application_that_a_job_waits_for_is_kept() -> None:
    processor = placement(policy=Policy.BASE, most_applications=8)
    round_of(processor, 0, submitted("a", nodes=4, app_id=APPS[1]))
    new = signature(0, "p1", T0_US + 1)
    new.payload.app_id = "new"  # type: ignore[attr-defined]
    round_of(processor, 1, new)
    assert basis(processor, 2, 1) == PREDICTION_BASIS_SIGNATURE
    assert basis(processor, 3, 0) == PREDICTION_BASIS_FIRST_RUN


def test_jobs_of_ever_new_applications_decide_as_after_a_restart() -> None:
    twins = Twins(lambda: placement(policy=Policy.BASE, most_applications=1))
    for number in range(12):
        twins.kill()
        events = [submitted(f"job-{number}", app_id=f"new-{number}", nodes=3, shareable=True)]
        if number % 2:
            events.append(finished(f"job-{number - 1}", end_us(number - 1)))
        twins.round_of(number, *events)
