"""Facts of runs on clusters of Kubernetes, by the claims on their grants, and who takes them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobOutcome, JobRequeued, JobStarted

from coplace_client.facts import job_fact
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
