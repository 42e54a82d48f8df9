"""What to do about a copy that runs when the Kueue of its cluster says so.

Until it runs it can be taken back; so long its check is answered, while its claim is live."""

from collections.abc import Sequence

from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.processor.effects import AdmitCopy, EvictCopy, JobEffect, Otherwise
from services.kubernetes.processor.seen import SeenJob
from shared.kubernetes.effects import LookAgain
from shared.kueue.names import GRANTED_CHECK
from shared.kueue.workloads import CheckState, KueueWorkload

_SECOND_US = 1_000_000


def waits_in_kueue(copy: KubernetesJob, workload: KueueWorkload | None) -> bool:
    """Return whether a copy waits for Kueue, and did not run before."""
    ran = workload is not None and workload.has_lost_admission
    return copy.is_in_kueue and copy.is_suspended and copy.run_end is None and not ran


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
    limit_us = round(terms.ready_within_s * _SECOND_US)
    left_us = record.claim.at_us + limit_us - now_us if limit_us else _SECOND_US
    if why := _why_not(copy, seen.job, record):
        return decline(why)
    if left_us <= 0:
        return decline(f"Kueue did not let it run within {terms.ready_within_s:g} s")
    later: list[JobEffect] = [LookAgain(left_us / _SECOND_US)] if limit_us else []
    if seen.workload is None or not _is_asked(seen.workload):
        return later
    claim = record.claim
    words = f"Coplace: grant {claim.grant} at {claim.freq_ghz:g} GHz, {record.job_id}"
    return [AdmitCopy(seen.workload, words), *later]


def _why_not(copy: KubernetesJob, job: KubernetesJob | None, record: KubernetesRecord) -> str:
    if record.released_at_us:
        return "the Job was released to Kubernetes"
    if job is None or job.is_deleted:
        return "the Job was deleted"
    return "its copy was deleted before Kueue let it run" if copy.is_deleted else ""


def _is_asked(workload: KueueWorkload) -> bool:
    """Return whether Kueue has quota for a copy and asks Coplace."""
    return workload.may_start and workload.checks.get(GRANTED_CHECK) == CheckState.PENDING


def evicting(workload: KueueWorkload | None) -> Sequence[JobEffect]:
    """Have Kueue let a copy run no more; nothing where it has none, or does not."""
    if workload is None or not workload.is_active or workload.finished:
        return ()
    return [EvictCopy(workload)]
