"""What becomes of Workloads while Coplace is silent: Kueue starts them by its own rules.

That is kept in the record first, so that Coplace counts the run when it returns, and starts it
nowhere else."""

from collections.abc import Sequence

from coplace_client.errors import RejectedError
from services.kueue.model.records import WorkloadRecord
from services.kueue.processor.effects import KeepRecord, WorkloadEffect
from services.kueue.processor.granted import answers_of_grant
from services.kueue.processor.let_go import answers_of_let_go
from services.kueue.processor.seen import Moment, SeenWorkload, new_record


def let_go(
    seen: SeenWorkload, record: WorkloadRecord | None, moment: Moment
) -> Sequence[WorkloadEffect]:
    """Return what to do about a Workload that waits for Coplace. What was granted before goes where
    it was granted; what Coplace would not take waits."""
    workload = seen.workload
    if record is not None and (record.outcome or record.stop):
        return ()
    if record is not None and record.claim.is_live:
        return answers_of_grant(seen, record, moment)
    if record is not None and record.is_let_go(workload.reservation):
        return answers_of_let_go(seen, record)
    if not seen.around.checks.asks(workload):
        return ()
    try:
        known = record or new_record(seen, moment)
    except RejectedError:
        return ()
    kept = known.letting_go(workload.reservation, moment.now_us)
    return [KeepRecord(workload, kept, "let go: Kueue starts it by its own rules")]
