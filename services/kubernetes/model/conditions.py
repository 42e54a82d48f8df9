"""The conditions of a record: what became of a Job so far, as tools of Kubernetes read it.

They follow from what the record says, and nothing follows from them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from coplace.v1.jobs_pb2 import JobSubmitted

from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from shared.domain.times import in_utc
from shared.kubernetes.claims import GrantClaim
from shared.kubernetes.texts import shown

QUEUED: Final = "Queued"
GRANTED: Final = "Granted"
STARTED: Final = "Started"
FINISHED: Final = "Finished"
CHARGED: Final = "Charged"
# Of these a user reads an event when they come true; an end is read from the Job, and each charge
# has an event of its own.
_SAID: Final = (QUEUED, GRANTED, STARTED)


class RecordCondition(NamedTuple):
    """One condition: whether it holds, a word why, and a sentence."""

    kind: str
    holds: bool
    reason: str
    message: str


def conditions_after(
    record: KubernetesRecord, status: Mapping[str, Any], now_us: int
) -> list[Mapping[str, Any]]:
    """Return the conditions of a record once this was merged into its status."""
    return [_fields(record, each, now_us) for each in _conditions(record.merged(status))]


def came_true(record: KubernetesRecord, after: KubernetesRecord) -> Iterator[RecordCondition]:
    """Yield what a change of a record makes true that its user reads in an event."""
    before = {each.kind: each for each in _conditions(record)}
    for each in _conditions(after):
        is_new = each.holds and (not before[each.kind].holds)
        if each.kind in _SAID and is_new:
            yield each


def first_conditions(job: KubernetesJob, submitted: JobSubmitted) -> list[Mapping[str, Any]]:
    """Return the conditions of a record that is created."""
    asked = submitted.job_id, submitted.SerializeToString()
    record = KubernetesRecord(job.id, "", "", job.key, *asked, GrantClaim())
    return [_fields(record, each, job.created_at_us) for each in _conditions(record)]


def queued(record: KubernetesRecord) -> RecordCondition:
    """Return that a Job is in the queue."""
    return next(_conditions(record))


def _conditions(record: KubernetesRecord) -> Iterator[RecordCondition]:
    claim, outcome = record.claim, record.outcome
    is_out = bool(outcome or record.released_at_us)
    waits = not (claim.is_live or is_out)
    again = f", for attempt {claim.attempt}" if claim.attempt > 1 else ""
    why = f": {record.why}" if record.why else ""
    yield _condition(QUEUED, waits, "Waits", f"it waits in Coplace as {record.job_id}{again}{why}")
    place = f"grant {claim.grant} on {claim.cluster}: {','.join(claim.nodes)}"
    yield _condition(GRANTED, claim.is_live, "Placed", place)
    yield _condition(STARTED, claim.has_begun, "Runs", _where(record))
    word = outcome.partition(":")[0].title().replace(" ", "")
    yield _condition(FINISHED, bool(outcome), word, outcome)
    yield _condition(CHARGED, bool(record.charged), "Priced", record.charged)


def _where(record: KubernetesRecord) -> str:
    cluster, namespace, name = record.run_key
    if record.runs_as_copy:
        return f"its pods and logs are on {cluster}: {namespace}/{name}"
    return f"it runs on {cluster}"


def _condition(kind: str, holds: bool, reason: str, message: str) -> RecordCondition:
    return RecordCondition(kind, holds, reason if holds else "Not", message if holds else "")


def _fields(record: KubernetesRecord, each: RecordCondition, now_us: int) -> Mapping[str, Any]:
    status = "True" if each.holds else "False"
    before = record.conditions.get(each.kind)
    at = before.since if before is not None and before.status == status else ""
    return {
        "type": each.kind,
        "status": status,
        "reason": each.reason,
        "message": shown(each.message),
        "lastTransitionTime": at or in_utc(now_us / 1e6),
    }
