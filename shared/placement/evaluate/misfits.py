"""Why a cluster can never run a job: what it would have to have."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from coplace.v1.placement_pb2 import (
    MISFIT_KIND_ARCHITECTURE,
    MISFIT_KIND_CLUSTER,
    MISFIT_KIND_CORES,
    MISFIT_KIND_FEATURE,
    MISFIT_KIND_MEMORY,
    MISFIT_KIND_NAMED_NODES,
    MISFIT_KIND_NODES,
    MISFIT_KIND_NOT_DECLARED,
    MISFIT_KIND_PARTITION,
    MISFIT_KIND_PARTS,
    MISFIT_KIND_RESOURCE,
    MISFIT_KIND_SHARING,
    MISFIT_KIND_UNITS,
)

from coplace_client.millicores import PER_CORE, cores_text
from shared.domain.cluster import Cluster
from shared.domain.job import Job, jobs_of_parts
from shared.domain.partition import Partition
from shared.placement.state.misfit import Misfit
from shared.scheduling.eligibility import (
    admits,
    is_restricted,
    nodes_named,
    nodes_of_partition,
    nodes_with,
    partitions_of,
    where_on,
)
from shared.scheduling.problem import most_units, nodes_worth

# Characters of what is listed in words: names may be long, and many.
_MOST_LISTED: Final = 80


def misfit(job: Job, cluster: Cluster) -> Misfit | None:
    """Return why a cluster can never run the job; None when it can."""
    name = cluster.name
    if job.clusters and name not in job.clusters:
        asked = ", ".join(job.clusters)[:_MOST_LISTED]
        return Misfit(name, MISFIT_KIND_CLUSTER, f"may run on {asked} alone")
    if not job.runs_on(cluster):
        wanted = " or ".join(job.architectures)[:_MOST_LISTED]
        given = cluster.architecture[:_MOST_LISTED] or "not declared"
        reason = f"has binaries for {wanted}, the cluster's architecture is {given}"
        return Misfit(name, MISFIT_KIND_ARCHITECTURE, reason)
    if job.shareable and cluster.cores_per_node < 2:
        reason = "is to share nodes, and those of the cluster have 1 core"
        return Misfit(name, MISFIT_KIND_SHARING, reason, 2, 1)
    units, most = job.nodes_on(cluster), most_units(job, cluster)
    if units <= most:
        return None
    if job.parts:
        return _of_gang(job, cluster, units, most)
    if is_restricted(job, cluster):
        return _nowhere(job, cluster, units, most)
    return _too_few_units(job, name, units, most) if most else _no_unit_fits(job, cluster)


def _of_gang(job: Job, cluster: Cluster, units: int, most: int) -> Misfit:
    """Return why a cluster can never run all parts of a gang at once: the first part that it can't
    run, or that there are not enough nodes for all."""
    for number, (part, alone) in enumerate(zip(job.parts, jobs_of_parts(job), strict=True)):
        found = misfit(alone, cluster)
        if part.millicores_per_node > cluster.millicores_per_node:
            found = _too_few_cores(part.millicores_per_node, cluster)
        if found is not None:
            return replace(found, reason=f"part {number}: {found.reason}")
    reason = f"needs {units} nodes for its {len(job.parts)} parts at once, {most} fit them"
    return Misfit(cluster.name, MISFIT_KIND_PARTS, reason, units, most)


def misfits(job: Job, clusters: Iterable[Cluster]) -> tuple[Misfit, ...]:
    """Return why none of these clusters can ever run the job; empty when one of them can."""
    found: list[Misfit] = []
    for cluster in clusters:
        problem = misfit(job, cluster)
        if problem is None:
            return ()
        found.append(problem)
    return tuple(found)


def without_reference(job: Job, declared: Mapping[str, Cluster]) -> tuple[Misfit, ...]:
    """Return that the cluster which the job's walltime relates to is not declared; empty when it
    is."""
    name = job.reference_cluster
    if name in declared:
        return ()
    known = ", ".join(declared)
    reason = f"its reference cluster {name[:_MOST_LISTED]} is not declared"
    reason = f"{reason}: declared are {known[:_MOST_LISTED]}"
    return (Misfit(name, MISFIT_KIND_NOT_DECLARED, reason),)


def _nowhere(job: Job, cluster: Cluster, units: int, most: int) -> Misfit:
    """Return what keeps a job from all nodes that it may be on: the first of what it asks for that
    leaves too few."""
    nodes = nodes_worth(job, cluster, units)
    admitting = [each for each in partitions_of(job, cluster) if admits(each, job, nodes)]
    if (job.partitions or cluster.has_default_partition) and not admitting:
        return _not_admitted(job, cluster, nodes)
    among = _named(partition.name for partition in admitting)
    if job.features:
        partitions = [nodes_of_partition(cluster, each.name) for each in admitting]
        with_them = nodes_with(cluster, job.features)
        has_some = any(with_them & each for each in partitions) if partitions else with_them
        if not has_some:
            place = f"partition {among}" if among else "the cluster"
            reason = f"no node of {place} has feature {job.features[:_MOST_LISTED]}"
            named = job.features
            return Misfit(cluster.name, MISFIT_KIND_FEATURE, reason, nodes, 0, named)
    where = where_on(job, cluster, nodes, with_down=True)
    if job.nodes_wanted and not where:
        _, unknown = nodes_named(cluster, job.nodes_wanted)
        reason = "wants nodes that its partitions, features or exclusions leave out"
        if unknown:
            reason = f"wants node {unknown[:_MOST_LISTED]}, which the cluster does not have"
        return Misfit(cluster.name, MISFIT_KIND_NAMED_NODES, reason)
    found = _too_few_units(job, cluster.name, units, most)
    where_words = [f"partition {among}"] if among else []
    where_words += [f"feature {job.features[:_MOST_LISTED]}"] if job.features else []
    where_words += ["the nodes that it names"] if job.nodes_wanted or job.nodes_excluded else []
    return replace(found, reason=f"{found.reason}, where it may be: {', '.join(where_words)}")


def _not_admitted(job: Job, cluster: Cluster, nodes: int) -> Misfit:
    """Return why no partition that a job asks for takes it: the first one speaks for all."""
    partitions = partitions_of(job, cluster)
    if not partitions:
        asked = job.partitions[0]
        reason = f"the cluster has no partition {_named(job.partitions)}"
        return Misfit(cluster.name, MISFIT_KIND_PARTITION, reason, resource=asked)
    first = partitions[0]
    words, needed, available = _limit_words(first, job, nodes)
    reason = f"partition {first.name[:_MOST_LISTED]} {words}"
    return Misfit(cluster.name, MISFIT_KIND_PARTITION, reason, needed, available, first.name)


def _limit_words(partition: Partition, job: Job, nodes: int) -> tuple[str, float, float]:
    """Return how a partition does not take a job, what it needs, and what is allowed."""
    if partition.accounts and job.account not in partition.accounts:
        return f"does not admit account {job.account[:_MOST_LISTED]}", 0, 0
    if not partition.admits(job.account, job.user):
        return f"does not admit user {job.user[:_MOST_LISTED]}", 0, 0
    if partition.most_nodes and nodes > partition.most_nodes:
        words = f"takes jobs of at most {partition.most_nodes} nodes, it needs {nodes}"
        return words, nodes, partition.most_nodes
    most_s = partition.most_walltime_s
    words = f"takes jobs of at most {most_s:g} s, it asks for {job.walltime_s:g} s"
    return words, job.walltime_s, most_s


def _named(names: Iterable[str]) -> str:
    """Return names in words, as far as there is room."""
    return " or ".join(names)[:_MOST_LISTED]


def _too_few_units(job: Job, cluster: str, units: int, most: int) -> Misfit:
    memory = f" for its {job.memory_gib:g} GiB" if units > job.nodes else ""
    if job.is_of_nodes:
        reason = f"needs {units} nodes{memory}, the cluster has {most}"
        return Misfit(cluster, MISFIT_KIND_NODES, reason, units, most)
    reason = f"needs {units} units{memory}, {most} fit on the cluster when it is empty"
    return Misfit(cluster, MISFIT_KIND_UNITS, reason, units, most)


def _too_few_cores(millicores: int, cluster: Cluster) -> Misfit:
    given = f"those of the cluster have {cluster.cores_per_node}"
    reason = f"needs {cores_text(millicores)} cores on a node, {given}"
    cores = millicores / PER_CORE, cluster.cores_per_node
    return Misfit(cluster.name, MISFIT_KIND_CORES, reason, *cores)


def _no_unit_fits(job: Job, cluster: Cluster) -> Misfit:
    if job.unit_millicores > cluster.millicores_per_node:
        return _too_few_cores(job.unit_millicores, cluster)
    memory_gib = job.memory_gib_per_unit or job.memory_gib / job.nodes
    needs = [f"{count} {name[:_MOST_LISTED]}" for name, count in job.resources_per_unit]
    needs += [f"{memory_gib:g} GiB"] if memory_gib else []
    reason = f"no node of the cluster has the {' and '.join(needs)} that a unit needs"
    for name, count in job.resources_per_unit:
        most = max(dict(each.resources).get(name, 0) for each in cluster.node_classes)
        if count > most:
            return Misfit(cluster.name, MISFIT_KIND_RESOURCE, reason, count, most, name)
    given_gib = [each.memory_gib for each in cluster.node_classes]
    if all(given_gib) and memory_gib > max(given_gib):
        return Misfit(cluster.name, MISFIT_KIND_MEMORY, reason, memory_gib, max(given_gib))
    return Misfit(cluster.name, MISFIT_KIND_UNITS, reason, job.nodes_on(cluster), 0)
