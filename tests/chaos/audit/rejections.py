"""A rejection is final, and right: worked out from what was declared, node by node."""

from collections.abc import Collection, Iterator, Mapping
from math import ceil

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    NodeClass,
)
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import (
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
)
from coplace.v1.placement_service_pb2 import JOB_STANDING_HELD, JOB_STANDING_WAITING

from tests.chaos.audit.decisions import UNLESS_HOSTILE
from tests.chaos.audit.declared import Declared
from tests.chaos.audit.evidence import Evidence, is_hostile
from tests.chaos.audit.gangs import holds_gang
from tests.chaos.audit.interactive import is_too_late
from tests.chaos.places import allowed, has_wishes, names_of

_MIB_PER_GIB = 1024
_MANY = 1 << 40


def no_rejected_job_starts(evidence: Evidence) -> Iterator[str]:
    """Nothing is decided to start of an attempt that was rejected."""
    rejected: dict[tuple[str, int], int] = {}
    for decided in evidence.decisions:
        key = decided.job_id, decided.attempt
        if decided.verdict == VERDICT_REJECTED:
            rejected.setdefault(key, decided.round)
        elif decided.verdict == VERDICT_START and key in rejected:
            yield f"{key} starts in round {decided.round}, and was rejected in {rejected[key]}"


def no_job_is_rejected_that_a_cluster_could_hold(evidence: Evidence) -> Iterator[str]:
    """Where a job was rejected no declared cluster could hold it, and none was lost that might come
    back with more."""
    rejected: dict[int, list[str]] = {}
    for decided in evidence.decisions:
        is_rejected = decided.verdict == VERDICT_REJECTED and not is_too_late(decided)
        if is_rejected and not is_hostile(decided.job_id):
            rejected.setdefault(decided.round, []).append(decided.job_id)
    declared = Declared()
    for ended in evidence.ends_of_rounds(declared.learn):
        for job_id in rejected.get(ended.round, []):
            job = _submission(evidence, job_id)
            if problem := _wrong(job, declared.clusters, declared.lost):
                yield f"{job_id} was rejected in round {ended.round}: {problem}"


def no_job_starts_on_an_undeclared_cluster(evidence: Evidence) -> Iterator[str]:
    """Once placement has read that a cluster is undeclared it decides no start there."""
    declared = Declared()
    for ended in evidence.ends_of_rounds(declared.learn):
        for name in evidence.world.clusters.keys() - declared.clusters.keys():
            for decided in evidence.starts.get((ended.round, name), []):
                yield f"{decided.job_id} starts in round {decided.round} on {name}"


def every_job_that_waits_knows_the_clusters_that_are_there(evidence: Evidence) -> Iterator[str]:
    """At the end each was evaluated for all that are declared, and is held as too large only where
    none of them could hold it."""
    declared = Declared()
    for event in evidence.taken():
        declared.learn(event)
    for job_id, decided in evidence.last_decision.items():
        if decided.verdict not in (VERDICT_QUEUED, VERDICT_HELD) or is_hostile(job_id):
            continue
        answer = evidence.world.explain(job_id)
        if answer is None or answer.standing not in (JOB_STANDING_WAITING, JOB_STANDING_HELD):
            continue
        known = {one.candidate.cluster for one in answer.clusters}
        if known != declared.clusters.keys() and UNLESS_HOSTILE not in answer.reason:
            there = sorted(declared.clusters)
            yield f"{job_id} knows {sorted(known)}, declared are {there}: {answer.reason}"
        job = _submission(evidence, job_id)
        if answer.misfits and any(holds(c, job) for c in declared.clusters.values()):
            yield f"{job_id} is held as too large: {answer.reason}"


def _submission(evidence: Evidence, job_id: str) -> JobSubmitted:
    journal = evidence.world.journal
    return journal.submission(job_id) or journal.own[job_id]


def _wrong(
    job: JobSubmitted, clusters: Mapping[str, ClusterDeclared], lost: Collection[str]
) -> str:
    """Why a job is not to be rejected; empty where it is."""
    if not clusters:
        return "no cluster was declared"
    if job.reference_cluster not in clusters:
        return ""
    if lost:
        return f"{sorted(lost)} were lost"
    return next((f"{name} holds it" for name, c in clusters.items() if holds(c, job)), "")


