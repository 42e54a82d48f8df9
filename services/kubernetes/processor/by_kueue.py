"""What to do about a copy that runs when the Kueue of its cluster says so.

Until it runs it can be taken back; so long its check is answered, while its claim is live."""

from collections.abc import Sequence

from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.awaited import left_s, why_not
from services.kubernetes.processor.effects import AdmitCopy, EvictCopy, JobEffect, Otherwise
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.effects import LookAgain
from shared.kueue.names import GRANTED_CHECK
from shared.kueue.workloads import CheckState, KueueWorkload


def waits_in_kueue(copy: KubernetesJob, workload: KueueWorkload | None) -> bool:
    """Return whether a copy waits for Kueue, and did not run before."""
    ran = workload is not None and workload.has_lost_admission
    return copy.is_in_kueue and copy.is_suspended and copy.run_end is None and not ran


def is_let_run(workload: KueueWorkload | None) -> bool:
    """Return whether Kueue lets a copy run. One that is suspended begins just now, or ran and is
    being evicted: which of them, its Workload says once that has lost its admission."""
    return workload is not None and workload.is_admitted


def has_not_run(copy: KubernetesJob, workload: KueueWorkload | None) -> bool:
    """Return whether a copy waits for Kueue and has not run yet. One that was deleted while Kueue
    let it run may have: that counts as a run."""
    return waits_in_kueue(copy, workload) and not (copy.is_deleted and is_let_run(workload))


def admitting(
    copy: KubernetesJob,
    seen: SeenJob,
    record: KubernetesRecord,
    terms: JobTerms,
    now_us: int,
    decline: Otherwise,
) -> Sequence[JobEffect]:
    """Have Kueue let a copy run once it has quota for it; else decline its grant, where that cannot
    be or took too long."""
    wait_s = left_s(record, terms, now_us)
    if why := why_not(copy, seen.job, record):
        return decline(why)
    if wait_s is not None and wait_s <= 0:
        return decline(f"Kueue did not let it run within {terms.ready_within_s:g} s")
    later: list[JobEffect] = [LookAgain(wait_s)] if wait_s is not None else []
    if seen.workload is None or not is_asked(seen.workload):
        return later
    claim = record.claim
    words = f"Coplace: grant {claim.grant} at {claim.freq_ghz:g} GHz, {record.job_id}"
    return [AdmitCopy(seen.workload, words), *later]


def is_asked(workload: KueueWorkload) -> bool:
    """Return whether Kueue has quota for a copy and asks Coplace."""
    return workload.may_start and workload.checks.get(GRANTED_CHECK) == CheckState.PENDING


def evicting(workload: KueueWorkload | None) -> Sequence[EvictCopy]:
    """Have Kueue let a copy run no more; nothing where it has none, or does not."""
    if workload is None or not workload.is_active or workload.finished:
        return ()
    return [EvictCopy(workload)]
