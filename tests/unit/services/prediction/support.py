"""Events that the prediction service takes."""

from typing import Any

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import (
    Shutter,
    ShuttersMeasured,
    SignatureMeasured,
)
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.streams.stages.stage import Processor, Round

APPS = ("calm", "hungry")
SECOND_US = 1_000_000


def event(event_id: str, time_us: int, key: str, payload: Message) -> Event:
    return Event(event_id, "site/p1", time_us, key, payload)


def declared(node_model: str = "platinum-8168", cluster: str = "p1") -> Event:
    payload = ClusterDeclared(
        cluster=cluster,
        site="site",
        node_model=node_model,
        nodes=16,
        cores_per_node=48,
        pstates_ghz=(1.2, 2.7),
        idle_power_w=110.0,
        peak_bandwidth_gbps=256.0,
    )
    return event(f"declared {cluster}", 1, cluster, payload)


def read(node: str, power_w: float, time_us: int = 1, node_model: str = "platinum-8168") -> Event:
    payload = NodePowerMeasured(
        node=node,
        cluster="p1",
        node_model=node_model,
        power_w=power_w,
        samples=2,
        first_at_us=time_us,
        last_at_us=time_us,
    )
    return event(f"samples {node} {time_us}", time_us, node, payload)


def run(number: int, app_id: str, power_w: float, **changes: Any) -> list[Event]:
    """A job from its submission to its finish: one hour on two nodes."""
    job_id = f"site/p1/{number:04d}/0"
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        app_id=app_id,
        user="user",
        account="account",
        nodes=2,
        walltime_s=7200.0,
        reference_cluster="p1",
    )
    values: dict[str, Any] = {
        "job_id": job_id,
        "attempt": 1,
        "outcome": JOB_OUTCOME_COMPLETED,
        "cluster": "p1",
        "nodes": 2,
        "cores_per_node": 48,
        "freq_ghz": 2.7,
        "started_at_us": SECOND_US,
        "ended_at_us": 3601 * SECOND_US,
        "energy_j": power_w * 2 * 3600,
    }
    finished = JobFinished(**(values | changes))
    return [
        event(f"submitted {number}", number, job_id, submitted),
        event(f"finished {number}", 3601 * SECOND_US + number, job_id, finished),
    ]


def measured(
    app_id: str, mem_gbps: float, freq_ghz: float = 2.7, time_us: int = 1, **changes: Any
) -> Event:
    payload = SignatureMeasured(
        app_id=app_id, node_model="platinum-8168", freq_ghz=freq_ghz, mem_gbps=mem_gbps, **changes
    )
    return event(f"{app_id} {freq_ghz} {time_us}", time_us, f"{app_id}|platinum-8168", payload)


def beside(number: int, app_id: str, other: str, slowdown: float, **changes: Any) -> Event:
    payload = ShuttersMeasured(
        job_id=f"job-{number}",
        attempt=1,
        co_runner_job_id=f"job-{number + 1}",
        app_id=app_id,
        co_runner_app_id=other,
        node_model="platinum-8168",
        began_at_us=1,
        ended_at_us=2,
        shutters=[
            Shutter(ipc_before=1 / slowdown, ipc_during=1.0, ipc_after=1 / slowdown)
            for _ in range(3)
        ],
        **changes,
    )
    return event(f"shutters {number}", number, f"job-{number}", payload)


def in_round(processor: Processor, number: int, *events: Event) -> dict[str, Any]:
    """The models that a round of events publishes, by key."""
    for one in events:
        assert not list(processor.handle(one))
    ended = Round(number, number * 30 * SECOND_US)
    return {p.event.key: p.event.payload for p in processor.end_round(ended)}
