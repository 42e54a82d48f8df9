"""A good job that is submitted after an attack, which must fare as any other."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from cli.smoke_test import SmokeJob, price_of, start_of
from coplace_client.channels import grpc_channel
from coplace_client.errors import RejectedError
from lab.demo.servers import RunningSystem
from lab.emulator.adapters import envelope_of
from shared.catalogue.event import Event
from shared.process.clock import now_us
from shared.streams.on_kafka.clients import Reader

_SOURCE: Final = "bystander"
_CALL_WITHIN_S: Final = 60.0
_Fact = TypeVar("_Fact", PlacementDecided, ChargeMade)


@dataclass(frozen=True, slots=True)
class Fared:
    """How long a good job waited for its start and, once it had ended, for its price."""

    start_s: float
    price_s: float


def play(system: RunningSystem, address: str, patience_s: float) -> Fared:
    """Submit a job, start it where placement says, end it and wait for its price.

    Raises SmokeTestError where nothing comes for `patience_s`.
    """
    job = SmokeJob(_SOURCE, now_us())
    _tell(system, address, job.declared())
    began_s = time.monotonic()
    _tell(system, address, job.submitted())
    decided = start_of(
        job, _facts(system, "placement.decisions", PlacementDecided, job, patience_s)
    )
    start_s, started = time.monotonic() - began_s, job.started(decided.grant, now_us())
    _tell(system, address, started)
    _tell(system, address, job.finished(started, now_us()))
    began_s = time.monotonic()
    price_of(job, _facts(system, "prices.charges", ChargeMade, job, patience_s))
    return Fared(start_s, time.monotonic() - began_s)


def _facts(
    system: RunningSystem, topic: str, kind: type[_Fact], job: SmokeJob, patience_s: float
) -> Iterator[_Fact]:
    """What a topic says of the job, hostile records passed over."""
    deadline_s = time.monotonic() + patience_s
    places = system.deployment.topics.partitions(topic)
    with Reader(system.deployment, places) as reader:
        while time.monotonic() < deadline_s:
            for record in reader.poll():
                with suppress(RejectedError):
                    payload = system.deployment.codec.decode(record).payload
                    if isinstance(payload, kind) and payload.job_id == job.job_id:
                        yield payload


def _tell(system: RunningSystem, address: str, payload: Message) -> None:
    subject = getattr(payload, "job_id", "") or _SOURCE
    event_id = f"{_SOURCE}/{payload.DESCRIPTOR.full_name}/{subject}/{now_us()}"
    event = Event(event_id, _SOURCE, now_us(), subject, payload)
    with grpc_channel(address, system.deployment.settings) as channel:
        request = PublishRequest(event=envelope_of(event))
        IngestServiceStub(channel).Publish(request, timeout=_CALL_WITHIN_S, wait_for_ready=True)
