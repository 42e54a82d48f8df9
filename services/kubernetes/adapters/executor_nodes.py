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
# What the home cluster refuses is tried again when it changes, and so often.
_REFUSED_RETRY_S: Final = 60.0
_MOST_NAMED: Final = 5

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
        # What was refused of which node, None: that it was deleted; and why.
        self._refused: dict[str, tuple[_Object | None, str]] = {}
        self._again: asyncio.TimerHandle | None = None
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
            if self._refused and self._again is None:
                loop = asyncio.get_running_loop()
                self._again = loop.call_later(_REFUSED_RETRY_S, self._try_refused_again)

    def _try_refused_again(self) -> None:
        self._again = None
        self._refused.clear()
        self._changed.set()

    async def report(self) -> None:
        """Make the home cluster have what the nodes are. Those that it refuses keep no others from
        being reported. Raises ApiError where it does not answer, or has other nodes by now."""
        if self._said is None:
            found = await self._home.nodes()
            self._said = {node_name(each): mapping_of(each.get("spec")) for each in found}
        taken, before = self.others.by_node(), self._refused
        names = [*self._nodes, *(self._said.keys() - self._nodes.keys())]
        self._refused = {name: before[name] for name in names if name in before}
        for name in names:
            node = self._nodes.get(name)
            spec = node_spec(node, taken.get(name, {})) if node is not None else None
            await self._say(name, spec, self._said)
        if self._refused != before:
            self._log_refused()
        self.reported.set()

    async def _say(self, name: str, spec: _Object | None, said: dict[str, _Object]) -> None:
        """Report a node, or that it was deleted, unless that was refused a moment ago."""
        if name in self._refused and self._refused[name][0] == spec:
            return
        self._refused.pop(name, None)
        try:
            await self._write(name, spec, said)
        except ApiRefusedError as error:
            self._refused[name] = spec, str(error)

    async def _write(self, name: str, spec: _Object | None, said: dict[str, _Object]) -> None:
        if spec is None:
            if name in said:
                await self._delete(name, said)
        elif name not in said:
            await self._home.create_node(node_body(spec))
            said[name] = spec
        elif changed := difference(said[name], spec):
            await self._home.patch_node(name, {"spec": changed})
            said[name] = spec

    async def _delete(self, name: str, said: dict[str, _Object]) -> None:
        try:
            await self._home.delete_node(name)
        except ApiMissingError:
            log.info("was deleted", node=name)
        del said[name]

    def _log_refused(self) -> None:
        names = sorted(self._refused)
        if names:
            problem, named = self._refused[names[0]][1], ", ".join(names[:_MOST_NAMED])
            log.error("nodes refused", nodes=named, count=len(names), problem=problem)
