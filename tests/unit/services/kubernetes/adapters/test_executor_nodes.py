"""What an executor reports of nodes is what the home cluster declares."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.kubernetes.adapters import executor_nodes
from services.kubernetes.adapters.executor_nodes import NodeMirror, ReportedNodes
from services.kubernetes.model.executor_nodes import difference
from shared.kubernetes.api import ApiMissingError, ApiRefusedError
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import trimmed_node
from shared.kubernetes.other_pods import trimmed_other_pod
from tests.support.kubernetes_api import Object, merged
from tests.unit.shared.kubernetes.objects import NOW_US, TRAITS, node
from tests.unit.shared.kubernetes.test_node_reporter import Coplace


class Home:
    """What was reported; it refuses to take some nodes, or to let go of them."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.writes: list[str] = []
        self.refuses: set[str] = set()
        self.taken = asyncio.Event()

    async def nodes(self) -> Sequence[Mapping[str, Any]]:
        return list(self.objects.values())

    async def create_node(self, body: Mapping[str, Any]) -> Object:
        name = body["metadata"]["name"]
        self._write("create", name)
        return self.objects.setdefault(name, dict(body))

    async def patch_node(self, name: str, body: Mapping[str, Any]) -> Object:
        self._write("patch", name)
        self.objects[name] = merged(self.objects[name], body)
        return self.objects[name]

    async def delete_node(self, name: str) -> None:
        self._write("delete", name)
        if self.objects.pop(name, None) is None:
            raise ApiMissingError(name)

    def _write(self, verb: str, name: str) -> None:
        self.writes.append(f"{verb} {name}")
        if name in self.refuses:
            raise ApiRefusedError(f"{name} is invalid")
        self.taken.set()


def seen(name: str, version: str = "1", **labels: str) -> Mapping[str, Any]:
    metadata = {"labels": labels, "resourceVersion": version}
    return trimmed_node(node(name, metadata=metadata), has_labels=True)


def other_pod(name: str, at: str) -> Mapping[str, Any]:
    requests = {"cpu": "1500m", "memory": "1Gi"}
    spec = {"nodeName": at, "containers": [{"resources": {"requests": requests}}]}
    return trimmed_other_pod({"metadata": {"name": name, "uid": name}, "spec": spec})


async def test_nodes_are_reported_once_and_changed_where_they_changed() -> None:
    home = Home()
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen("n1", zone="a"), seen("n2")])
    await mirror.report()
    mirror.changed("beta", seen("n1", "2", zone="a"))  # its kubelet has written
    await mirror.report()
    assert home.writes == ["create n1", "create n2"]
    mirror.changed("beta", seen("n1", "3", rack="7"))
    mirror.deleted("beta", seen("n2"))
    await mirror.report()
    assert home.writes[2:] == ["patch n1", "delete n2"]
    assert home.objects["n1"]["spec"]["node"]["metadata"]["labels"] == {"rack": "7"}


async def test_all_nodes_are_reported_once_the_last_one_is() -> None:
    home = Home()
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen("n1"), seen("n2")])
    assert not mirror.reported.is_set()
    await mirror.report()
    assert (mirror.reported.is_set(), len(home.objects)) == (True, 2)


async def test_a_node_that_the_home_cluster_never_takes_does_not_silence_the_executor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = Home()
    home.refuses = {"n1"}
    monkeypatch.setattr(executor_nodes, "_SETTLE_S", 0)
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen("n1")])
    running = asyncio.create_task(mirror.run())
    await asyncio.wait_for(mirror.reported.wait(), 5)
    running.cancel()


async def test_nodes_that_the_home_cluster_refuses_keep_no_others_from_being_reported() -> None:
    home = Home()
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen(name) for name in ("n1", "n2", "n4", "n5")])
    await mirror.report()
    home.refuses, home.writes = {"n1", "n3", "n5"}, []
    mirror.replace("beta", [seen(name, rack="7") for name in ("n1", "n2", "n3", "n4")])
    with capture_logs() as logs:
        await mirror.report()
    assert home.writes == ["patch n1", "patch n2", "create n3", "patch n4", "delete n5"]
    [refused] = logs
    assert (refused["nodes"], refused["count"]) == ("n1, n3, n5", 3)
    assert refused["problem"] == "n1 is invalid"
    assert mirror.reported.is_set()


async def test_a_node_that_was_refused_is_tried_again_once_it_changed_or_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = Home()
    home.refuses = {"n1"}
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen("n1")])
    with capture_logs() as logs:
        for _ in range(3):
            await mirror.report()
    assert (home.writes, len(logs)) == (["create n1"], 1)
    mirror.changed("beta", seen("n1", "2", rack="7"))
    await mirror.report()
    assert len(home.writes) == 2
    monkeypatch.setattr(executor_nodes, "_SETTLE_S", 0)
    monkeypatch.setattr(executor_nodes, "_REFUSED_RETRY_S", 0)
    running = asyncio.create_task(mirror.run())
    home.refuses = set()
    await asyncio.wait_for(home.taken.wait(), 5)
    running.cancel()


async def test_a_process_that_begins_anew_writes_what_is_other_alone() -> None:
    home = Home()
    first = NodeMirror(home)
    first.replace("beta", [seen("n1"), seen("n2"), seen("n3")])
    await first.report()
    mirror = NodeMirror(home)
    mirror.replace("beta", [seen("n1"), seen("n2", gpu="yes")])
    await mirror.report()
    assert home.writes[3:] == ["patch n2", "delete n3"]
    del home.objects["n2"]
    mirror.replace("beta", [seen("n1")])
    await mirror.report()
    assert list(home.objects) == ["n1"]


async def test_the_home_cluster_declares_what_was_reported() -> None:
    home, coplace = Home(), Coplace()
    mirror = NodeMirror(home)
    mirror.others.changed("beta", other_pod("p", "n1"))
    mirror.replace("beta", [seen("n1"), seen("n2")])
    await mirror.report()
    reporter = NodeReporter(TRAITS, coplace, coplace, lambda: NOW_US)
    nodes = ReportedNodes(reporter)
    nodes.replace("beta", [])  # its executor has not begun
    nodes.replace("beta", list(home.objects.values()))
    await reporter.declare()
    declared = coplace.events[0].cluster_declared
    assert (declared.nodes, declared.cores_per_node) == (2, 36)
    assert {each.millicores_per_node for each in declared.node_classes} == {34_500, 0}
    mirror.deleted("beta", seen("n2"))
    mirror.others.deleted("beta", other_pod("p", "n1"))
    gone = home.objects["n2"]
    await mirror.report()
    nodes.deleted("beta", gone)
    nodes.changed("beta", home.objects["n1"])
    await reporter.publish_out()
    await reporter.declare()
    assert coplace.events[1].nodes_drained.reason == "the node was deleted"
    assert not coplace.events[2].cluster_declared.node_classes[0].millicores_per_node


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}),
        ({"a": {"b": 1}}, {"a": 1}),
        ({"a": [1]}, {"a": [1, {"b": 2}]}),
    ],
)
def test_a_difference_makes_one_object_of_another(before: Object, after: Object) -> None:
    assert merged(before, difference(before, after)) == after
    assert not difference(after, after)
