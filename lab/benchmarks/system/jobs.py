"""The jobs of each kind of step, and what a resource manager says about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JobFinished,
    JobStarted,
)
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.telemetry_pb2 import NodeSample, NodeSamples, SignatureMeasured
from google.protobuf.message import Message

from lab.benchmarks.system.step import Kind
from lab.emulator import facts
from lab.emulator.emulator import Emulator
from lab.workloads.clusters import clusters
from lab.workloads.generate import built_in
from lab.workloads.request import JobRequest
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import Cluster
from shared.domain.node import node_name

SEED: Final = 1
RUNTIME_S: Final = 0.3
_HOUR_S: Final = 3600.0
_CLUSTERS: Final = {cluster.name: cluster for cluster in clusters()}
# Fillers outlast the benchmark; what is queued outlasts every reservation that they allow. A limit
# is scaled to the cluster and its frequency, so that these differ well.
_FILL_NODES, _FILL_S, _TOP_UP_S, _QUEUE_S = 16, 24 * _HOUR_S, 4 * _HOUR_S, 168 * _HOUR_S
_FLOW_NODES, _FLOW_S = 2, 300.0
# So many of the jobs name no application: first runs, which the power model is asked about.
_FIRST_RUN_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job on its way."""

    job_id: str
    request: JobRequest
    time_us: int

    @property
    def cluster(self) -> Cluster:
        """Return its reference cluster, whose resource manager speaks for it."""
        return _CLUSTERS[self.request.reference_cluster]

    def submission(self) -> Publish:
        """Return the event of its submission."""
        publish = facts.submission(self.request, self.job_id, self.cluster, {})
        if self.request.index % round(1 / _FIRST_RUN_SHARE) == 0:
            publish.event.payload.ClearField("app_id")
        return publish


def requests(kind: Kind, count: int, first_index: int) -> list[JobRequest]:
    """Return jobs of the built-in workload, made to fit their kind."""
    drawn = built_in(SEED + first_index, count, clusters())
    return [
        _shaped(kind, replace(request, index=first_index + number))
        for number, request in enumerate(drawn)
    ]


def _shaped(kind: Kind, request: JobRequest) -> JobRequest:
    match kind:
        case Kind.FILL:
            return replace(request, nodes=_FILL_NODES, walltime_s=_FILL_S, shareable=False)
        case Kind.TOP_UP:
            return replace(request, nodes=_FILL_NODES, walltime_s=_TOP_UP_S, shareable=False)
        case Kind.WIDE:
            nodes = max(cluster.nodes for cluster in _CLUSTERS.values())
            return replace(request, nodes=nodes, walltime_s=_QUEUE_S, shareable=False)
        case Kind.QUEUE:
            return replace(request, walltime_s=_QUEUE_S)
        case Kind.WAIT:
            return request
        case Kind.FLOW:
            return replace(request, nodes=1 + request.index % _FLOW_NODES, walltime_s=_FLOW_S)


def submitted_at(request: JobRequest, time_us: int) -> Submitted:
    """Return the job, handed to its resource manager at a wall time."""
    timed = replace(request, submit_s=(time_us - facts.EPOCH_US) / 1e6)
    return Submitted(facts.id_of(timed, _CLUSTERS[request.reference_cluster].site), timed, time_us)


def started(job: Submitted, decided: PlacementDecided, time_us: int) -> Publish:
    """Return the event that the resource manager started it."""
    payload = JobStarted(
        job_id=job.job_id,
        attempt=decided.attempt,
        cluster=decided.cluster,
        nodes=[node_name(decided.cluster, index) for index in decided.node_indices],
        freq_ghz=decided.freq_ghz,
        started_at_us=time_us,
    )
    return _told(facts.JOBS, job, time_us, payload)


def finished(
    job: Submitted, decided: PlacementDecided, started_us: int, time_us: int
) -> list[Publish]:
    """Return the events of a job's end, with its signature, its meter and all that its price
    needs."""
    cluster = _CLUSTERS[decided.cluster]
    measured = SignatureMeasured()
    measured.CopyFrom(_profiled()[job.request.app_id, cluster.node_model])
    measured.job_id = job.job_id
    samples = NodeSamples(
        node=node_name(cluster.name, decided.node_indices[0]),
        cluster=cluster.name,
        node_model=cluster.node_model,
        samples=[NodeSample(time_us=time_us, power_w=measured.power_w)],
    )
    energy_j = measured.power_w * job.request.nodes * (time_us - started_us) / 1e6
    ended = _finish(job, cluster, time_us)
    ended.outcome = JOB_OUTCOME_COMPLETED
    ended.cores_per_node, ended.freq_ghz = decided.cores_per_node, decided.freq_ghz
    ended.started_at_us, ended.energy_j = started_us, energy_j
    return [
        _told(facts.SIGNATURES, job, time_us, measured),
        _told(facts.NODES, job, time_us, samples),
        _told(facts.JOBS, job, time_us, ended),
    ]


def cancelled(job: Submitted, time_us: int) -> Publish:
    """Return the event that a user took a job out of the queue."""
    ended = _finish(job, job.cluster, time_us)
    ended.outcome = JOB_OUTCOME_CANCELLED
    return _told(facts.JOBS, job, time_us, ended)


def _finish(job: Submitted, cluster: Cluster, time_us: int) -> JobFinished:
    return JobFinished(
        job_id=job.job_id,
        attempt=1,
        cluster=cluster.name,
        app_id=job.request.app_id,
        user=job.request.user,
        account=job.request.account,
        nodes=job.request.nodes,
        cores_per_node=cluster.cores_per_node,
        submitted_at_us=job.time_us,
        ended_at_us=time_us,
        node_model=cluster.node_model,
    )


def _told(topic: str, job: Submitted, time_us: int, payload: Message) -> Publish:
    """Ingest derives key and trace."""
    source = facts.source(job.cluster)
    event_id = f"{source}/{payload.DESCRIPTOR.full_name}/{job.job_id}/1"
    return Publish(topic, Event(event_id, source, time_us, job.job_id, payload))


@cache
def _profiled() -> dict[tuple[str, str], SignatureMeasured]:
    """How each application was measured on each node model before the first job."""
    events: Sequence[Publish] = Emulator((), clusters(), SEED).next_round().events
    found = [publish.event.payload for publish in events]
    return {
        (seen.app_id, seen.node_model): seen
        for seen in found
        if isinstance(seen, SignatureMeasured) and not seen.kernel
    }
