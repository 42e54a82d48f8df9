"""A job may be named by the number that its Slurm gave it."""

from collections.abc import Iterator

import grpc
import pytest
from coplace.v1.placement_service_pb2 import ListJobsRequest

from cli.listing import listed_jobs
from cli.slurm import numbers
from cli.slurm.numbers import NoOneJobError, named
from shared.domain.eamc_policy import Policy
from tests.unit.cli.command_line import coplace
from tests.unit.cli.served import Served
from tests.unit.services.slurm.region import unanswered
from tests.unit.shared.placement.region import (
    T0_US,
    cancelled,
    end_us,
    placement,
    round_of,
    submitted,
)

FOUR, TASK = "north/p1/4/1767225600", "north/p1/17/1767225600_3"
ARRAY = "north/p1/18/1767225600"
SAME, OTHER, BEFORE = "north/p1/5/1767225600", "south/p1/5/1767225601", "north/p1/4/1767000000"


@pytest.fixture
def address() -> Iterator[str]:
    """Of a placement that knows two jobs of number 5, and one of number 4 that is over."""
    processor = placement(policy=Policy.BASE)
    ids = (BEFORE, FOUR, TASK, SAME, OTHER)
    numbers_of = ("4", "4", "17_3", "5", "5")
    shown = zip(ids, numbers_of, strict=True)
    jobs = [
        submitted(name, T0_US + n, nodes=4, sequence=number)
        for n, (name, number) in enumerate(shown)
    ]
    round_of(processor, 0, *jobs, submitted(ARRAY, T0_US + 9, sequence="18", array="1-2"))
    round_of(processor, 1, cancelled(TASK, end_us(0)))
    round_of(processor, 2, cancelled(FOUR, end_us(1)))
    with Served(processor) as found:
        yield found


def test_the_only_job_with_a_number_is_meant(address: str) -> None:
    # Of those that wait or run: the other was cancelled.
    assert named(address, "4") == BEFORE
    assert named(address, "17_3") == TASK
    assert named(address, OTHER) == OTHER
    assert named(address, "18") == ARRAY
    assert named(address, "18_2") == f"{ARRAY}_2"
    result = coplace("why", "4", "--address", address)
    assert result.stdout.startswith(BEFORE)


def test_of_several_each_is_named(address: str) -> None:
    with pytest.raises(NoOneJobError, match="5 is the number of 2 jobs, name one: ") as caught:
        named(address, "5")
    assert SAME in str(caught.value)
    assert OTHER in str(caught.value)


def test_a_number_of_no_job_is_said_to_be_one(address: str) -> None:
    with pytest.raises(NoOneJobError, match="no job has the number 6"):
        named(address, "6")


def test_a_user_who_may_ask_for_his_own_jobs_alone_finds_them(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def listed(placement: str, request: ListJobsRequest, most: int) -> object:
        asked.append(request.user)
        if not request.user:
            raise unanswered(grpc.StatusCode.PERMISSION_DENIED, "ask for the jobs of user 'ada'")
        return listed_jobs(placement, request, most)

    monkeypatch.setattr(numbers, "listed_jobs", listed)
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    assert named(address, "4") == BEFORE
    assert asked == ["", "ada"]
