"""Publishes what the nodes of a cluster are, and which of them take no pods."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import ShowNodesResponse

from coplace_client.errors import UnusableError
from shared.catalogue.contents.check import check_contents
from shared.domain.drains import drain_changes
from shared.domain.hostlist import expand
from shared.kubernetes.facts import FactTaker
from shared.kubernetes.node_terms import terms_of
from shared.kubernetes.nodes import (
    NodeTraits,
    age_of,
    cluster_declared,
    declaration,
    drain,
    hostname,
    is_worker,
    node_name,
    require_readable,
    resumption,
    why_out,
)
from shared.kubernetes.objects import mapping_of
from shared.kubernetes.other_pods import OtherPods
from shared.kubernetes.packed import PackedObjects, pack, unpack
from shared.kubernetes.tolerations import Tolerations

# Nodes that change together are published together.
_SETTLE_S: Final = 1.0
_REFUSED_RETRY_S: Final = 60.0
_OTHERS_EVERY_S: Final = 10.0
_GONE: Final = "the node was deleted"

log = structlog.get_logger(__name__)
_Node = Mapping[str, Any]


class NodesKnown(Protocol):
    """The source of the states of nodes: placement."""

    async def nodes(self, cluster: str) -> ShowNodesResponse: ...


class NodeReporter:
    """Of one cluster. A node that was removed keeps its index until this process starts anew, as
    one that is out; one that comes has the next. Of labels and taints those are declared which jobs
    have `asked` for."""

    def __init__(
        self,
        traits: NodeTraits,
        facts: FactTaker,
        placement: NodesKnown,
        now_us: Callable[[], int],
        odd: Callable[[str], object] = str,
        asked: Callable[[], Iterable[JobSubmitted]] = tuple,
    ) -> None:
        self._odd, self._asked = odd, asked
        self._traits, self._facts, self._placement = traits, facts, placement
        self._now_us, self._source = now_us, f"{traits.site}/{traits.cluster}"
        self._there: dict[str, bytes] = {}
        self._known: dict[str, bytes] = {}
        self._declared: ClusterDeclared | None = None
        self._out: dict[str, str] | None = None
        self._tolerated: frozenset[Tolerations] = frozenset()
        self._offered: frozenset[str] = frozenset()
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self.declared = asyncio.Event()
        """Set once the cluster was declared."""
        self.hostnames: Mapping[str, str] = {}
        """The nodes of the cluster, by name, each with the label by which pods ask for it."""
        self.others = OtherPods(self._take_later)
        """What pods that Coplace does not start have taken of nodes."""

    @property
    def declaration(self) -> ClusterDeclared | None:
        """Return what was declared last; None where nothing was yet."""
        return self._declared

    @property
    def has_nodes(self) -> bool:
        """Return whether nodes are known now: without any there is no cluster to declare."""
        return bool(self._there)

    def replace(self, cluster: str, found: Sequence[_Node]) -> None:
        """Replace what is known by a list of all nodes."""
        self._there = {node_name(node): pack(node) for node in found if self._is_readable(node)}
        self._changed.set()

    def changed(self, cluster: str, found: _Node) -> None:
        """Note that a node is new, or has changed in what is read of it: each kubelet writes every
        few minutes that it lives."""
        if not self._is_readable(found):
            return
        name, packed = node_name(found), pack(found)
        if self._there.get(name) != packed:
            self._there[name] = packed
            self._changed.set()

    def deleted(self, cluster: str, found: _Node) -> None:
        """Note that a node is no longer listed."""
        self._there.pop(str(mapping_of(mapping_of(found).get("metadata")).get("name")), None)
        self._changed.set()

    def _is_readable(self, node: _Node) -> bool:
        """Whether a node can be read and declared: another one is left out, and the rest is
        declared."""
        try:
            require_readable(node)
            check_contents(cluster_declared([node], self._traits))
        except Exception as error:  # noqa: BLE001 no node may hold up the others
            log.error("node left out", cluster=self._traits.cluster, problem=str(error))
            self._odd(self._traits.cluster)
            return False
        return True

    async def declare(self) -> None:
        """Declare the cluster, where it changed. Raises UnusableError where its nodes make no
        cluster."""
        async with self._one_at_a_time:
            # One after the other: messages of thousands of jobs fill a memory.
            wanted = {(each.features, *each.partitions) for each in self._asked()}
            terms = {term for features, *_ in wanted for term in terms_of(features)}
            partitions = {each for _, *names in wanted for each in names}
            self._tolerated = frozenset(filter(None, map(Tolerations.parse, partitions)))
            self._known |= {name: self._there[name] for name in self._parts()}
            nodes = PackedObjects(list(self._known.values()))
            self.hostnames = {node_name(node): hostname(node) for node in nodes}
            taken = self.others.by_node()
            found = cluster_declared(nodes, self._traits, terms, self._tolerated, taken)
            if found != self._declared:
                await self._facts.tell(declaration(found, self._source, self._now_us()))
                log.info("declared", cluster=found.cluster, nodes=found.nodes)
                self._declared = found
            self._offered = frozenset({*map(str, terms), *partitions})
            self.declared.set()

    async def offer(self, asked: JobSubmitted) -> None:
        """Declare what a job asks for that is among those that were `asked`. Raises UnusableError
        where the nodes make no cluster."""
        if not _wants(asked) <= self._offered:
            await self.declare()
            self._changed.set()

    async def publish_out(self) -> None:
        """Drain what takes no pods, and resume what is back and was drained here."""
        now_out = {name: why for name in self._known if (why := self._why_out(name))}
        if now_out == self._out:
            return
        drained, back = drain_changes(now_out, await self._drained_by(), self._source)
        for reason, names in drained.items():
            told = drain(self._traits.cluster, names, reason, self._source, self._now_us())
            await self._facts.tell(told)
        if back:
            await self._facts.tell(
                resumption(self._traits.cluster, back, self._source, self._now_us())
            )
        self._out = now_out

    def _take_later(self) -> None:
        """Declare what others have taken within a while: pods come and go all the time."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_OTHERS_EVERY_S, self._take)

    def _take(self) -> None:
        self._later = None
        self._changed.set()

    async def run(self) -> None:
        """Publish what changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(_SETTLE_S)
            is_done = [await self._tried(each) for each in (self.declare, self.publish_out)]
            if not all(is_done):
                await asyncio.sleep(_REFUSED_RETRY_S)
                self._changed.set()

    async def _tried(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Whether a step succeeds; where the cluster cannot be declared its nodes are drained."""
        try:
            await step()
        except UnusableError as error:
            log.error("nodes not reported", cluster=self._traits.cluster, problem=str(error))
            return False
        return True

    def _parts(self) -> list[str]:
        """The nodes of the cluster that are there, the oldest first."""
        there = map(unpack, self._there.values())
        return [name for _, name in sorted(age_of(node) for node in there if self._is_part(node))]

    def _is_part(self, node: _Node) -> bool:
        return is_worker(node, self._tolerated) or node_name(node) in self._known

    def _why_out(self, name: str) -> str:
        packed = self._there.get(name)
        if packed is None:
            return _GONE
        node = unpack(packed)
        return why_out(node) if is_worker(node, self._tolerated) else "tainted in Kubernetes"

    async def _drained_by(self) -> dict[str, str]:
        """Who drained the nodes that are drained, by their names."""
        standing = await self._placement.nodes(self._traits.cluster)
        return {
            name: group.drained_by
            for group in standing.groups
            for name in _names(group.nodes)
            if group.drained_by
        }


def _wants(asked: JobSubmitted) -> frozenset[str]:
    """The features and partitions that it names."""
    return frozenset({*map(str, terms_of(asked.features)), *asked.partitions})


def _names(host_lists: Iterable[str]) -> Iterable[str]:
    return (name for each in host_lists for name in expand(each))
