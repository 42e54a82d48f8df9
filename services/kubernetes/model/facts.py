"""Jobs as facts for Coplace: the same fact has the same id whenever it is published.

What a Job asks for is read from it once. All later facts are of its record."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JobSubmitted,
)

from coplace_client.bounds import NODES, RESOURCES
from coplace_client.bounds import PRIORITY as PRIORITY_BOUND
from coplace_client.errors import RejectedError
from coplace_client.facts import job_fact
from coplace_client.millicores import beside_cores, millicores, whole_cores
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import (
    APP,
    EXCLUSIVE,
    MANAGED_BY,
    PRIORITY,
    WALLTIME_S,
)
from services.kubernetes.model.node_choice import node_choice
from services.kubernetes.model.records import KubernetesRecord
from shared.catalogue.contents.check import check_contents
from shared.domain.job import job_id
from shared.kubernetes.claims import GrantClaim, StopRequest
from shared.kubernetes.facts import (
    RunEnd,
    RunUse,
    plausible_end_us,
    run_finished,
    run_requeued,
    run_started,
    unit_millicores,
    units_of,
)
from shared.kubernetes.objects import whole_of
from shared.kubernetes.pods import RunPod, begun_us, ended_us
from shared.kubernetes.texts import shown
from shared.kubernetes.units import PODS, pod_amounts, pod_needs

_POD: Final = "spec.template.spec"
_SECOND_US: Final = 1_000_000
_BY_HAND: Final = "-by-hand"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class JobTerms:
    """What Jobs do not say: where they are submitted, and how to read their owners.

    `architecture` keeps them among the clusters that are reached through this process. Labels that
    are empty are not read: the namespace is the account then, or the user. `node_models` are by
    cluster. `queue` is what their label says, and what it is set back to; `most_priority` is what
    any user may ask for. What is not ready `ready_within_s` after its start waits again (0: it
    never does). A pod that requests no CPU counts as `default_cpu`. `priority_classes` are
    the priorities of PriorityClasses. `kueue_queues` are the LocalQueues of the clusters whose own
    Kueue lets copies run.
    """

    site: str
    architecture: str
    account_label: str
    user_label: str
    default_walltime_s: float
    node_models: dict[str, str]
    queue: str = "coplace"
    most_priority: int = 0
    default_cpu: Fraction = Fraction(1)
    ready_within_s: float = 0.0
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    kueue_queues: Mapping[str, str] = field(default_factory=dict)


def id_of(job: KubernetesJob, terms: JobTerms) -> str:
    """Return the id that Coplace has for a Job."""
    return job_id(terms.site, job.cluster, job.local_id, job.created_at_us / 1e6)


def submission_of(job: KubernetesJob, terms: JobTerms) -> JobSubmitted:
    """Return what a Job asks for. Raises RejectedError, which names what cannot be understood."""
    needs, (user, account) = pod_needs(job.pod, terms.default_cpu), owner(job, terms)
    choice = node_choice(job)
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
        shareable=job.annotations.get(EXCLUSIVE) != "true" and not choice.is_alone,
        priority=_priority(job, terms),
        architectures=[terms.architecture],
        clusters=() if job.is_managed else [job.cluster],
        cores_per_unit=whole_cores(needs.millicores),
        millicores_per_unit=beside_cores(needs.millicores),
        memory_gib_per_unit=needs.memory_gib,
        resources_per_unit={**needs.resources, PODS: 1},
        units_per_node=choice.pods_per_node,
        features=choice.features,
        partitions=[choice.partition] if choice.partition else (),
        sequence=f"{job.created_at_us}/{job.uid}",
        home_cluster=job.cluster,
    )
    check_contents(message)
    return message


def require_job_controller(job: KubernetesJob, terms: JobTerms) -> None:
    """Raise RejectedError for a Job that another controller runs, or that would pass by Kueue."""
    if job.spec.get("managedBy") not in (None, "kubernetes.io/job-controller", MANAGED_BY):
        problem = f"must be left to the Job controller, or be {MANAGED_BY}"
        raise RejectedError("spec.managedBy", problem)
    if job.cluster in terms.kueue_queues and not job.is_managed:
        problem = f"must be {MANAGED_BY}: Kueue lets the copies of Jobs run on {job.cluster}"
        raise RejectedError("spec.managedBy", problem)


def assumptions(job: KubernetesJob, terms: JobTerms) -> Sequence[str]:
    """Return, in words, what counts for a Job that it does not say, and what it says that nobody
    follows."""
    found = []
    if not pod_amounts(job.pod, _POD).get("cpu"):
        found.append(f"it requests no CPU: {float(terms.default_cpu):g} counts for each pod")
    if not (job.annotations.get(WALLTIME_S) or job.spec.get("activeDeadlineSeconds")):
        found.append(f"it has no activeDeadlineSeconds: {terms.default_walltime_s:g} count")
    if not job.is_managed and len(terms.node_models) > 1:
        words = f"with spec.managedBy: {MANAGED_BY} it could run elsewhere"
        found.append(f"it stays on {job.cluster}: {words}")
    choice = node_choice(job)
    found += [f"{wish} is not followed" for wish in choice.ignored]
    if choice.is_alone:
        found.append("its pods keep away from pods of others: it gets nodes of its own")
    name = _priority_class(job)
    if name and name not in terms.priority_classes:
        found.append(f"the PriorityClass {shown(name)} has no priority here")
    return found


def require_unchanged(job: KubernetesJob, submitted: JobSubmitted) -> None:
    """Raise RejectedError for a Job whose pods need more than was submitted, or other nodes:
    placement knows nothing of it."""
    of_unit = millicores(submitted.cores_per_unit, submitted.millicores_per_unit)
    needs = pod_needs(job.pod, Fraction(of_unit, 1000))
    most = submitted.resources_per_unit
    is_more = (
        needs.millicores > of_unit
        or needs.memory_gib > submitted.memory_gib_per_unit
        or any(count > most.get(name, 0) for name, count in needs.resources.items())
    )
    if is_more:
        problem = "must not ask for more than was submitted: submit it anew"
        raise RejectedError(f"{_POD}.containers", problem)
    choice = node_choice(job)
    is_other = choice.partition != "".join(submitted.partitions)
    if not job.granted:  # what was started has the nodes of its grant in place of its own choice
        is_other |= choice.features != submitted.features
    if is_other:
        raise RejectedError(_POD, "must not ask for other nodes than was submitted: submit it anew")


def owner(job: KubernetesJob, terms: JobTerms) -> tuple[str, str]:
    """Return the user and the account: what the labels say that are read, else the namespace."""
    namespace = job.key.namespace
    user = job.labels.get(terms.user_label) if terms.user_label else ""
    account = job.labels.get(terms.account_label) if terms.account_label else ""
    return user or namespace, account or namespace


def _app(job: KubernetesJob) -> str:
    """As its label says, else what its generated name begins with, else its name."""
    metadata = job.metadata
    name = job.labels.get(APP) or str(metadata.get("generateName") or "").rstrip("-")
    return shown(name) or job.key.name


def _units(job: KubernetesJob) -> int:
    """The pods that run at a time."""
    for name in ("parallelism", "completions"):
        told = job.spec.get(name)
        if told is not None and whole_of(told) is None:
            problem = f"must be a whole number, got {str(told)[:40]!r}"
            raise RejectedError(f"spec.{name}", problem)
    NODES.require("spec.parallelism", job.pods)
    return job.pods


def _walltime_s(job: KubernetesJob, terms: JobTerms) -> float:
    told = job.annotations.get(WALLTIME_S)
    if told:
        return _number(f"metadata.annotations[{WALLTIME_S}]", told)
    asked = job.spec.get("activeDeadlineSeconds")
    if asked and whole_of(asked) is None:
        problem = f"must be a whole number, got {str(asked)[:40]!r}"
        raise RejectedError("spec.activeDeadlineSeconds", problem)
    if not (walltime_s := float(whole_of(asked) or terms.default_walltime_s)):
        raise RejectedError("spec.activeDeadlineSeconds", f"must be set, or annotate {WALLTIME_S}")
    return walltime_s


def _priority_class(job: KubernetesJob) -> str:
    return str(job.pod.get("priorityClassName") or "")


def _priority(job: KubernetesJob, terms: JobTerms) -> int:
    """As its annotation says, else as its class has it, which Kubernetes says who may use."""
    field = f"metadata.annotations[{PRIORITY}]"
    told = job.annotations.get(PRIORITY)
    if not told:
        return terms.priority_classes.get(_priority_class(job), 0)
    priority = _number(field, told)
    PRIORITY_BOUND.require("priority", priority)
    if priority > terms.most_priority:
        raise RejectedError(field, f"must be at most {terms.most_priority} at this site")
    return round(priority)


def _number(field: str, text: str) -> float:
    """Digits as they are written everywhere, and no word such as `inf`."""
    if not _NUMBER.fullmatch(text):
        raise RejectedError(field, f"must be a number, got {text[:40]!r}")
    return float(text)


def submission(record: KubernetesRecord, terms: JobTerms) -> Envelope:
    """Return the event that it was submitted."""
    message = record.submitted
    return job_fact(terms.site, message, 1, message.submitted_at_us)


def start(record: KubernetesRecord, terms: JobTerms) -> Envelope:
    """Return the event that it runs under its claim."""
    return run_started(terms.site, record.job_id, record.claim)


def finish(
    record: KubernetesRecord,
    terms: JobTerms,
    end: RunEnd,
    now_us: int,
    since_us: int = 0,
    pods: Sequence[RunPod] = (),
) -> Envelope:
    """Return the event that its run under its claim ended, or that it never ran under one; it ran
    without one since `since_us`, where somebody let it.

    It counts from when the last of its pods was ready to when the last of them ended; where nobody
    saw them, from its start."""
    asked, claim = record.submitted, record.claim
    count = sum(units_of(asked, claim))
    started_at_us = claim.at_us if claim.has_begun else since_us
    if claim.has_begun and pods:
        started_at_us = begun_us(pods, count)
        if all(each.is_over for each in pods):
            end = end._replace(at_us=ended_us(pods) or end.at_us)
    cluster = claim.cluster if claim.has_begun else record.id.cluster
    begin_us = started_at_us or asked.submitted_at_us
    use = RunUse(
        started_at_us=started_at_us,
        # Kubernetes reports to the second.
        ended_at_us=plausible_end_us(end.at_us, begin_us, now_us, begin_us - _SECOND_US),
        cluster=cluster,
        node_model=terms.node_models.get(cluster, ""),
        millicores=count * unit_millicores(asked),
        resources={
            # What runs without a grant may ask for more than there can be.
            name: round(min(count * each, RESOURCES.most))
            for name, each in asked.resources_per_unit.items()
            if name != PODS  # nobody pays for a place
        },
    )
    return run_finished(terms.site, asked, claim, end.outcome, use)


def run_by_hand(
    record: KubernetesRecord, terms: JobTerms, since_us: int, ended_us: int, now_us: int
) -> Sequence[Envelope]:
    """Return the facts of a run without a grant that its Job outlives: a job of its own, so that
    the attempts and grants of the Job stay as they are. Its end comes before its submission, which
    so asks for no nodes."""
    asked = JobSubmitted()
    asked.CopyFrom(record.submitted)
    of_job = record.job_id.rpartition("/")[0]
    asked.job_id = f"{of_job}{_BY_HAND}/{since_us // _SECOND_US}"
    asked.submitted_at_us = since_us
    packed = asked.SerializeToString()
    run = replace(record, job_id=asked.job_id, asked=packed, claim=GrantClaim())
    end = cancelled_end(ended_us)
    return [finish(run, terms, end, now_us, since_us), submission(run, terms)]


def cancelled_end(at_us: int) -> RunEnd:
    """Return the end of a run that was cancelled."""
    return RunEnd(JOB_OUTCOME_CANCELLED, at_us)


def requeue(record: KubernetesRecord, terms: JobTerms, stop: StopRequest) -> Envelope:
    """Return the event that its run ended and it waits again."""
    of = record.job_id, record.claim
    return run_requeued(terms.site, *of, stop.reason, stop.at_us, stop.failed_nodes)
