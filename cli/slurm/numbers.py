"""Jobs by the number that their resource manager gave them, as its users know them."""

import getpass
import re
from collections.abc import Sequence
from typing import Final

import grpc
from coplace.v1.placement_service_pb2 import ListedJob, ListJobsRequest

from cli.listing import listed_jobs
from cli.why import OVER
from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError

# A number, such as 17, or a task of an array, such as 17_3.
_NUMBER: Final = re.compile(r"(\d{1,12})(_\d{1,9})?")
_MOST_JOBS: Final = 1_000
_MOST_SHOWN: Final = 10


class NoOneJobError(UnusableError):
    """A number is that of no job, or of several."""


def named(placement: str, said: str) -> str:
    """Return the id of the job that is meant: its own, or that of the only one with a number, of
    those that are not over if there is one. Raises NoOneJobError and UnansweredError."""
    number = _NUMBER.fullmatch(said)
    if number is None:
        return said
    found = _with(placement, said)
    if not found and number[2]:
        # A task that waits is a part of its array.
        arrays = _one_of(said, [job.job_id for job in _live(_with(placement, number[1]))])
        return f"{arrays}{number[2]}"
    return _one_of(said, [job.job_id for job in _live(found)])


def _with(placement: str, number: str) -> Sequence[ListedJob]:
    """The jobs with a number, or those of the user where no others may be asked for."""
    request = ListJobsRequest(number=number)
    try:
        return listed_jobs(placement, request, _MOST_JOBS)[0]
    except UnansweredError as error:
        if error.code is not grpc.StatusCode.PERMISSION_DENIED:
            raise
    own = ListJobsRequest(number=number, user=getpass.getuser())
    return listed_jobs(placement, own, _MOST_JOBS)[0]


def _live(found: Sequence[ListedJob]) -> Sequence[ListedJob]:
    """Those that are not over; all where all are."""
    return [job for job in found if job.standing not in OVER] or found


def _one_of(said: str, ids: Sequence[str]) -> str:
    if len(ids) != 1:
        raise NoOneJobError(_problem(said, ids))
    return ids[0]


def _problem(said: str, found: Sequence[str]) -> str:
    if not found:
        return f"no job has the number {said}: `coplace jobs` lists those that are known"
    ids = ", ".join(found[:_MOST_SHOWN])
    more = f" and {len(found) - _MOST_SHOWN:,} more" if len(found) > _MOST_SHOWN else ""
    return f"{said} is the number of {len(found)} jobs, name one: {ids}{more}"
