"""A good job that is submitted after an attack, which must fare as any other."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from cli.demo.servers import RunningSystem
from coplace_client.channels import grpc_channel
from coplace_client.errors import RejectedError
from services.emulator.adapters import envelope_of
from shared.catalogue.event import Event
from shared.process.clock import now_us
from shared.streams.on_kafka.clients import Reader

_SITE: Final = "bystander"
_CLUSTER: Final = "bystander"
_CALL_WITHIN_S: Final = 60.0
_Fact = TypeVar("_Fact", PlacementDecided, ChargeMade)


class LostJobError(RuntimeError):
    """The job was not placed, or not priced."""


@dataclass(frozen=True, slots=True)
class Fared:
    """How long a good job waited for its start and, once it had ended, for its price."""

    start_s: float
    price_s: float


def play(system: RunningSystem, address: str, name: str, patience_s: float) -> Fared:
    """Submit a job, start it where placement says, end it and wait for its price.

    Raises LostJobError where nothing comes for `patience_s`.
    """
    submitted_us = now_us()
    job_id = f"{_SITE}/{_CLUSTER}/{name}/{submitted_us // 1_000_000}"
    _tell(system, address, _cluster())
    began_s = time.monotonic()
    _tell(system, address, _submission(job_id, submitted_us))
    decided = _awaited(
        system, "placement.decisions", PlacementDecided,
        lambda found: found.job_id == job_id and found.verdict == VERDICT_START, patience_s,
    )  # fmt: skip
    start_s, started_us = time.monotonic() - began_s, now_us()
    _tell(system, address, _start(decided, started_us))
    _tell(system, address, _end(decided, submitted_us, started_us))
    began_s = time.monotonic()
    _awaited(system, "prices.charges", ChargeMade, lambda it: it.job_id == job_id, patience_s)
    return Fared(start_s, time.monotonic() - began_s)


def _awaited(
    system: RunningSystem,
    topic: str,
    kind: type[_Fact],
    is_it: Callable[[_Fact], bool],
    patience_s: float,
) -> _Fact:
    deadline_s = time.monotonic() + patience_s
    for found in _facts(system, topic, kind, deadline_s):
        if is_it(found):
            return found
    raise LostJobError(f"{topic} has nothing of the job after {patience_s:.0f} s")


def _facts(
    system: RunningSystem, topic: str, kind: type[_Fact], deadline_s: float
) -> Iterator[_Fact]:
    """What comes in a topic, hostile records passed over."""
    places = system.deployment.topics.partitions(topic)
    with Reader(system.deployment, places) as reader:
        while time.monotonic() < deadline_s:
            for record in reader.poll():
                with suppress(RejectedError):
                    payload = system.deployment.codec.decode(record).payload
                    if isinstance(payload, kind):
                        yield payload


def _tell(system: RunningSystem, address: str, payload: Message) -> None:
    subject = getattr(payload, "job_id", "") or _CLUSTER
    event_id = f"{_SITE}/{payload.DESCRIPTOR.full_name}/{subject}/{now_us()}"
    event = Event(event_id, _SITE, now_us(), subject, payload)
    with grpc_channel(address, system.deployment.settings) as channel:
        request = PublishRequest(event=envelope_of(event))
        IngestServiceStub(channel).Publish(request, timeout=_CALL_WITHIN_S, wait_for_ready=True)


def _cluster() -> ClusterDeclared:
    return ClusterDeclared(
        cluster=_CLUSTER,
        site=_SITE,
        node_model="bystander-model",
        nodes=4,
        cores_per_node=48,
        pstates_ghz=[1.2, 2.4],
        idle_power_w=100,
        peak_bandwidth_gbps=200,
    )


def _submission(job_id: str, time_us: int) -> JobSubmitted:
    return JobSubmitted(
        job_id=job_id,
        attempt=1,
        user="bystander",
        account="bystander",
        nodes=1,
        walltime_s=600,
        reference_cluster=_CLUSTER,
        submitted_at_us=time_us,
    )


def _start(decided: PlacementDecided, time_us: int) -> JobStarted:
    return JobStarted(
        job_id=decided.job_id,
        attempt=decided.attempt,
        cluster=decided.cluster,
        nodes=[f"{decided.cluster}-{index:04d}" for index in decided.node_indices],
        freq_ghz=decided.freq_ghz,
        started_at_us=time_us,
        grant=decided.grant,
    )


def _end(decided: PlacementDecided, submitted_us: int, started_us: int) -> JobFinished:
    return JobFinished(
        job_id=decided.job_id,
        attempt=decided.attempt,
        outcome=JOB_OUTCOME_COMPLETED,
        cluster=decided.cluster,
        user="bystander",
        account="bystander",
        nodes=1,
        cores_per_node=48,
        freq_ghz=decided.freq_ghz,
        submitted_at_us=submitted_us,
        started_at_us=started_us,
        ended_at_us=now_us(),
        energy_j=1_000.0,
        node_model="bystander-model",
        grant=decided.grant,
    )
