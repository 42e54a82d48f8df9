"""Workloads as facts for Coplace: the same fact has the same id whenever it is published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JOB_OUTCOME_FAILED,
    JobHeld,
    JobReleased,
    JobSubmitted,
)

from coplace_client.facts import decline_event, fact, job_fact
from coplace_client.millicores import beside_cores, whole_cores
from services.kueue.model.needs import WorkloadNeeds, workload_needs
from services.kueue.model.records import WorkloadRecord
from shared.catalogue.contents.check import check_contents
from shared.domain.job import job_id
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
from shared.kubernetes.objects import time_us
from shared.kubernetes.texts import shown
from shared.kueue.names import APP
from shared.kueue.workloads import KueueWorkload

# Priorities of Kueue are signed, and 0 says that a manager gives none.
_PRIORITY_ZERO: Final = 1 << 31
_MOST_PRIORITY: Final = (1 << 32) - 1
_NO_QUOTA: Final = "Kueue has no quota for it"
_OUTCOMES: Final = {"Succeeded": JOB_OUTCOME_COMPLETED, "Failed": JOB_OUTCOME_FAILED}


@dataclass(frozen=True, slots=True)
class KueueTerms:
    """What Workloads do not say: the site where they are submitted, the architecture that keeps
    them among the clusters of this process, the limit of those that have none, s, and the node
    model and the highest clock of each cluster."""

    site: str
    architecture: str
    default_walltime_s: float
    node_models: Mapping[str, str]
    top_ghz: Mapping[str, float] = field(default_factory=dict)


def id_of(workload: KueueWorkload, terms: KueueTerms) -> str:
    """Return the id that Coplace has for a Workload."""
    created_s = workload.created_at_us / 1e6
    return job_id(terms.site, workload.server, workload.local_id, created_s)


def submission_of(
    workload: KueueWorkload, clusters: Sequence[str], terms: KueueTerms
) -> JobSubmitted:
    """Return what a Workload asks for, which may run on these clusters. Raises RejectedError, which
    names what cannot be taken."""
    needs, namespace = workload_needs(workload), workload.key.namespace
    stays = list(clusters) == [workload.server]
    message = JobSubmitted(
        job_id=id_of(workload, terms),
        attempt=1,
        app_id=_app(workload),
        user=namespace,
        account=shown(f"{namespace}/{workload.queue}"),
        nodes=needs.pods,
        walltime_s=workload.limit_s or terms.default_walltime_s,
        reference_cluster=clusters[0] if clusters else "",
        submitted_at_us=workload.created_at_us,
        shareable=True,
        architectures=[terms.architecture],
        cores_per_unit=whole_cores(needs.unit.millicores),
        millicores_per_unit=beside_cores(needs.unit.millicores),
        memory_gib_per_unit=needs.unit.memory_gib,
        resources_per_unit=needs.unit.resources,
        sequence=f"{workload.created_at_us}/{workload.id.uid}",
        home_cluster=workload.server if stays else "",
        clusters=clusters,
        manager_priority=_manager_priority(workload.priority),
    )
    check_contents(message)
    return message


def _manager_priority(priority: int) -> int:
    return min(max(priority + _PRIORITY_ZERO, 1), _MOST_PRIORITY)


def _app(workload: KueueWorkload) -> str:
    """As a label of its pods says or its own, else as its owner is called. Of pods in a group Kueue
    keeps no labels but those that its configuration has it copy."""
    labels = (*(each.labels for each in workload.pod_sets), workload.labels)
    return shown(next(filter(None, (each.get(APP, "") for each in labels)), workload.owner_name))


def submission(site: str, submitted: JobSubmitted) -> Envelope:
    """Return the event that a Workload waits for a word of Coplace."""
    return job_fact(site, submitted, 1, submitted.submitted_at_us)


def hold_word(record: WorkloadRecord, terms: KueueTerms) -> Envelope:
    """Return the event that Coplace may start a Workload, or may not."""
    hold, subject = record.hold, f"{record.job_id}/{record.hold.at_us}"
    if hold.is_held:
        held = JobHeld(
            job_id=record.job_id,
            reason=_NO_QUOTA,
            held_at_us=hold.at_us,
            holder=HOLDER_MANAGER,
        )
        return fact(terms.site, held, subject, hold.at_us)
    released = JobReleased(
        job_id=record.job_id, released_at_us=hold.at_us, holders=[HOLDER_MANAGER]
    )
    return fact(terms.site, released, subject, hold.at_us)


def start(record: WorkloadRecord, terms: KueueTerms) -> Envelope:
    """Return the event that it runs under its claim."""
    return run_started(terms.site, record.job_id, record.claim)


def finish(
    record: WorkloadRecord,
    workload: KueueWorkload,
    terms: KueueTerms,
    end: RunEnd,
    now_us: int,
) -> Envelope:
    """Return the event that its run under its claim ended, or that it never ran under one."""
    asked, claim = record.submitted, record.claim
    cluster = claim.cluster if claim.has_begun else asked.reference_cluster
    started_at_us = claim.at_us if claim.has_begun else 0
    begin_us = started_at_us or asked.submitted_at_us
    held, resources = _amounts(workload, asked, sum(units_of(asked, claim)))
    use = RunUse(
        started_at_us=started_at_us,
        ended_at_us=plausible_end_us(end.at_us, begin_us, now_us, 1),
        cluster=cluster,
        node_model=terms.node_models.get(cluster, ""),
        millicores=held,
        resources=resources,
    )
    return run_finished(terms.site, asked, claim, end.outcome, use)


def _amounts(
    workload: KueueWorkload, asked: JobSubmitted, units: int
) -> tuple[int, Mapping[str, int]]:
    """The thousandths of a core and resources of all its pods: small ones have less than a unit."""
    needs = _needs(workload)
    if needs is not None and needs.pods == units:
        return needs.millicores, needs.resources
    each = asked.resources_per_unit.items()
    return units * unit_millicores(asked), {name: units * count for name, count in each}


def _needs(workload: KueueWorkload) -> WorkloadNeeds | None:
    try:
        return workload_needs(workload)
    except ValueError:
        return None


def requeue(record: WorkloadRecord, terms: KueueTerms, reason: str, at_us: int) -> Envelope:
    """Return the event that its run ended, since Kueue took its quota, and it waits again."""
    of = record.job_id, record.claim
    return run_requeued(terms.site, *of, reason, at_us)


def answers(
    record: WorkloadRecord, workload: KueueWorkload, terms: KueueTerms, now_us: int
) -> Sequence[Envelope]:
    """Return what became of its newest grant, of a Workload that waits again: it was declined, or
    its run was requeued and is charged. The requeue goes first, so that the job never counts as
    over."""
    past, claim = record.past, record.claim
    if past is not None and past.is_newer_than(claim.declined) and past.claim.has_begun:
        ran = replace(record, claim=past.claim)
        end = RunEnd(JOB_OUTCOME_CANCELLED, past.ended_us)
        at_us = max(past.claim.at_us, past.ended_us)
        again = requeue(ran, terms, past.reason, at_us)
        return [again, finish(ran, workload, terms, end, now_us)]
    if not claim.declined or claim.declined < claim.grant:
        return []
    is_its = past is not None and past.claim.grant == claim.declined
    reason = past.reason if past is not None and is_its else "declined before"
    of = (record.job_id, claim.attempt, claim.declined)
    return [decline_event(terms.site, *of, shown(reason), now_us)]


def finished_end(workload: KueueWorkload, ended_us: int) -> RunEnd:
    """Return how a Workload ended that is over, and when: as its last pod did, else as Kueue
    says."""
    done = workload.finished
    if done is None:
        return RunEnd(JOB_OUTCOME_CANCELLED, ended_us or workload.deleted_at_us)
    outcome = _OUTCOMES.get(str(done.get("reason")), JOB_OUTCOME_CANCELLED)
    return RunEnd(outcome, ended_us or time_us(done.get("lastTransitionTime")))
