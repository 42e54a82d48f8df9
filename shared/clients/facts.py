"""What a resource manager answers to a decision that it does not carry out: pure.

Each is told once: told again, by a process that came after or by another way, it is a copy.
"""

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobActionRefused, JobDeclined
from coplace.v1.placement_pb2 import PlacementDecided


def declined(
    source: str, job_id: str, attempt: int, grant: int, reason: str, now_us: int
) -> Envelope:
    """That a grant did not start, and never will."""
    fact = JobDeclined(
        job_id=job_id, attempt=attempt, grant=grant, reason=reason, declined_at_us=now_us
    )
    event_id = f"{source}/{fact.DESCRIPTOR.full_name}/{job_id}/{grant}"
    return Envelope(id=event_id, source=source, time_us=now_us, job_declined=fact)


def action_refused(source: str, decision: PlacementDecided, reason: str, now_us: int) -> Envelope:
    """That an action on what runs is not done."""
    fact = JobActionRefused(
        job_id=decision.job_id,
        attempt=decision.attempt,
        grant=decision.grant,
        number=decision.action.number,
        reason=reason,
        refused_at_us=now_us,
    )
    event_id = f"{source}/{fact.DESCRIPTOR.full_name}/{fact.job_id}/{fact.attempt}/{fact.number}"
    return Envelope(id=event_id, source=source, time_us=now_us, job_action_refused=fact)
