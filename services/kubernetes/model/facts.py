"""Jobs as facts for Coplace: the same fact has the same id whenever it is published."""

from dataclasses import dataclass
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)

from coplace_client.bounds import NODES
from coplace_client.bounds import PRIORITY as PRIORITY_BOUND
from coplace_client.errors import RejectedError
from coplace_client.facts import job_fact
from services.kubernetes.model.claims import StopRequest
from services.kubernetes.model.jobs import KubernetesJob, RunEnd
from services.kubernetes.model.names import APP, EXCLUSIVE, PRIORITY, WALLTIME_S
from services.kubernetes.model.units import pod_needs
from shared.catalogue.contents.check import check_contents
from shared.domain.hostlist import expand
from shared.domain.job import job_id

_POD: Final = "spec.template.spec"
# Where pods go is decided by Coplace, which reads none of these.
_PLACED_BY: Final = ("nodeName", "nodeSelector", "affinity", "topologySpreadConstraints")


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What Jobs do not say: where they are submitted, and how to read their owners.

    `architecture` keeps them among the clusters that are reached through this process. Labels that
    are empty are not read: the namespace is the account then, or the user. `node_models` are by
    cluster.
    """

    site: str
    architecture: str
    account_label: str
    user_label: str
    default_walltime_s: float
    node_models: dict[str, str]


def id_of(job: KubernetesJob, terms: JobTerms) -> str:
    """Return the id that Coplace has for a Job."""
    return job_id(terms.site, job.cluster, job.local_id, job.created_at_us / 1e6)


def submission_of(job: KubernetesJob, terms: JobTerms) -> JobSubmitted:
    """Return what a Job asks for. Raises RejectedError, which names what cannot be understood."""
    needs, (user, account) = pod_needs(job.spec["template"]["spec"]), owner(job, terms)
    message = JobSubmitted(
        job_id=id_of(job, terms),
        attempt=1,
        app_id=_app(job),
        user=user,
        account=account,
        nodes=_units(job),
        walltime_s=_walltime_s(job, terms),
        reference_cluster=job.cluster,
        submitted_at_us=job.created_at_us,
        shareable=job.annotations.get(EXCLUSIVE) != "true",
        priority=_priority(job),
        architectures=[terms.architecture],
        cores_per_unit=needs.cores,
        memory_gib_per_unit=needs.memory_gib,
        resources_per_unit=needs.resources,
    )
    check_contents(message)
    return message


def require_placeable(job: KubernetesJob) -> None:
    """Raise RejectedError for a Job that says itself where it runs, or what runs it."""
    pod = job.spec["template"]["spec"]
    for name in _PLACED_BY:
        if pod.get(name):
            raise RejectedError(f"{_POD}.{name}", "must not be set: Coplace chooses the nodes")
    if job.spec.get("managedBy") not in (None, "kubernetes.io/job-controller"):
        raise RejectedError("spec.managedBy", "must be left to the Job controller")


def owner(job: KubernetesJob, terms: JobTerms) -> tuple[str, str]:
    """Return the user and the account: what the labels say that are read, else the namespace."""
    namespace = job.key.namespace
    user = job.labels.get(terms.user_label) if terms.user_label else ""
    account = job.labels.get(terms.account_label) if terms.account_label else ""
    return user or namespace, account or namespace


def _app(job: KubernetesJob) -> str:
    """As its label says, else what its generated name begins with, else its name."""
    metadata = job.metadata
    return job.labels.get(APP) or (metadata.get("generateName") or metadata["name"]).rstrip("-")


def _units(job: KubernetesJob) -> int:
    """The pods that run at a time."""
    parallelism, completions = job.spec.get("parallelism", 1), job.spec.get("completions")
    pods = int(parallelism if completions is None else min(parallelism, completions))
    NODES.require("spec.parallelism", pods)
    return pods


def _walltime_s(job: KubernetesJob, terms: JobTerms) -> float:
    told = job.annotations.get(WALLTIME_S)
    if told:
        return _number(f"metadata.annotations[{WALLTIME_S}]", told)
    asked = float(job.spec.get("activeDeadlineSeconds") or terms.default_walltime_s)
    if not asked:
        raise RejectedError("spec.activeDeadlineSeconds", f"must be set, or annotate {WALLTIME_S}")
    return asked


def _priority(job: KubernetesJob) -> int:
    priority = _number(f"metadata.annotations[{PRIORITY}]", job.annotations.get(PRIORITY) or "0")
    PRIORITY_BOUND.require("priority", priority)
    return round(priority)


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RejectedError(field, f"must be a number, got {text[:40]!r}") from None


def submission(job: KubernetesJob, terms: JobTerms) -> Envelope:
    """Return the event that it was submitted. Raises RejectedError, which names the field."""
    message = submission_of(job, terms)
    return job_fact(terms.site, message, 1, message.submitted_at_us)


def start(job: KubernetesJob, terms: JobTerms) -> Envelope:
    """Return the event that it runs under its claim."""
    claim = job.claim
    message = JobStarted(
        job_id=id_of(job, terms),
        attempt=claim.attempt,
        cluster=claim.cluster,
        nodes=claim.nodes,
        freq_ghz=claim.freq_ghz,
        started_at_us=claim.at_us,
        grant=claim.grant,
        node_units=claim.node_units,
    )
    return job_fact(terms.site, message, claim.attempt, claim.at_us)


def finish(job: KubernetesJob, terms: JobTerms, end: RunEnd) -> Envelope:
    """Return the event that its run under its claim ended, or that it never ran."""
    needs, (user, account) = pod_needs(job.spec["template"]["spec"]), owner(job, terms)
    claim, units = job.claim, _held_units(job)
    started_at_us = claim.at_us if claim.is_live else 0
    message = JobFinished(
        job_id=id_of(job, terms),
        attempt=claim.attempt,
        outcome=end.outcome,
        cluster=claim.cluster if claim.is_live else job.cluster,
        app_id=_app(job),
        user=user,
        account=account,
        nodes=len(units),
        cores_per_node=max(units) * needs.cores,
        freq_ghz=claim.freq_ghz if claim.is_live else 0.0,
        submitted_at_us=job.created_at_us,
        started_at_us=started_at_us,
        # Kubernetes reports to the second.
        ended_at_us=max(end.at_us, started_at_us, job.created_at_us),
        node_model=terms.node_models[claim.cluster if claim.is_live else job.cluster],
        grant=claim.grant if claim.is_live else 0,
        cores=sum(units) * needs.cores,
        resources={name: sum(units) * each for name, each in needs.resources.items()},
    )
    return job_fact(terms.site, message, message.attempt, message.ended_at_us)


def _held_units(job: KubernetesJob) -> list[int]:
    """Units on each node that it holds; where it holds none, one on each that it asked for."""
    claim = job.claim
    if not claim.is_live:
        return [1] * max(1, int(job.spec.get("parallelism", 1)))
    return list(claim.node_units) or [1] * sum(len(expand(each)) for each in claim.nodes)


def cancelled_end(at_us: int) -> RunEnd:
    """Return the end of a run that was cancelled."""
    return RunEnd(JOB_OUTCOME_CANCELLED, at_us)


def requeue(job: KubernetesJob, terms: JobTerms, stop: StopRequest) -> Envelope:
    """Return the event that its run ended and it waits again."""
    claim = job.claim
    message = JobRequeued(
        job_id=id_of(job, terms),
        attempt=claim.attempt + 1,
        reason=stop.reason,
        requeued_at_us=stop.at_us,
        cluster=claim.cluster,
        failed_nodes=stop.failed_nodes,
    )
    return job_fact(terms.site, message, message.attempt, stop.at_us)
