"""One job through a region: what is said of it, and how far it came where it is stuck."""

import pytest
from coplace.v1.placement_pb2 import (
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    PlacementDecided,
    Verdict,
)
from coplace.v1.pricing_pb2 import ChargeMade

from cli.smoke_test import SmokeJob, SmokeTestError, price_of, start_of
from shared.catalogue.contents.check import check_contents

NOW_US = 1_767_225_600_000_000
JOB = SmokeJob("smoke", NOW_US)


def decided(verdict: Verdict.ValueType) -> PlacementDecided:
    return PlacementDecided(job_id=JOB.job_id, verdict=verdict, cluster="smoke", grant=7)


def test_all_that_is_said_is_what_ingest_takes() -> None:
    started = JOB.started(7, NOW_US + 1)
    said = (JOB.declared(), JOB.submitted(), started, JOB.finished(started, NOW_US + 2))
    for message in (*said, JOB.undeclared(NOW_US + 3)):
        check_contents(message)


def test_the_job_fits_on_its_own_cluster_alone() -> None:
    assert list(JOB.submitted().architectures) == [JOB.declared().architecture]
    elsewhere = SmokeJob("smoke-north", NOW_US)
    assert JOB.declared().architecture not in elsewhere.submitted().architectures


def test_a_job_that_waits_at_first_starts_when_it_is_its_turn() -> None:
    found = start_of(JOB, iter([decided(VERDICT_QUEUED), decided(VERDICT_START)]))
    assert found.grant == 7


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        ([], "is not decided on"),
        ([VERDICT_QUEUED], "waits and does not start"),
        ([VERDICT_QUEUED, VERDICT_REJECTED], "is rejected"),
    ],
)
def test_a_job_that_does_not_start_is_reported_with_how_far_it_came(
    verdicts: list[Verdict.ValueType], told: str
) -> None:
    with pytest.raises(SmokeTestError, match=f"{JOB.job_id} {told}"):
        start_of(JOB, (decided(verdict) for verdict in verdicts))


def test_a_job_without_a_price_is_reported() -> None:
    assert price_of(JOB, iter([ChargeMade(job_id=JOB.job_id, price_su="0.25")])) == "0.25"
    with pytest.raises(SmokeTestError, match="ended and is not charged"):
        price_of(JOB, iter([]))
