"""Send one job through a region that runs, and wait for its price."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import typer
from coplace.v1.control_pb2 import ClusterDeclared, ClusterUndeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_REJECTED, VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from cli.asking import Ingest, publish
from cli.speaking import Source
from cli.times import clock_us
from coplace_client.errors import UnusableError
from shared.process.settings import settings
from shared.streams.on_kafka.clients import Reader
from shared.streams.on_kafka.deployment import Deployment

_SITE: Final = "smoke-test"
_NODE_MODEL: Final = "smoke-test"
_CORES: Final = 2
_GHZ: Final = 2.0
_DECISIONS, _CHARGES = "placement.decisions", "prices.charges"
_LOOK: Final = "see `coplace status` and `coplace why`"

Answer = TypeVar("Answer", PlacementDecided, ChargeMade)


class SmokeTestError(UnusableError):
    """The job did not come through; the message says how far it came."""


@dataclass(frozen=True, slots=True)
class SmokeJob:
    """A job of one node, on a cluster that is declared for it alone."""

    cluster: str
    now_us: int

    @property
    def job_id(self) -> str:
        """Return an id that no other run of the test has."""
        return f"{_SITE}/{self.cluster}/1/{self.now_us}"

    def declared(self) -> ClusterDeclared:
        """Return the declaration of a cluster of one node, for the test alone."""
        return ClusterDeclared(
            cluster=self.cluster,
            site=_SITE,
            node_model=_NODE_MODEL,
            nodes=1,
            cores_per_node=_CORES,
            pstates_ghz=[_GHZ],
            idle_power_w=50,
            peak_bandwidth_gbps=10,
            # No other has programs of it, so the job goes nowhere else.
            architecture=self.cluster,
        )

    def submitted(self) -> JobSubmitted:
        """Return the submission of the one job of the test."""
        return JobSubmitted(
            job_id=self.job_id,
            attempt=1,
            user=_SITE,
            account=_SITE,
            nodes=1,
            walltime_s=60,
            reference_cluster=self.cluster,
            submitted_at_us=self.now_us,
            architectures=[self.cluster],
        )

    def started(self, grant: int, now_us: int) -> JobStarted:
        """Return what a resource manager publishes of its start."""
        return JobStarted(
            job_id=self.job_id,
            attempt=1,
            cluster=self.cluster,
            nodes=[f"{self.cluster}-0000"],
            freq_ghz=_GHZ,
            started_at_us=now_us,
            grant=grant,
        )

    def finished(self, start: JobStarted, now_us: int) -> JobFinished:
        """Return what a resource manager publishes of its end."""
        return JobFinished(
            job_id=self.job_id,
            attempt=1,
            outcome=JOB_OUTCOME_COMPLETED,
            cluster=self.cluster,
            user=_SITE,
            account=_SITE,
            nodes=1,
            cores_per_node=_CORES,
            freq_ghz=_GHZ,
            node_model=_NODE_MODEL,
            grant=start.grant,
            submitted_at_us=self.now_us,
            started_at_us=start.started_at_us,
            ended_at_us=now_us,
        )

    def undeclared(self, now_us: int) -> ClusterUndeclared:
        """Return the event that removes its cluster."""
        return ClusterUndeclared(
            cluster=self.cluster, reason="the smoke test is over", undeclared_at_us=now_us
        )


def smoke_test(
    ingest: Ingest = "127.0.0.1:50051",
    cluster: Annotated[
        str, typer.Option(help="Declared for the test; the job goes nowhere else.")
    ] = "smoke-test",
    within: Annotated[float, typer.Option(min=1, help="Seconds for all steps together.")] = 180.0,
    price: Annotated[
        bool, typer.Option(help="Wait for its price; sites do not get prices.")
    ] = True,
    source: Source = _SITE,
) -> None:
    """Send one job through the region, from submission to price: fails where it is stuck."""
    deployment = Deployment.from_settings(settings())
    job = SmokeJob(cluster, clock_us())
    began_s = time.monotonic()
    until_s = began_s + within

    def report(**fact: Any) -> None:
        [(name, message)] = fact.items()
        now_us = clock_us()
        event_id = f"{source}/{name}/{now_us}"
        publish(ingest, Envelope(id=event_id, source=source, time_us=now_us, **{name: message}))

    def tell(what: str) -> None:
        typer.echo(f"[{time.monotonic() - began_s:5.1f} s] {what}")

    with _reader(deployment, _DECISIONS) as decided, _reader(deployment, _CHARGES) as charged:
        decisions = _answers(decided, deployment, PlacementDecided, job, until_s)
        charges = _answers(charged, deployment, ChargeMade, job, until_s)
        report(cluster_declared=job.declared())
        try:
            report(job_submitted=job.submitted())
            tell(f"{job.job_id} is submitted")
            start = start_of(job, decisions)
            started = job.started(start.grant, clock_us())
            report(job_started=started)
            tell(f"started on {start.cluster}, as decided")
            report(job_finished=job.finished(started, clock_us()))
            tell("ended, as published" if not price else f"charged {price_of(job, charges)} SU")
        finally:
            report(cluster_undeclared=job.undeclared(clock_us()))


def start_of(job: SmokeJob, decisions: Iterator[PlacementDecided]) -> PlacementDecided:
    """Return the decision that starts the job. Raises SmokeTestError when none comes."""
    told = "is not decided on"
    for decided in decisions:
        if decided.verdict == VERDICT_START:
            return decided
        if decided.verdict == VERDICT_REJECTED:
            raise SmokeTestError(f"{job.job_id} is rejected: {_LOOK}")
        told = "waits and does not start"
    raise SmokeTestError(f"{job.job_id} {told}: {_LOOK}")


def price_of(job: SmokeJob, charges: Iterator[ChargeMade]) -> str:
    """Return the price in service units. Raises SmokeTestError when none comes."""
    charge = next(charges, None)
    if charge is None:
        raise SmokeTestError(f"{job.job_id} ended and is not charged: {_LOOK}")
    return charge.price_su


def _answers(
    reader: Reader, deployment: Deployment, kind: type[Answer], job: SmokeJob, until_s: float
) -> Iterator[Answer]:
    """What is said of the job, until there is no more time."""
    while time.monotonic() < until_s:
        for record in reader.poll():
            payload = deployment.codec.decode(record).payload
            if isinstance(payload, kind) and payload.job_id == job.job_id:
                yield payload


def _reader(deployment: Deployment, topic: str) -> Reader:
    """A reader of what comes from now on."""
    reader = Reader(deployment, deployment.topics.partitions(topic))
    reader.skip_to_end()
    return reader
