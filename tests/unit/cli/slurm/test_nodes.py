"""Nodes that Slurm takes out are drained, and what is back is resumed by who drained it."""

from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_service_pb2 import NodeGroup, ShowNodesResponse

from cli import nodes as commands
from cli.slurm import nodes
from cli.slurm.nodes import DrainPublisher, changes, out
from coplace_client.calls import UnansweredError
from services.ingest.model import Intake
from shared.catalogue.topics import Topics

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


class Region:
    """Keeps what is published, and refuses some reasons; its time does not pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drained: dict[str, str] = {}
        self.told: list[str] = []
        self.idle: list[str] = [f"n{number}" for number in range(1, 9)]
        self.refuses = ""
        self.now_s = 0.0
        self._intake = Intake(Topics())
        monkeypatch.setattr(nodes, "publish", self._publish)
        monkeypatch.setattr(commands, "ask", self._ask)
        self.publisher = DrainPublisher("p", "i", "north", "alpha", 60.0, lambda: self.now_s)

    def _ask(self, _placement: str, _cluster: str) -> ShowNodesResponse:
        groups = [
            NodeGroup(nodes=[name], drained_by="north/alpha", reason=reason)
            for name, reason in self.drained.items()
        ]
        return ShowNodesResponse(groups=[*groups, NodeGroup(nodes=self.idle)])

    def _publish(self, _ingest: str, event: Envelope) -> None:
        self._intake.accept(event, 1_900_000_000.0)
        drained = event.nodes_drained
        names, reason = list(nodes._named(drained.nodes)), drained.reason
        if self.refuses and reason == self.refuses:
            code = SimpleNamespace(
                code=lambda: grpc.StatusCode.INVALID_ARGUMENT,
                details=lambda: "no",
                trailing_metadata=tuple,
            )
            raise UnansweredError("i", code)
        self.told += names or list(event.nodes_resumed.nodes)
        self.drained.update(dict.fromkeys(names, reason))


def test_a_reason_that_nobody_could_type_stops_no_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    region = Region(monkeypatch)
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


def test_a_drain_that_ingest_refuses_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    region = Region(monkeypatch)
    region.refuses = "a fan is broken"
    for _ in range(3):
        region.publisher.tell(SHOWN)
        region.now_s += 60
    assert region.told == ["n3"]
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_somebody_resumed_and_slurm_has_out_is_drained_again_within_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region = Region(monkeypatch)
    for now_s in range(0, 600, 5):
        region.now_s = now_s
        region.publisher.tell(SHOWN)
        if now_s == 300:
            region.drained.clear()
    once = ["n2", "n4", "n3"]
    assert sorted(region.told) == sorted([*once, *once])
    assert region.drained.keys() == {"n2", "n3", "n4"}


def test_a_node_that_nobody_declared_keeps_no_other_from_being_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    region = Region(monkeypatch)
    region.drained = {"n1": "why"}
    region.idle = ["n2", "n4"]
    region.publisher.tell([*SHOWN, {"name": "n99", "state": "down", "reason": "a fan is broken"}])
    assert region.told == ["n2", "n4", "n1"]
