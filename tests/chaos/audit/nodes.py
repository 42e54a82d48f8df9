"""Drained nodes take no jobs: worked out word by word from what was published of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterUndeclared,
    NodesDrained,
    NodesResumed,
    RoundEnded,
)

from shared.catalogue.event import Event
from shared.domain.hostlist import expand
from shared.domain.node import node_name
from shared.placement.state.announcements import SOURCE
from tests.chaos.audit.declared import Declared, Stamp
from tests.chaos.audit.evidence import Evidence, events_of


def no_job_starts_on_a_drained_node(evidence: Evidence) -> Iterator[str]:
    """By operators' words, and by those of placement itself."""
    own, words, declared = own_drains(evidence), Words(), Declared()
    for ended in evidence.ends_of_rounds(declared.learn, words.learn):
        words.set_back(ended.ended_at_us)
        for said in own.get(ended.ended_at_us, []):
            words.learn(said)
        yield from _misplaced(evidence, words, declared, ended)


def own_drains(evidence: Evidence) -> dict[int, list[Event]]:
    """What placement said itself of nodes that are drained, by the end of the round in which it
    did."""
    own: dict[int, list[Event]] = {}
    for event in events_of(evidence.world.log, evidence.world.codec, "placement.decisions"):
        if isinstance(event.payload, NodesDrained):
            own.setdefault(event.time_us, []).append(event)
    return own


def _misplaced(
    evidence: Evidence, words: "Words", declared: Declared, ended: RoundEnded
) -> Iterator[str]:
    for name, cluster in declared.clusters.items():
        names = names_of(cluster)
        words.forget(name, names)
        for decided in evidence.starts.get((ended.round, name), []):
            for index in decided.node_indices:
                if words.drains(name, names[index], ended.ended_at_us):
                    yield f"{decided.job_id} starts in round {ended.round} on {names[index]}"


def names_of(cluster: ClusterDeclared) -> list[str]:
    """The names of a cluster's nodes, by index."""
    listed = expand(",".join(cluster.node_names)) if cluster.node_names else []
    return listed or [node_name(cluster.cluster, index) for index in range(cluster.nodes)]


@dataclass(slots=True)
class _Word:
    """Somebody drained or resumed a node, or all of a cluster."""

    stamp: Stamp
    node: str
    is_drain: bool
    until_us: int
    is_own: bool


@dataclass(slots=True)
class Words:
    """What was said of the nodes of each cluster; of all of them where the name is empty."""

    _said: dict[str, list[_Word]] = field(default_factory=dict)
    _declared: dict[str, Stamp] = field(default_factory=dict)
    _undeclared: dict[str, Stamp] = field(default_factory=dict)

    def learn(self, event: Event) -> None:
        """One more."""
        told = event.payload
        if isinstance(told, ClusterDeclared | ClusterUndeclared):
            self._declare(told, (event.time_us, event.id))
        if not isinstance(told, NodesDrained | NodesResumed):
            return
        until_us = told.until_us if isinstance(told, NodesDrained) else 0
        for node in expand(",".join(told.nodes)) if told.nodes else [""]:
            stamp, is_own = (event.time_us, event.id), event.source == SOURCE
            if stamp <= self._undeclared.get(told.cluster, (0, "")):
                continue  # a copy of what was said before
            word = _Word(stamp, node, isinstance(told, NodesDrained), until_us, is_own)
            self._said.setdefault(told.cluster, []).append(word)

    def _declare(self, told: ClusterDeclared | ClusterUndeclared, stamp: Stamp) -> None:
        """What is undeclared is forgotten, but a copy that comes late unsays nothing newer. What
        placement said before it is older whatever clock it was said by."""
        is_newest = stamp > self._declared.get(told.cluster, (0, ""))
        self._declared[told.cluster] = max(stamp, self._declared.get(told.cluster, stamp))
        if isinstance(told, ClusterUndeclared):
            self._undeclared[told.cluster] = max(stamp, self._undeclared.get(told.cluster, stamp))
            said = self._said.get(told.cluster, [])
            self._said[told.cluster] = [
                word for word in said if word.stamp > stamp and not (word.is_own and is_newest)
            ]

    def set_back(self, ended_us: int) -> None:
        """What placement said by a clock that was ahead it said by now at the latest."""
        for word in (word for said in self._said.values() for word in said):
            if word.is_own and word.stamp[0] > ended_us:
                word.stamp = ended_us, word.stamp[1]

    def forget(self, cluster: str, names: list[str]) -> None:
        """Nodes that the cluster is declared without are forgotten."""
        said = self._said.get(cluster, [])
        self._said[cluster] = [word for word in said if word.node in ("", *names)]

    def drains(self, cluster: str, node: str, now_us: int) -> bool:
        """Whether the words, in their order, leave the node drained by its own or the cluster's."""
        own = whole = None
        for word in sorted(self._said.get(cluster, []), key=lambda word: word.stamp):
            if word.node == "" and word.is_drain:
                whole = word
            elif word.node == "":
                own = whole = None
            elif word.node == node:
                own, whole = (word, whole) if word.is_drain else (None, None)
        found = [word for word in (own, whole) if word is not None]
        return any(not word.until_us or word.until_us > now_us for word in found)
