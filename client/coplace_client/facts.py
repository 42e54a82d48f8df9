"""Facts as ingest takes them, and what a resource manager answers to a decision: pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coplace.v1.control_pb2 import ManagerAlive
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    REFUSED_KIND_LIMIT,
    REFUSED_KIND_UNSPECIFIED,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobLimitChanged,
    JobOutcome,
    JobRequeued,
    JobsReordered,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.message import Message

from coplace_client.bounds import LENGTHS
from coplace_client.millicores import beside_cores, millicores, whole_cores

_OfJob = (
    JobSubmitted
    | JobStarted
    | JobFinished
    | JobRequeued
    | JobCancelled
    | JobDeclined
    | JobActionDone
    | JobActionRefused
    | JobLimitChanged
)
# The field of each type that may be published.
PAYLOADS: Final = {
    field.message_type.full_name: field.name
    for field in Envelope.DESCRIPTOR.oneofs_by_name["payload"].fields
    if field.message_type is not None
}
# How often a resource manager says that it is there; after what time without a word it is silent.
SAYS_EVERY_S: Final = 30.0
SILENT_AFTER_S: Final = 3 * SAYS_EVERY_S
# Jobs of one message that orders a queue anew.
MOST_REORDERED: Final = LENGTHS["reordered"].most


def fact(source: str, payload: Message, subject: str, time_us: int) -> Envelope:
    """Return the event of a fact of `source`. The `subject` is that of no other fact of the type:
    published again, by a process that came after, it has the same id, and copies harm nobody."""
    kind = payload.DESCRIPTOR.full_name
    event = Envelope(id=f"{source}/{kind}/{subject}", source=source, time_us=time_us)
    getattr(event, PAYLOADS[kind]).CopyFrom(payload)
    return event


def alive(source: str, manager: str, clusters: Sequence[str], now_us: int) -> Envelope:
    """Return the event that the resource manager of these clusters is there: to be sent every
    SAYS_EVERY_S, since placement starts nothing new on clusters of a silent one."""
    payload = ManagerAlive(
        manager=manager, clusters=clusters, silent_after_s=SILENT_AFTER_S, alive_at_us=now_us
    )
    return fact(source, payload, f"{manager}/{now_us}", now_us)


def reordered(
    source: str, manager: str, clusters: Sequence[str], priorities: Mapping[str, int], now_us: int
) -> Iterator[Envelope]:
    """Yield the events that the resource manager of these clusters gives jobs, by their ids, other
    priorities: as many as it takes."""
    messages = new_priorities(manager, clusters, priorities, now_us)
    for number, payload in enumerate(messages):
        yield fact(source, payload, f"{manager}/{now_us}/{number * MOST_REORDERED}", now_us)


def new_priorities(
    manager: str, clusters: Sequence[str], priorities: Mapping[str, int], now_us: int
) -> Iterator[JobsReordered]:
    """Yield the messages of other priorities, by the ids of the jobs: each of as many as it
    takes."""
    named = sorted(priorities)
    for first in range(0, len(named), MOST_REORDERED):
        yield JobsReordered(
            manager=manager,
            clusters=clusters,
            job_ids=(job_ids := named[first : first + MOST_REORDERED]),
            manager_priorities=[priorities[job_id] for job_id in job_ids],
            reordered_at_us=now_us,
        )


def job_fact(source: str, payload: _OfJob, number: int | str, time_us: int) -> Envelope:
    """Return the event of a fact of a job, which the `number` distinguishes from others of its
    type."""
    return fact(source, payload, f"{payload.job_id}/{number}", time_us)


def submitted(source: str, job: JobSubmitted) -> Envelope:
    """Return the event that a user handed over a job, or that its next attempt waits."""
    return job_fact(source, job, job.attempt, job.submitted_at_us)


def cancelled(source: str, job_id: str, reason: str, now_us: int) -> Envelope:
    """Return the event that somebody wants a job to end, or not to start."""
    payload = JobCancelled(job_id=job_id, reason=reason, cancelled_at_us=now_us)
    return job_fact(source, payload, now_us, now_us)


def started(source: str, decision: PlacementDecided, nodes: Sequence[str], at_us: int) -> Envelope:
    """Return the event that a job was started as decided, on nodes of these names."""
    payload = JobStarted(
        job_id=decision.job_id,
        attempt=decision.attempt,
        cluster=decision.cluster,
        nodes=nodes,
        node_units=decision.node_units,
        freq_ghz=decision.freq_ghz,
        started_at_us=at_us,
        grant=decision.grant,
    )
    return job_fact(source, payload, payload.attempt, at_us)


def ended(
    source: str,
    job: JobSubmitted,
    decision: PlacementDecided,
    times_us: tuple[int, int],
    *,
    outcome: JobOutcome.ValueType = JOB_OUTCOME_COMPLETED,
    node_model: str = "",
) -> Envelope:
    """Return the event that a job ended, which was started as decided, at the first of two times,
    and ended at the other. What was measured or changed meanwhile is for the caller to add."""
    started_at_us, ended_at_us = times_us
    units = list(decision.node_units) or [1] * len(decision.node_indices)
    of_unit = millicores(decision.cores_per_node, decision.millicores_per_unit)
    held = sum(units) * of_unit
    payload = JobFinished(
        job_id=job.job_id,
        attempt=decision.attempt,
        outcome=outcome,
        cluster=decision.cluster,
        app_id=job.app_id,
        user=job.user,
        account=job.account,
        nodes=len(units),
        cores_per_node=whole_cores(max(units) * of_unit),
        cores=whole_cores(held),
        millicores=beside_cores(held),
        freq_ghz=decision.freq_ghz,
        submitted_at_us=job.submitted_at_us,
        started_at_us=started_at_us,
        ended_at_us=ended_at_us,
        node_model=node_model,
        grant=decision.grant,
    )
    return job_fact(source, payload, payload.attempt, ended_at_us)


def declined(source: str, decision: PlacementDecided, reason: str, now_us: int) -> Envelope:
    """Return the event that a decided start did not take place, and never will."""
    of = decision.job_id, decision.attempt, decision.grant
    return decline_event(source, *of, reason, now_us)


def decline_event(
    source: str,
    job_id: str,
    attempt: int,
    grant: int,
    reason: str,
    now_us: int,
    refused_nodes: Sequence[str] = (),
    limit: str = "",
) -> Envelope:
    """Return the event that a grant did not start, and never will; `refused_nodes`, as names or
    host lists, are those that the job can't have, and the `limit` is one that keeps it from all."""
    payload = JobDeclined(
        job_id=job_id,
        attempt=attempt,
        grant=grant,
        reason=reason,
        declined_at_us=now_us,
        refused_nodes=refused_nodes,
        refused_kind=REFUSED_KIND_LIMIT if limit else REFUSED_KIND_UNSPECIFIED,
        refused_name=limit,
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


def limit_changed(
    source: str, job_id: str, attempt: int, grant: int, ends_by_us: int, now_us: int
) -> Envelope:
    """Return the event that a job that runs ends at another time at the latest."""
    payload = JobLimitChanged(
        job_id=job_id, attempt=attempt, grant=grant, ends_by_us=ends_by_us, changed_at_us=now_us
    )
    return job_fact(source, payload, f"{attempt}/{now_us}", now_us)
