"""A cluster is declared as its nodes are, and nodes that take no pods are drained and resumed."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import NodeGroup, ShowNodesResponse

from shared.kubernetes import node_reporter
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import trimmed_node
from tests.unit.shared.kubernetes.objects import NOW_US, TRAITS, node

CORDONED = {"unschedulable": True}


class Coplace:
    """Folds drains as placement does; others drained what `drained_by` says at first."""

    def __init__(self, **drained_by: str) -> None:
        self.drained_by, self.events = drained_by, list[Envelope]()

    async def tell(self, event: Envelope) -> None:
        self.events.append(event)
        self.drained_by |= dict.fromkeys(event.nodes_drained.nodes, event.source)
        for name in event.nodes_resumed.nodes:
            del self.drained_by[name]

    async def nodes(self, cluster: str) -> ShowNodesResponse:
        groups = [NodeGroup(nodes=[name], drained_by=by) for name, by in self.drained_by.items()]
        return ShowNodesResponse(groups=groups)

    def kinds(self) -> list[str]:
        return [event.WhichOneof("payload") or "" for event in self.events]


def reporter(coplace: Coplace, asked: Sequence[JobSubmitted] = ()) -> NodeReporter:
    return NodeReporter(TRAITS, coplace, coplace, lambda: NOW_US, asked=lambda: asked)


async def tell(told: NodeReporter) -> None:
    await told.declare()
    await told.publish_out()


async def test_a_node_that_is_cordoned_is_drained_and_resumed_once() -> None:
    coplace = Coplace()
    told = reporter(coplace)
    told.replace("alpha", [node("n1"), node("m2")])
    await tell(told)
    told.changed("alpha", node("n1", spec=CORDONED))
    await tell(told)
    await tell(told)
    told.changed("alpha", node("n1"))
    await tell(told)
    assert coplace.kinds() == ["cluster_declared", "nodes_drained", "nodes_resumed"]
    assert coplace.events[1].nodes_drained.reason == "cordoned in Kubernetes"


async def test_what_somebody_else_drained_stays_drained_and_what_was_drained_here_is_resumed() -> (
    None
):
    coplace = Coplace(n1="olga", m2="north/alpha")
    told = reporter(coplace)
    told.replace("alpha", [node("n1"), node("m2")])
    await tell(told)
    assert coplace.drained_by == {"n1": "olga"}


async def test_a_node_that_is_removed_keeps_its_index_and_one_that_comes_has_the_next() -> None:
    coplace = Coplace()
    told = reporter(coplace)
    told.replace("alpha", [node("n1"), node("m2")])
    await tell(told)
    told.deleted("alpha", node("m2"))
    told.changed("alpha", node("a3", metadata={"creationTimestamp": "2026-02-01T00:00:00Z"}))
    await tell(told)
    last = next(
        e.cluster_declared for e in reversed(coplace.events) if e.HasField("cluster_declared")
    )
    assert list(last.node_names) == ["m2", "n1", "a3"]
    assert coplace.drained_by == {"m2": "north/alpha"}


async def test_a_node_that_cannot_be_read_is_left_out_and_the_others_are_declared() -> None:
    coplace, odd = Coplace(), list[str]()
    told = NodeReporter(TRAITS, coplace, coplace, lambda: NOW_US, odd.append)
    unready = [{"type": "Ready", "status": "False", "message": "disk\tfull\nsince noon"}]
    odd_node: Any = "n5"
    wrong = [node("n3", "many"), node("n4", status={"conditions": "none"}), {}, odd_node]
    told.replace("alpha", [node("n1"), node("n2", status={"conditions": unready}), *wrong])
    await tell(told)
    declared, drained = coplace.events
    assert list(declared.cluster_declared.node_names) == ["n[1-2]"]
    assert drained.nodes_drained.reason == "not ready in Kubernetes: disk full since noon"
    assert odd == ["alpha"] * 4


@pytest.mark.parametrize(
    "amounts", [{"memory": "1"}, {"cpu": "0"}, {"cpu": "9e15"}, {"nvidia.com/gpu": "1e99"}]
)
async def test_a_node_of_amounts_that_no_node_has_is_left_out_and_the_others_are_declared(
    amounts: dict[str, str],
) -> None:
    coplace = Coplace()
    told = reporter(coplace)
    told.replace("alpha", [node("n1"), node("n2", status={"allocatable": amounts})])
    await told.declare()
    [declared] = coplace.events
    assert list(declared.cluster_declared.node_names) == ["n1"]


async def test_nodes_are_drained_where_the_cluster_cannot_be_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_reporter, "_SETTLE_S", 0)
    coplace = Coplace()
    told = reporter(coplace)
    told.replace("alpha", [node("n1"), node("n2", "64", spec=CORDONED)])
    running = asyncio.create_task(told.run())
    await asyncio.sleep(0.05)
    running.cancel()
    assert coplace.kinds() == ["nodes_drained"]


async def test_a_node_that_only_says_that_it_lives_is_not_declared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_reporter, "_SETTLE_S", 0)
    coplace, looks = Coplace(), list[str]()

    def asked() -> Iterable[JobSubmitted]:
        looks.append("declares")
        return ()

    told = NodeReporter(TRAITS, coplace, coplace, lambda: NOW_US, asked=asked)
    running = asyncio.create_task(told.run())

    async def looks_after(version: str, **more: Any) -> int:
        living = {"type": "Ready", "status": "True", "lastHeartbeatTime": version}
        status = {"conditions": [living]}
        whole = node("n1", metadata={"resourceVersion": version}, status=status, **more)
        told.changed("alpha", trimmed_node(whole))
        await asyncio.sleep(0.02)
        return len(looks)

    assert [await looks_after(version) for version in ("1", "2", "3")] == [1, 1, 1]
    assert await looks_after("4", spec=CORDONED) == 2
    running.cancel()
    assert coplace.kinds() == ["cluster_declared", "nodes_drained"]


async def test_labels_and_taints_are_declared_once_jobs_ask_for_them() -> None:
    coplace, asked = Coplace(), list[JobSubmitted]()
    told = reporter(coplace, asked)
    taints = [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]
    plain = node("n1", metadata={"labels": {"zone": "a"}})
    told.replace("alpha", [plain, node("n2", spec={"taints": taints})])
    await tell(told)
    job = JobSubmitted(features="zone=a", partitions=["tolerates:gpu=a100:"])
    asked.append(job)
    await told.offer(job)
    await told.offer(job)
    await tell(told)
    first, second = (event.cluster_declared for event in coplace.events)
    assert [list(each.features) for each in first.node_classes] == [[]]
    assert [list(each.features) for each in second.node_classes] == [["zone=a"], []]
    assert [(each.name, list(each.nodes), each.default) for each in second.partitions] == [
        ("untainted", ["n1"], True),
        ("tolerates:gpu=a100:", ["n[1-2]"], False),
    ]


async def test_a_node_whose_taint_nobody_tolerates_any_more_is_drained() -> None:
    taints = [{"key": "gpu", "effect": "NoSchedule"}]
    coplace, asked = Coplace(), [JobSubmitted(partitions=["tolerates:gpu:"])]
    told = reporter(coplace, asked)
    told.replace("alpha", [node("n1"), node("n2", spec={"taints": taints})])
    await tell(told)
    asked.clear()
    await tell(told)
    assert coplace.kinds() == ["cluster_declared", "cluster_declared", "nodes_drained"]
    assert coplace.events[2].nodes_drained.reason == "tainted in Kubernetes"
