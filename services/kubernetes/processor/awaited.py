"""What keeps a copy from running that somebody else lets run: the Kueue there, or its executor."""

from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.records import KubernetesRecord

_SECOND_US = 1_000_000


def why_not(copy: KubernetesJob, job: KubernetesJob | None, record: KubernetesRecord) -> str:
    """Return why a copy that has not begun must not; empty where it may."""
    if record.released_at_us:
        return "the Job was released to Kubernetes"
    if job is None or job.is_deleted:
        return "the Job was deleted"
    return "its copy was deleted before it ran" if copy.is_deleted else ""


def left_s(record: KubernetesRecord, terms: JobTerms, now_us: int) -> float | None:
    """Return how long a copy may still take to begin, s; None: any time."""
    limit_us = round(terms.ready_within_s * _SECOND_US)
    return (record.claim.at_us + limit_us - now_us) / _SECOND_US if limit_us else None
