"""Nodes of a cluster that has an executor: reported there, and read in the home cluster."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from services.kubernetes.model.bodies import Body
from services.kubernetes.model.executor_nodes import (
    difference,
    node_body,
    node_of,
    node_spec,
    others_of,
)
from shared.kubernetes.api import ApiError, ApiMissingError, ApiRefusedError
from shared.kubernetes.node_reporter import NodeReporter
from shared.kubernetes.nodes import node_name
from shared.kubernetes.objects import mapping_of
from shared.kubernetes.other_pods import OtherPods

# Nodes that change together are reported together.
_SETTLE_S: Final = 1.0
_RETRY_S: Final = 10.0

log = structlog.get_logger(__name__)
_Object = Mapping[str, Any]


class ReportedNodes:
    """Passes on what an executor reports of its nodes."""

    def __init__(self, reporter: NodeReporter) -> None:
        self._reporter = reporter

    def replace(self, cluster: str, found: Sequence[_Object]) -> None:
        """Pass on all nodes. None make no cluster: its executor has not begun."""
        if not found:
            return
        self._reporter.others.replace(cluster, [others_of(each) for each in found])
        self._reporter.replace(cluster, [node_of(each) for each in found])

    def changed(self, cluster: str, found: _Object) -> None:
        """Pass on a node that is new, or has changed."""
        self._reporter.others.changed(cluster, others_of(found))
        self._reporter.changed(cluster, node_of(found))

    def deleted(self, cluster: str, found: _Object) -> None:
        """Pass on that a node is not there any more."""
        self._reporter.others.deleted(cluster, others_of(found))
        self._reporter.deleted(cluster, node_of(found))


class NodesApi(Protocol):
    """What of the home cluster is needed; `HomeServer` has it."""

    async def nodes(self) -> Sequence[_Object]: ...
    async def create_node(self, body: Body) -> _Object: ...
    async def patch_node(self, name: str, body: Body) -> _Object: ...
    async def delete_node(self, name: str) -> None: ...


class NodeMirror:
    """Keeps in the home cluster what the nodes of an executor's cluster are."""

    def __init__(self, home: NodesApi) -> None:
        self._home = home
        self._nodes: dict[str, _Object] = {}
        self._said: dict[str, _Object] | None = None
        self._changed = asyncio.Event()
        self.others = OtherPods(self._changed.set)
        """What pods of others have taken of nodes."""
        self.reported = asyncio.Event()
        """Set once all nodes were reported, or the home cluster never takes one of them."""

    def replace(self, cluster: str, found: Sequence[_Object]) -> None:
        """Replace what is known by a list of all nodes."""
        self._nodes = {node_name(each): each for each in found}
        self._changed.set()

    def changed(self, cluster: str, found: _Object) -> None:
        """Note that a node is new, or has changed."""
        self._nodes[node_name(found)] = found
        self._changed.set()

    def deleted(self, cluster: str, found: _Object) -> None:
        """Note that a node was deleted."""
        self._nodes.pop(node_name(found), None)
        self._changed.set()

    async def run(self) -> None:
        """Report what changes, until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLE_S)
            self._changed.clear()
            try:
                await self.report()
            except ApiError as error:
                log.warning("nodes not reported", problem=str(error))
                if isinstance(error, ApiRefusedError):
                    self.reported.set()
                self._said = None  # a write may have been done that was not answered
                self._changed.set()
                await asyncio.sleep(_RETRY_S)

    async def report(self) -> None:
        """Make the home cluster have what the nodes are. Raises ApiError."""
        if self._said is None:
            found = await self._home.nodes()
            self._said = {node_name(each): mapping_of(each.get("spec")) for each in found}
        taken = self.others.by_node()
        for name, node in list(self._nodes.items()):
            await self._say(name, node_spec(node, taken.get(name, {})), self._said)
        for name in self._said.keys() - self._nodes.keys():
            try:
                await self._home.delete_node(name)
            except ApiMissingError:
                log.info("was deleted", node=name)
            del self._said[name]
        self.reported.set()

    async def _say(self, name: str, spec: _Object, said: dict[str, _Object]) -> None:
        if name not in said:
            await self._home.create_node(node_body(spec))
        elif changed := difference(said[name], spec):
            await self._home.patch_node(name, {"spec": changed})
        said[name] = spec
