"""Gangs start whole: each part on nodes of its own, which have what it needs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product
from math import ceil

from coplace.v1.control_pb2 import ClusterDeclared, NodeClass
from coplace.v1.jobs_pb2 import JobSubmitted, Part
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from tests.chaos.asks import nodes_of
from tests.chaos.audit.declared import Declared
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.places import allowed, names_of


def as_job(job: JobSubmitted, part: Part) -> JobSubmitted:
    """What a part asks of its nodes, as a job would: what it does not say is said of the whole."""
    return JobSubmitted(
        partitions=part.partitions or job.partitions,
        features=part.features or job.features,
        nodes_wanted=part.nodes_wanted,
        nodes_excluded=part.nodes_excluded or job.nodes_excluded,
        clusters=job.clusters,
        walltime_s=job.walltime_s,
    )


def places_of(
    cluster: ClusterDeclared, job: JobSubmitted, part: Part, *, up: bool
) -> list[set[int]]:
    """The nodes, by index, on which a part may be: of each of its partitions those that have what
    its units on one node need."""
    classes = list(cluster.node_classes) or [
        NodeClass(nodes=cluster.nodes, memory_gib=cluster.memory_gib_per_node)
    ]
    nodes = [each for each in classes for _ in range(each.nodes)]
    units = min(part.units, max(1, part.units_per_node))
    big = {n for n, node in enumerate(nodes) if _has(node, part, units, cluster.cores_per_node)}
    asked = allowed(as_job(job, part), cluster, nodes_of(part), up=up)
    return [there & big for there in asked]


def holds_gang(cluster: ClusterDeclared, job: JobSubmitted) -> bool:
    """Whether all parts fit at once on the empty cluster: by trying, node by node."""
    places = [places_of(cluster, job, part, up=False) for part in job.parts]
    counts = [nodes_of(part) for part in job.parts]
    return any(_matches(chosen, counts) for chosen in product(*places))


def every_gang_starts_whole(evidence: Evidence) -> Iterator[str]:
    """By what its cluster is declared to have in the round of the decision."""
    declared = Declared()
    for ended in evidence.ends_of_rounds(declared.learn):
        for decided in evidence.by_round.get(ended.round, []):
            job = evidence.world.journal.submission(decided.job_id)
            cluster = declared.clusters.get(decided.cluster)
            if decided.verdict != VERDICT_START or job is None or is_hostile(decided.job_id):
                continue
            if job.parts and cluster is not None:
                of = f"{decided.job_id} in round {decided.round}"
                yield from (f"{of}: {problem}" for problem in _wrong(decided, job, cluster))


def every_gang_runs_whole(evidence: Evidence) -> Iterator[str]:
    """On the nodes of its decision, all of them."""
    names = {
        (decided.job_id, decided.attempt, decided.grant): len(decided.node_indices)
        for starts in evidence.starts.values()
        for decided in starts
        if decided.parts
    }
    for run in evidence.world.journal.runs:
        count = names.get((run.job_id, run.attempt, run.grant))
        if count is not None and count != len({*run.nodes}):
            yield f"{run.job_id} runs on {len(run.nodes)} of {count} nodes"


def _wrong(decided: PlacementDecided, job: JobSubmitted, cluster: ClusterDeclared) -> Iterator[str]:
    taken = [node for part in decided.parts for node in part.node_indices]
    if sorted(taken) != sorted(decided.node_indices) or len({*taken}) != len(taken):
        yield f"has nodes {list(decided.node_indices)}, its parts {taken}"
    if len(decided.parts) != len(job.parts):
        yield f"starts with {len(decided.parts)} of {len(job.parts)} parts"
        return
    if decided.cores_per_node != cluster.cores_per_node or any(n != 1 for n in decided.node_units):
        yield f"has {decided.cores_per_node} cores, {decided.node_units} units a node"
    for number, (placed, part) in enumerate(zip(decided.parts, job.parts, strict=True)):
        got = {*placed.node_indices}
        if len(got) != nodes_of(part):
            yield f"part {number} has {len(got)} of {nodes_of(part)} nodes"
        if not any(got <= there for there in places_of(cluster, job, part, up=True)):
            yield f"part {number} is on {sorted(got)} of {cluster.cluster}: {part}"
        if not {*part.nodes_wanted} <= {names_of(cluster)[node] for node in got}:
            yield f"part {number} is without a node that it wants"


def _has(node: NodeClass, part: Part, units: int, cores: int) -> bool:
    """Whether a node has what so many units of a part need together."""
    room: Mapping[str, int] = node.resources
    memory_mib = units * ceil(part.memory_gib_per_unit * 1024)
    return (
        units * max(1, part.cores_per_unit) <= cores
        and (not node.memory_gib or memory_mib <= ceil(node.memory_gib * 1024))
        and all(units * n <= room.get(name, 0) for name, n in part.resources_per_unit.items())
    )


def _matches(places: Sequence[Collection[int]], counts: Sequence[int]) -> bool:
    """Whether each part gets so many nodes of its places, none of them twice: by Kuhn's method."""
    slots = [places[number] for number, count in enumerate(counts) for _ in range(count)]
    owner: dict[int, int] = {}

    def gives(slot: int, seen: set[int]) -> bool:
        for node in slots[slot]:
            if node not in seen:
                seen.add(node)
                if node not in owner or gives(owner[node], seen):
                    owner[node] = slot
                    return True
        return False

    return all(gives(slot, set()) for slot in range(len(slots)))
