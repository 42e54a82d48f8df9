"""Events that the prediction service takes."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared, ModelPinned, ModelRolledBack
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import (
    Shutter,
    ShuttersMeasured,
    SignatureMeasured,
)
from google.protobuf.message import Message

from services.prediction.processor import Prediction
from shared.catalogue.event import Event
from shared.streams.stages.stage import Processor, Round
from tests.unit.services.changelog import fold

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


def read(
    node: str,
    power_w: float,
    time_us: int = 1,
    node_model: str = "platinum-8168",
    **changes: Any,
) -> Event:
    values: dict[str, Any] = {"samples": 2, "first_at_us": time_us, "last_at_us": time_us}
    payload = NodePowerMeasured(
        node=node, cluster="p1", node_model=node_model, power_w=power_w, **(values | changes)
    )
    return event(f"samples {node} {time_us}", time_us, node, payload)


def job(
    number: int,
    power_w: float,
    app_id: str = "calm",
    *,
    of_submission: dict[str, Any] | None = None,
    of_start: dict[str, Any] | None = None,
    **of_end: Any,
) -> tuple[Event, Event, Event]:
    """A job's submission, start and end: one hour on two nodes."""
    job_id = f"site/p1/{number:04d}/0"
    asked: dict[str, Any] = {"nodes": 2, "user": "user", "walltime_s": 7200.0}
    submitted = JobSubmitted(
        job_id=job_id,
        attempt=1,
        app_id=app_id,
        account="account",
        reference_cluster="p1",
        **(asked | (of_submission or {})),
    )
    began: dict[str, Any] = {"nodes": ["n1", "n2"], "freq_ghz": 2.7, "started_at_us": SECOND_US}
    started = JobStarted(job_id=job_id, attempt=1, cluster="p1", **(began | (of_start or {})))
    values: dict[str, Any] = {
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
    finished = JobFinished(job_id=job_id, **(values | of_end))
    return (
        event(f"submitted {number}", number, job_id, submitted),
        event(f"started {number}", SECOND_US + number, job_id, started),
        event(f"finished {number}", 3601 * SECOND_US + number, job_id, finished),
    )


def run(number: int, app_id: str, power_w: float, **of_end: Any) -> tuple[Event, Event]:
    """A job whose start nobody published."""
    submitted, _, finished = job(number, power_w, app_id, **of_end)
    return submitted, finished


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


def told(processor: Processor, number: int, at_us: int, events: Iterable[Event]) -> list[Message]:
    """What a round of events publishes when it ends."""
    for one in events:
        assert not list(processor.handle(one))
    published = processor.end_round(Round(number, at_us))
    return [publish.event.payload for publish in published]


def in_round(processor: Processor, number: int, *events: Event) -> dict[str, Any]:
    """The models that a round of events publishes, by key."""
    for one in events:
        assert not list(processor.handle(one))
    ended = Round(number, number * 30 * SECOND_US)
    return {p.event.key: p.event.payload for p in processor.end_round(ended)}


class Versions:
    """Rounds of what trees are grown of; the stage lives on, or is killed and restored from its
    changelog."""

    model: str
    chosen: type[Any]
    round_us: int

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.stage, self.state, self.rounds = Prediction({}), dict[str, bytes](), 0
        self.published: list[Message] = []

    def told(self, events: Iterable[Event], *, dies_before_the_end: bool = False) -> list[Message]:
        """What a round of events publishes."""
        for one in events:
            list(self.stage.handle(one))
        if dies_before_the_end:
            self.dies()
        self.rounds += 1
        found = told(self.stage, self.rounds, (self.rounds + 2) * self.round_us, [])
        fold(self.state, self.stage.changes())
        self.published += found
        return found

    def dies(self) -> None:
        """A kill behind a commit."""
        fold(self.state, self.stage.changes())
        self.stage = Prediction(self.state)

    def of(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.published if isinstance(message, kind)]

    @property
    def in_force(self) -> str:
        """As it was last published for placement."""
        chosen = self.of(self.chosen)
        return chosen[-1].version if chosen else ""

    def pins(self, version: str) -> list[Any]:
        """What an operator's order to keep to a version leads to."""
        order = ModelPinned(model=self.model, version=version, reason="why", pinned_at_us=1)
        return self._orders(order)

    def rolls_back(self) -> list[Any]:
        """What an operator's order to go back leads to."""
        return self._orders(ModelRolledBack(model=self.model, reason="worse", rolled_back_at_us=1))

    def _orders(self, order: ModelPinned | ModelRolledBack) -> list[Any]:
        return self.told([Event("order", "operator/ada", 1, self.model, order)])
