"""What resource managers refused jobs when they declined starts: it is not granted again until
something changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from coplace.v1.jobs_pb2 import (
    REFUSED_KIND_PARTITION,
    REFUSED_KIND_UNSPECIFIED,
    JobDeclined,
    RefusedKind,
)

from coplace_client.errors import RejectedError
from shared.domain.job import Job
from shared.domain.node import NodeNames
from shared.placement.state.job_allocation import nodes_of, runs_of
from shared.scheduling.eligibility import NOTHING_REFUSED, NodeBits, RefusedToJob, node_set

# Partitions, features and reservations that a job was refused on one cluster; of more, the oldest
# are dropped.
_MOST_THINGS: Final = 16
_KINDS: Final[Mapping[int, str]] = {
    number: name.removeprefix("REFUSED_KIND_").lower() for name, number in RefusedKind.items()
}


@dataclass(frozen=True, slots=True)
class RefusedThing:
    """What a job can't have on any node of a cluster: its kind and its name."""

    kind: int
    name: str

    @property
    def words(self) -> str:
        """Return it as people say it."""
        return f"{_KINDS[self.kind]} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Declined:
    """What the resource manager of a cluster refused a job: nodes, as runs of indices, and
    things."""

    cluster: str
    nodes: tuple[int, ...] = ()
    things: tuple[RefusedThing, ...] = ()

    @property
    def closes(self) -> RefusedThing | None:
        """Return the thing without which the job has no place on the cluster; None where there is
        none: it may be in other partitions."""
        return next((each for each in self.things if each.kind != REFUSED_KIND_PARTITION), None)

    @property
    def words(self) -> str:
        """Return what was refused, as people say it."""
        count = sum(self.nodes[1::2])
        nodes = [f"{count} node{'s' * (count > 1)}"] if count else []
        return ", ".join([*(each.words for each in self.things), *nodes])

    @property
    def refused(self) -> RefusedToJob:
        """Return the nodes and partitions that were refused, as the scheduler takes them."""
        partitions = [each.name for each in self.things if each.kind == REFUSED_KIND_PARTITION]
        return RefusedToJob(node_set(nodes_of(self.nodes)), tuple(partitions))


def refused_to(declined: Declined | None) -> RefusedToJob:
    """Return what was refused, as the scheduler takes it."""
    return NOTHING_REFUSED if declined is None else declined.refused


def refused_outside(refused: RefusedToJob, name: str, nodes: NodeBits) -> RefusedToJob:
    """Return what a job may not have that runs on these nodes of a reservation alone."""
    return refused._replace(nodes=refused.nodes | ~nodes, reservation=name)


def refused_nodes(message: JobDeclined, names: NodeNames) -> frozenset[int]:
    """Return the nodes that a decline names; none where it names one that the cluster has not: the
    start is declined all the same."""
    try:
        return frozenset(names.indices(message.refused_nodes))
    except RejectedError:
        return frozenset()


def declined_words(job: Job, message: JobDeclined) -> tuple[str, str]:
    """Return the kind and the name of what a decline refused, as far as it says: else what the job
    asks for, which is the likely cause."""
    if message.refused_kind != REFUSED_KIND_UNSPECIFIED:
        return _KINDS[message.refused_kind], message.refused_name
    if job.partitions:
        return "partition", ",".join(job.partitions)
    if job.features:
        return "feature", job.features
    return ("nodes", "") if message.refused_nodes else ("unknown", "")


def with_declined(
    before: Sequence[Declined],
    message: JobDeclined,
    cluster: str,
    granted: Sequence[int],
    names: NodeNames,
) -> tuple[Declined, ...]:
    """Return what a job was refused so far, with what a decline adds: those of its `granted` nodes
    that it names, and a thing."""
    known = next((each for each in before if each.cluster == cluster), Declined(cluster))
    nodes, things = known.nodes, known.things
    refused = refused_nodes(message, names).intersection(granted)
    if refused:
        nodes = tuple(runs_of(sorted(refused.union(nodes_of(nodes)))))
    if message.refused_kind != REFUSED_KIND_UNSPECIFIED:
        thing = RefusedThing(message.refused_kind, message.refused_name)
        things = (*(each for each in things if each != thing), thing)[-_MOST_THINGS:]
    others = tuple(each for each in before if each.cluster != cluster)
    return (*others, Declined(cluster, nodes, things)) if nodes or things else others


def without_nodes(
    declined: Iterable[Declined], cluster: str, changed: Iterable[int] | None
) -> tuple[Declined, ...]:
    """Return what a job was refused but for these nodes of a cluster, whose state changed; None:
    that of all its nodes did."""
    found: list[Declined] = []
    for each in declined:
        kept = each
        if each.cluster == cluster:
            left = [] if changed is None else sorted({*nodes_of(each.nodes)}.difference(changed))
            kept = replace(each, nodes=tuple(runs_of(left)))
        if kept.nodes or kept.things:
            found.append(kept)
    return tuple(found)
