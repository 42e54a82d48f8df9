"""Facts of runs on clusters of Kubernetes, by the claims on their grants, and who takes them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobRequeued, JobStarted, JobSubmitted

from coplace_client.facts import job_fact
from coplace_client.millicores import beside_cores, millicores, whole_cores
from shared.kubernetes.claims import GrantClaim
from shared.kubernetes.texts import shown


class FactTaker(Protocol):
    """Who takes facts: ingest."""

    async def tell(self, event: Envelope) -> None: ...


class RunEnd(NamedTuple):
    """How and when a run ended."""

    outcome: JobOutcome.ValueType
    at_us: int


def run_started(site: str, job_id: str, claim: GrantClaim) -> Envelope:
    """Return the event that a job runs under its claim."""
    message = JobStarted(
        job_id=job_id,
        attempt=claim.attempt,
        cluster=claim.cluster,
        nodes=claim.nodes,
        freq_ghz=claim.freq_ghz,
        started_at_us=claim.at_us,
        grant=claim.grant,
        node_units=claim.node_units,
    )
    return job_fact(site, message, claim.attempt, claim.at_us)


def run_requeued(
    site: str,
    job_id: str,
    claim: GrantClaim,
    reason: str,
    at_us: int,
    failed_nodes: Sequence[str] = (),
) -> Envelope:
    """Return the event that a run under a claim ended and its job waits again."""
    message = JobRequeued(
        job_id=job_id,
        attempt=claim.attempt + 1,
        reason=shown(reason),
        requeued_at_us=at_us,
        cluster=claim.cluster,
        failed_nodes=failed_nodes,
        grant=claim.grant,
    )
    return job_fact(site, message, message.attempt, at_us)


class RunUse(NamedTuple):
    """What a run used: from when to when, where, and how much of it all its units together."""

    started_at_us: int
    ended_at_us: int
    cluster: str
    node_model: str
    millicores: int
    resources: Mapping[str, int]


def units_of(asked: JobSubmitted, claim: GrantClaim) -> Sequence[int]:
    """Return the units on each node of a run; of one that never began those that were asked for."""
    return claim.units if claim.has_begun else [1] * asked.nodes


def unit_millicores(asked: JobSubmitted) -> int:
    """Return the thousandths of a core that a unit asks for."""
    return millicores(asked.cores_per_unit, asked.millicores_per_unit)


def run_finished(
    site: str,
    asked: JobSubmitted,
    claim: GrantClaim,
    outcome: JobOutcome.ValueType,
    use: RunUse,
) -> Envelope:
    """Return the event that the run of a job under its claim ended, or that it never ran under
    one."""
    units, has_begun = units_of(asked, claim), claim.has_begun
    message = JobFinished(
        job_id=asked.job_id,
        attempt=claim.attempt,
        outcome=outcome,
        cluster=use.cluster,
        app_id=asked.app_id,
        user=asked.user,
        account=asked.account,
        nodes=len(units),
        cores_per_node=whole_cores(max(units) * unit_millicores(asked)),
        freq_ghz=claim.freq_ghz if has_begun else 0.0,
        submitted_at_us=asked.submitted_at_us,
        started_at_us=use.started_at_us,
        ended_at_us=use.ended_at_us,
        node_model=use.node_model,
        grant=claim.grant if has_begun else 0,
        cores=whole_cores(use.millicores),
        millicores=beside_cores(use.millicores),
        resources=use.resources,
    )
    return job_fact(site, message, message.attempt, message.ended_at_us)


def plausible_end_us(at_us: int, begin_us: int, now_us: int, earliest_us: int) -> int:
    """Return when a run ended: as Kubernetes says, unless that is too early or yet to come; then
    it is taken to have ended when that was seen."""
    return max(at_us if earliest_us <= at_us <= now_us else now_us, begin_us)