def holds(cluster: ClusterDeclared, job: JobSubmitted) -> bool:
    """Whether all units of a job, or all parts of a gang, fit on the empty cluster."""
    if job.architectures and cluster.architecture not in job.architectures:
        return False
    if job.shareable and cluster.cores_per_node < 2:
        return False
    if job.clusters and cluster.cluster not in job.clusters:
        return False
    if job.parts:
        return holds_gang(cluster, job)
    alike = NodeClass(nodes=cluster.nodes, memory_gib=cluster.memory_gib_per_node)
    classes = list(cluster.node_classes) or [alike]
    units = _units(job, classes)
    if has_wishes(job, cluster):
        return _holds_where_it_may_be(cluster, job, units, classes)
    if not (job.shareable or job.cores_per_unit or job.memory_gib or _needs_more(job)):
        return units <= cluster.nodes
    cores = job.cores_per_unit or (
        max(1, cluster.cores_per_node // 2) if job.shareable else cluster.cores_per_node
    )
    room = sum(
        each.nodes * _units_on(job, each, units, cluster.cores_per_node // cores, classes)
        for each in classes
    )
    return units <= room


def _holds_where_it_may_be(
    cluster: ClusterDeclared, job: JobSubmitted, units: int, classes: Collection[NodeClass]
) -> bool:
    """Whether all units fit onto the nodes of one of its partitions, with one on each wanted
    node."""
    unit_cores = job.cores_per_unit or (
        max(1, cluster.cores_per_node // 2) if job.shareable else cluster.cores_per_node
    )
    by_cores = cluster.cores_per_node // unit_cores
    is_counted = not (job.shareable or job.cores_per_unit or job.memory_gib or _needs_more(job))
    room = [
        1 if is_counted else _units_on(job, each, units, by_cores, classes)
        for each in classes
        for _ in range(each.nodes)
    ]
    names = names_of(cluster)
    wanted = [names.index(name) for name in job.nodes_wanted if name in names]
    cores = units * job.cores_per_unit
    worth = -(-cores // cluster.cores_per_node) if cores else units
    return any(
        sum(room[node] for node in there) >= units and all(room[node] for node in wanted)
        for there in allowed(job, cluster, worth, up=False)
    )


def no_start_is_where_the_job_may_not_be(evidence: Evidence) -> Iterator[str]:
    """All nodes of a start are of one of the places of its job, as the cluster is declared then,
    those that it wants among them."""
    declared = Declared()
    for ended in evidence.ends_of_rounds(declared.learn):
        for name, cluster in declared.clusters.items():
            for decided in evidence.starts.get((ended.round, name), []):
                if is_hostile(decided.job_id):
                    continue
                job = _submission(evidence, decided.job_id)
                if job.parts or not (has_wishes(job, cluster) or job.clusters):
                    continue
                units = sum(decided.node_units) or len(decided.node_indices)
                cores = job.cores_per_unit * units
                worth = -(-cores // cluster.cores_per_node) if cores else units
                nodes = {*decided.node_indices}
                if not any(nodes <= there for there in allowed(job, cluster, worth, up=True)):
                    yield f"{decided.job_id} starts on {sorted(nodes)} of {name}: {job}"
                names = names_of(cluster)
                if not {*job.nodes_wanted} <= {names[node] for node in nodes}:
                    yield f"{decided.job_id} starts without a node that it wants"


def _needs_more(job: JobSubmitted) -> bool:
    return bool(job.memory_gib_per_unit or job.resources_per_unit)


def _units(job: JobSubmitted, classes: Collection[NodeClass]) -> int:
    """As many as it asked for, or as hold its memory where nodes have most of it."""
    if job.cores_per_unit or not job.memory_gib:
        return job.nodes
    most_gib = max(each.memory_gib for each in classes) / (2 if job.shareable else 1)
    return max(job.nodes, ceil(job.memory_gib / most_gib)) if most_gib else job.nodes


def _units_on(
    job: JobSubmitted, node: NodeClass, units: int, by_cores: int, classes: Collection[NodeClass]
) -> int:
    """How many units go onto an empty node."""
    room = [by_cores]
    need_mib = ceil(job.memory_gib_per_unit * _MIB_PER_GIB)
    if job.memory_gib:
        need_mib = ceil(job.memory_gib / units * _MIB_PER_GIB)
    elif not need_mib and job.shareable and not job.cores_per_unit:
        need_mib = ceil(min(each.memory_gib for each in classes) * _MIB_PER_GIB) // 2
    if need_mib:
        has_mib = ceil(node.memory_gib * _MIB_PER_GIB) if node.memory_gib else _MANY
        room.append(has_mib // need_mib)
    room += [node.resources.get(name, 0) // n for name, n in job.resources_per_unit.items()]
    most = (job.units_per_node or _MANY) if job.cores_per_unit else 1
    return min(*room, most)
