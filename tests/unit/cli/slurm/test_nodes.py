"""Nodes that Slurm takes out are drained, and what is back is resumed by who drained it."""

from coplace.v1.placement_service_pb2 import NodeGroup, ShowNodesResponse

from cli.slurm.nodes import changes, out

SHOWN = [
    {"name": "n1", "state": "idle", "state_flags": [], "reason": ""},
    {"name": "n2", "state": "idle", "state_flags": ["DRAIN"], "reason": "a fan is broken"},
    {"name": "n3", "state": "down", "state_flags": ["NOT_RESPONDING"], "reason": ""},
    {"name": "n4", "state": ["MIXED", "DRAIN"], "reason": "a fan is broken"},
    {"name": "n5", "state": ["ALLOCATED"], "reason": ""},
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
