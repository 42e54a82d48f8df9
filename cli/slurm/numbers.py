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
_MOST_JOBS: Final = 1_000_000
_MOST_SHOWN: Final = 10


class NoOneJobError(UnusableError):
    """A number is that of no job, or of several."""


def named(placement: str, said: str) -> str:
    """Return the id of the job that is meant: its own, or that of the only one with a number, of
    those that are not over if there is one. Raises NoOneJobError and UnansweredError."""
    number = _NUMBER.fullmatch(said)
    if number is None:
        return said
    known = _known(placement)
    of = re.compile(rf"[^/]+/[^/]+/{number[1]}/\d+{number[2] or ''}")
    found = [job for job in known if of.fullmatch(job.job_id)]
    live = [job for job in found if job.standing not in OVER] or found
    if len(live) != 1:
        raise NoOneJobError(_problem(said, live))
    return live[0].job_id


def _known(placement: str) -> Sequence[ListedJob]:
    """All jobs, or those of the user where no others may be asked for."""
    try:
        return listed_jobs(placement, ListJobsRequest(), _MOST_JOBS)[0]
    except UnansweredError as error:
        if error.code is not grpc.StatusCode.PERMISSION_DENIED:
            raise
    return listed_jobs(placement, ListJobsRequest(user=getpass.getuser()), _MOST_JOBS)[0]


def _problem(said: str, found: list[ListedJob]) -> str:
    if not found:
        return f"no job has the number {said}: `coplace jobs` lists those that are known"
    ids = ", ".join(job.job_id for job in found[:_MOST_SHOWN])
    more = f" and {len(found) - _MOST_SHOWN:,} more" if len(found) > _MOST_SHOWN else ""
    return f"{said} is the number of {len(found)} jobs, name one: {ids}{more}"
