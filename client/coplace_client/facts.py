"""Facts as ingest takes them, and what a resource manager answers to a decision: pure."""

from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobDeclined,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.message import Message

_OfJob = (
    JobSubmitted
    | JobStarted
    | JobFinished
    | JobRequeued
    | JobDeclined
    | JobActionDone
    | JobActionRefused
)
# The field of each type that may be published.
PAYLOADS: Final = {
    field.message_type.full_name: field.name
    for field in Envelope.DESCRIPTOR.oneofs_by_name["payload"].fields
    if field.message_type is not None
}


def fact(source: str, payload: Message, subject: str, time_us: int) -> Envelope:
    """Return the event of a fact of `source`. The `subject` is that of no other fact of the type:
    published again, by a process that came after, it has the same id, and copies harm nobody."""
    kind = payload.DESCRIPTOR.full_name
    event = Envelope(id=f"{source}/{kind}/{subject}", source=source, time_us=time_us)
    getattr(event, PAYLOADS[kind]).CopyFrom(payload)
    return event


def job_fact(source: str, payload: _OfJob, number: int | str, time_us: int) -> Envelope:
    """Return the event of a fact of a job, which the `number` distinguishes from others of its
    type."""
    return fact(source, payload, f"{payload.job_id}/{number}", time_us)


def decline_event(
    source: str, job_id: str, attempt: int, grant: int, reason: str, now_us: int
) -> Envelope:
    """Return the event that a grant did not start, and never will."""
    payload = JobDeclined(
        job_id=job_id, attempt=attempt, grant=grant, reason=reason, declined_at_us=now_us
    )
    return job_fact(source, payload, grant, now_us)


def action_done(source: str, decision: PlacementDecided, freq_ghz: float, now_us: int) -> Envelope:
    """Return the event that an action on a running job is done, which now runs at that P-state."""
    payload = JobActionDone(
        job_id=decision.job_id,
        attempt=decision.attempt,
        grant=decision.grant,
        number=decision.action.number,
        done_at_us=now_us,
        freq_ghz=freq_ghz,
    )
    return job_fact(source, payload, f"{payload.attempt}/{payload.number}", now_us)


def action_refused(source: str, decision: PlacementDecided, reason: str, now_us: int) -> Envelope:
    """Return the event that an action on a running job is not done."""
    payload = JobActionRefused(
        job_id=decision.job_id,
        attempt=decision.attempt,
        grant=decision.grant,
        number=decision.action.number,
        reason=reason,
        refused_at_us=now_us,
    )
    return job_fact(source, payload, f"{payload.attempt}/{payload.number}", now_us)
