"""Take a job away from a resource manager that does not answer."""

from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSeized
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    JOB_STANDING_SUSPENDED,
    ExplainResponse,
)

from cli import why
from cli.outcomes import in_words, order
from cli.times import clock_us
from coplace_client.errors import UnusableError
from coplace_client.facts import fact

# In which a resource manager has a job.
_SEIZED: Final = (JOB_STANDING_DECIDED, JOB_STANDING_RUNNING, JOB_STANDING_SUSPENDED)


class NothingToSeizeError(UnusableError):
    """No resource manager has the job."""


def seize(placement: str, ingest: str, job_id: str, reason: str, source: str, wait_s: float) -> str:
    """Seize what placement says is granted or runs; what was seized, in words.

    Raises NothingToSeizeError, and as `order` does.
    """
    event = seizure(why.ask(placement, job_id), reason, source, clock_us())
    done = order(ingest, event, wait_s)
    return f"{describe_seizure(event.job_seized)}\n{in_words(done)}"


def seizure(found: ExplainResponse, reason: str, source: str, now_us: int) -> Envelope:
    """Return the event that seizes this attempt or grant of a job, and no later one."""
    if found.standing not in _SEIZED and not found.runs_on:
        raise NothingToSeizeError(
            f"{found.job_id} has no grant and does not run: there is nothing to seize "
            "(`coplace why` shows its state)"
        )
    grant = found.allocation.grant
    seized = JobSeized(
        job_id=found.job_id,
        attempt=found.attempt,
        grant=grant,
        reason=reason,
        seized_at_us=now_us,
    )
    subject = f"{found.job_id}/{found.attempt}-{grant}/{now_us}"
    return fact(source, seized, subject, now_us)


def describe_seizure(seized: JobSeized) -> str:
    """Return what was asked for, in words."""
    grant = f" (grant {seized.grant})" if seized.grant else ""
    again = f"it waits again as attempt {seized.attempt + 1}"
    return f"seized attempt {seized.attempt}{grant} of {seized.job_id}: {again}"
