"""Nodes that Slurm takes out are drained, and what is back is resumed by who drained it."""

from typing import Any

import grpc
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import NodeGroup, ShowNodesResponse
from structlog.testing import capture_logs

from services.ingest.model import Intake
from services.slurm.adapters.drains import DrainPublisher, changes, out
from shared.catalogue.topics import Topics
from shared.domain.hostlist import expand
from tests.unit.services.slurm.region import PlayedRegion, unanswered

SHOWN = [
    {"name": "n1", "state": "idle", "state_flags": [], "reason": ""},
    {"name": "n2", "state": "idle", "state_flags": ["DRAIN"], "reason": "a fan is broken"},
    {"name": "n3", "state": "down", "state_flags": ["NOT_RESPONDING"], "reason": ""},
    {"name": "n4", "state": ["MIXED", "DRAIN"], "reason": "a fan is broken"},
    {"name": "n5", "state": ["ALLOCATED"], "reason": ""},
]


# Which no Slurm should show, and what anybody may write.
ODD: list[Any] = [
    {},
    {"name": "n["},
    {"name": "n6", "state": None, "state_flags": None},
    {"name": "n7", "state": [["DRAIN"]], "reason": 7},
    {"name": "n8", "state": ["DOWN"], "reason": 7},
]


def standing(by: str, *nodes: str) -> ShowNodesResponse:
    return ShowNodesResponse(groups=[NodeGroup(nodes=nodes, reason="why", drained_by=by)])


def test_nodes_on_which_slurm_starts_nothing_are_out_with_its_reason() -> None:
    assert out(SHOWN) == {
        "n2": "a fan is broken",
        "n3": "down not_responding in Slurm",
        "n4": "a fan is broken",
    }


def test_a_node_that_is_off_or_boots_is_not_out_though_it_does_not_respond() -> None:
    shown = [
        {"name": "n1", "state": "idle", "state_flags": ["POWERED_DOWN"], "reason": ""},
        {"name": "n2", "state": ["MIXED", "NOT_RESPONDING", "POWERING_UP"], "reason": ""},
        {"name": "n3", "state": "idle", "state_flags": ["NOT_RESPONDING"], "reason": ""},
    ]
    failed = {"name": "n4", "state": "down", "state_flags": ["POWERED_DOWN", "NOT_RESPONDING"]}
    drained = {"name": "n5", "state": ["IDLE", "DRAIN", "POWERED_DOWN"], "reason": "a fan"}
    assert out([*shown, {**failed, "reason": "ResumeTimeout reached"}, drained]) == {
        "n3": "idle not_responding in Slurm",
        "n4": "ResumeTimeout reached",
        "n5": "a fan",
    }


def test_what_is_known_to_be_out_is_not_published_again() -> None:
    drained, resumed = changes(out(SHOWN), standing("north/alpha", "n[2-3]"), "north/alpha")
    assert (drained, resumed) == ({"a fan is broken": ["n4"]}, [])


def test_what_is_back_is_resumed_unless_somebody_else_drained_it() -> None:
    assert changes({}, standing("north/alpha", "n1", "n[2-3]"), "north/alpha")[1] == [
        "n1",
        "n2",
        "n3",
    ]
    assert changes({}, standing("operator", "n1"), "north/alpha") == ({}, [])


class RegionWithDrains(PlayedRegion):
    """Keeps what is published, and refuses some reasons; its time does not pass."""

    def __init__(self) -> None:
        super().__init__()
        self.drained: dict[str, str] = {}
        self.names: list[str] = []
        self.idle: list[str] = [f"n{number}" for number in range(1, 9)]
        self.refuses = ""
        self.now_s = 0.0
        self._intake = Intake(Topics())
        self.publisher = DrainPublisher(self, "north", "alpha", 60.0, lambda: self.now_s)

    def nodes(self, cluster: str) -> ShowNodesResponse:
        groups = [
            NodeGroup(nodes=[name], drained_by="north/alpha", reason=reason)
            for name, reason in self.drained.items()
        ]
        return ShowNodesResponse(groups=[*groups, NodeGroup(nodes=self.idle)])

    def publish(self, event: Envelope) -> None:
        self._intake.accept(event, 1_900_000_000.0)
        drained = event.nodes_drained
        names = [name for each in drained.nodes for name in expand(each)]
        if self.refuses and drained.reason == self.refuses:
            raise unanswered(grpc.StatusCode.INVALID_ARGUMENT, "no")
        self.names += names or list(event.nodes_resumed.nodes)
        self.drained.update(dict.fromkeys(names, drained.reason))


def test_a_reason_that_nobody_could_type_stops_no_drain() -> None:
    region = RegionWithDrains()
    shown = [
        {"name": "n1", "state": "drain", "reason": "fan\tbroken"},
        {"name": "n2", "state": "down", "reason": "x" * 300},
        *ODD,
    ]
    region.publisher.tell(shown)
    assert region.drained == {
        "n1": "fan_broken",
        "n2": "x" * 256,
        "n8": "down in Slurm",
    }


def test_a_drain_that_ingest_refuses_stops_no_other() -> None:
    region = RegionWithDrains()
    region.refuses = "a fan is broken"
    with capture_logs() as logs:
        for _ in range(3):
            region.publisher.tell(SHOWN)
            region.now_s += 60
    assert region.names == ["n3"]
    assert len(logs) == 1


def test_what_somebody_resumed_and_slurm_has_out_is_drained_again_within_the_interval() -> None:
    region = RegionWithDrains()
    for now_s in range(0, 600, 5):
        region.now_s = now_s
        region.publisher.tell(SHOWN)
        if now_s == 300:
            region.drained.clear()
    once = ["n2", "n4", "n3"]
    assert sorted(region.names) == sorted([*once, *once])
    assert region.drained.keys() == {"n2", "n3", "n4"}


def test_a_node_that_nobody_declared_keeps_no_other_from_being_drained() -> None:
    region = RegionWithDrains()
    region.drained = {"n1": "why"}
    region.idle = ["n2", "n4"]
    region.publisher.tell([*SHOWN, {"name": "n99", "state": "down", "reason": "a fan is broken"}])
    assert region.names == ["n2", "n4", "n1"]
