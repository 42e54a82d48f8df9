"""One cluster whose meters are read, under a cap, for tests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.placement_service_pb2 import PowerStanding
from coplace.v1.prediction_pb2 import NodeMetersRead
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.streams.stages.stage import Round
from tests.unit.shared.placement.region import (
    T0_US,
    capped,
    declared,
    event,
    feed,
    power,
    saved,
    signature,
    started,
)

IDLE_W, PREDICTED_W, NAMEPLATE_W = 100.0, 333.0, 500.0


def read(at_s: float, *nodes: str, cluster: str = "p1", powers_mw: Iterable[int] = ()) -> Event:
    at_us = T0_US + round(at_s * 1e6)
    payload = NodeMetersRead(
        cluster=cluster, nodes=nodes, told_at_us=at_us, node_power_mw=powers_mw
    )
    return event(f"read/{cluster}/{at_us}", payload, at_us)


@dataclass
class MeteredRegion:
    """One cluster under a cap, and what placement publishes; times in seconds after T0."""

    nodes: int
    cap_w: float
    nameplate_w: float = NAMEPLATE_W
    rules: dict[str, Any] = field(default_factory=dict)
    rounds: int = 0
    state: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.processor = Placement({}, PolicySettings(**self.rules), 7.0)
        cluster = declared("p1", self.nodes, nameplate_power_w=NAMEPLATE_W)
        feed(self.processor, [cluster, power(), signature(0, "p1", power_w=PREDICTED_W)])
        feed(self.processor, [capped(POWER_SCOPE_CLUSTER, "p1", (0, self.cap_w))])
        if self.nameplate_w != NAMEPLATE_W:
            # Over such a cluster no cap is taken: it says so afterwards.
            anew = declared("p1", self.nodes, T0_US + 1, nameplate_power_w=self.nameplate_w)
            feed(self.processor, [anew])

    def round_at(self, at_s: float, *events: Event) -> list[Message]:
        feed(self.processor, events)
        self.rounds += 1
        ended = Round(self.rounds, T0_US + round(at_s * 1e6))
        return [publish.event.payload for publish in self.processor.end_round(ended)]

    def run(self, at_s: float, *events: Event) -> list[PlacementDecided]:
        """What is decided; each start is confirmed at once."""
        published = self.round_at(at_s, *events)
        self.confirm_starts(published)
        return [each for each in published if isinstance(each, PlacementDecided)]

    def confirm_starts(self, published: Iterable[Message]) -> dict[str, list[int]]:
        """The nodes of each job that starts, which is confirmed at once."""
        decided = [each for each in published if isinstance(each, PlacementDecided)]
        starts = [each for each in decided if each.verdict == VERDICT_START]
        feed(self.processor, map(started, starts))
        return {start.job_id: list(start.node_indices) for start in starts}

    def restart(self) -> None:
        self.state = saved(self.state, self.processor.changes())
        self.processor = Placement(self.state, PolicySettings(**self.rules), 7.0)

    @property
    def standing(self) -> PowerStanding:
        return next(s for s in self.processor.queries.power().standings if s.name == "p1")
