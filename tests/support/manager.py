"""A resource manager that does what a test says, when it says it, to a system that runs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    ExplainResponse,
    JobStanding,
)

from cli import nodes, why
from cli.asking import publish
from cli.times import clock_us
from coplace_client.calls import UnansweredError

_CORES, _GHZ, _NODE_MODEL = 36, 3.1, "gold-6254"


@dataclass(frozen=True, slots=True)
class ScriptedManager:
    """Of one cluster that nothing else runs on: its jobs ask for its architecture.

    `environment` is what `coplace env` prints.
    """

    site: str
    cluster: str
    environment: Mapping[str, str]

    def declare(self, node_count: int) -> None:
        """Its cluster."""
        self.report(
            self.cluster,
            cluster_declared=ClusterDeclared(
                cluster=self.cluster,
                site=self.site,
                node_model=_NODE_MODEL,
                nodes=node_count,
                cores_per_node=_CORES,
                pstates_ghz=[1.2, 2.0, _GHZ],
                idle_power_w=110,
                peak_bandwidth_gbps=140,
                processors_tdp_w=400,
                architecture=self.cluster,
            ),
        )

    def submit(self, job_id: str, node_count: int) -> None:
        """A job of ada's."""
        submitted = JobSubmitted(
            job_id=job_id,
            attempt=1,
            user="ada",
            account="physics",
            nodes=node_count,
            walltime_s=3600,
            reference_cluster=self.cluster,
            submitted_at_us=clock_us(),
            architectures=[self.cluster],
        )
        self.report(job_id, job_submitted=submitted)

    def start(self, job_id: str) -> JobStarted:
        """Start a job as soon as it is decided, and say so."""
        found = self.until(job_id, JOB_STANDING_DECIDED)
        started = JobStarted(
            job_id=job_id,
            attempt=found.attempt,
            cluster=self.cluster,
            nodes=self._nodes_of(job_id),
            freq_ghz=found.allocation.freq_ghz,
            started_at_us=clock_us(),
            grant=found.allocation.grant,
        )
        self.report(job_id, job_started=started)
        self.until(job_id, JOB_STANDING_RUNNING)
        return started

    def finish(self, started: JobStarted, node_count: int) -> None:
        """End what runs."""
        finished = JobFinished(
            job_id=started.job_id,
            attempt=started.attempt,
            outcome=JOB_OUTCOME_COMPLETED,
            cluster=self.cluster,
            user="ada",
            account="physics",
            nodes=node_count,
            cores_per_node=_CORES,
            freq_ghz=started.freq_ghz,
            node_model=_NODE_MODEL,
            grant=started.grant,
            submitted_at_us=started.started_at_us,
            started_at_us=started.started_at_us,
            ended_at_us=clock_us(),
        )
        self.report(started.job_id, job_finished=finished)

    def until(self, job_id: str, standing: JobStanding.ValueType) -> ExplainResponse:
        """What placement says of a job as soon as it is in that state. Raises TimeoutError."""
        until_s = time.monotonic() + 30
        while time.monotonic() < until_s:
            try:
                found = why.ask(self.environment["COPLACE_PLACEMENT_ADDRESS"], job_id)
            except UnansweredError:
                found = ExplainResponse()
            if found.standing == standing:
                return found
            time.sleep(0.1)
        raise TimeoutError(f"{job_id} is {JobStanding.Name(found.standing)}: {found.reason}")

    def report(self, subject: str, **fact: Any) -> None:
        """Publish one fact."""
        [name] = fact
        now_us = clock_us()
        source = f"{self.site}/{self.cluster}"
        event = Envelope(
            id=f"{source}/{name}/{subject}/{now_us}", source=source, time_us=now_us, **fact
        )
        publish(self.environment["COPLACE_INGEST_ADDRESS"], event)

    def _nodes_of(self, job_id: str) -> list[str]:
        groups = nodes.ask(self.environment["COPLACE_PLACEMENT_ADDRESS"], self.cluster).groups
        return [name for group in groups if job_id in group.job_ids for name in group.nodes]
