"""How runs of Workloads end, and Workloads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from coplace.v1.jobs_pb2 import JobOutcome

from services.kueue.model.facts import finish
from services.kueue.model.records import WorkloadRecord
from services.kueue.processor.effects import DropRecord, KeepRecord, WorkloadEffect
from services.kueue.processor.seen import SECOND_US, Moment, SeenWorkload
from shared.kubernetes.claims import AfterStop
from shared.kubernetes.effects import PublishFact
from shared.kubernetes.facts import RunEnd
from shared.kubernetes.pods import ended_us

# Pods of a Workload that is over end within this time, or their end is not waited for.
LAST_PODS_US: Final = 120 * SECOND_US
# Pods of which nobody has heard yet, though their Workload is over, are heard of within this time.
_SETTLE_US: Final = 5 * SECOND_US
_OUTCOMES: Final = {
    JobOutcome.JOB_OUTCOME_COMPLETED: "completed",
    JobOutcome.JOB_OUTCOME_FAILED: "failed",
    JobOutcome.JOB_OUTCOME_TIMED_OUT: "timed out",
    JobOutcome.JOB_OUTCOME_CANCELLED: "cancelled",
}


def close(
    seen: SeenWorkload, record: WorkloadRecord, moment: Moment, end: RunEnd
) -> Sequence[WorkloadEffect]:
    """Publish that a Workload has ended, then keep how, or let it go."""
    outcome = _OUTCOMES[end.outcome]
    if record.stop is not None and record.stop.then is AfterStop.CANCEL:
        outcome = f"cancelled: {record.stop.reason}"
    event = finish(record, seen.workload, moment.terms, end, moment.now_us)
    if seen.workload.is_over:
        return [PublishFact(event), DropRecord(seen.workload, record, outcome)]
    kept = replace(record, outcome=outcome, stop=None)
    return [PublishFact(event), KeepRecord(seen.workload, kept, outcome)]


def ended_unseen(seen: SeenWorkload, record: WorkloadRecord) -> bool:
    """Return whether a run has ended of which no pod was seen to end, while the pods of its user
    say when: those of a group are kept where MultiKueue has removed their copies."""
    workload, claim = seen.workload, record.claim
    is_its_end = claim.is_live and claim.has_begun and workload.finished is not None
    is_sent = bool(seen.around.checks.dispatched_of(workload)) and workload.is_of_pods
    return is_its_end and is_sent and not workload.is_deleted_there and not ended_us(seen.pods)


def unquiet_us(seen: SeenWorkload, record: WorkloadRecord, moment: Moment) -> int:
    """Return for how long the last pods of a run are waited for, and its copy on another cluster;
    0: nothing of it runs any more, or nobody says what became of that."""
    pods, over_us = seen.pods, seen.over_us or moment.now_us
    waits_us = 0
    if len(pods) < seen.pods_of(record):
        waits_us = _SETTLE_US
    if seen.copy is not None or not all(each.is_over for each in pods):
        waits_us = LAST_PODS_US
    return max(0, over_us + waits_us - moment.now_us)
