"""Why a cluster can never run a job: what it would have to have."""

from collections.abc import Iterable, Mapping
from typing import Final

from coplace.v1.placement_pb2 import (
    MISFIT_KIND_ARCHITECTURE,
    MISFIT_KIND_CORES,
    MISFIT_KIND_MEMORY,
    MISFIT_KIND_NODES,
    MISFIT_KIND_NOT_DECLARED,
    MISFIT_KIND_RESOURCE,
    MISFIT_KIND_SHARING,
    MISFIT_KIND_UNITS,
)

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.placement.state.misfit import Misfit
from shared.scheduling.problem import most_units

# Characters of what is listed in words: names may be long, and many.
_MOST_LISTED: Final = 80


def misfit(job: Job, cluster: Cluster) -> Misfit | None:
    """Return why a cluster can never run the job; None when it can."""
    name = cluster.name
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
    return _too_few_units(job, name, units, most) if most else _no_unit_fits(job, cluster)


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


def _too_few_units(job: Job, cluster: str, units: int, most: int) -> Misfit:
    memory = f" for its {job.memory_gib:g} GiB" if units > job.nodes else ""
    if job.is_of_nodes:
        reason = f"needs {units} nodes{memory}, the cluster has {most}"
        return Misfit(cluster, MISFIT_KIND_NODES, reason, units, most)
    reason = f"needs {units} units{memory}, {most} fit on the cluster when it is empty"
    return Misfit(cluster, MISFIT_KIND_UNITS, reason, units, most)


def _no_unit_fits(job: Job, cluster: Cluster) -> Misfit:
    if job.cores_per_unit > cluster.cores_per_node:
        given = f"those of the cluster have {cluster.cores_per_node}"
        reason = f"needs {job.cores_per_unit} cores on a node, {given}"
        cores = job.cores_per_unit, cluster.cores_per_node
        return Misfit(cluster.name, MISFIT_KIND_CORES, reason, *cores)
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
