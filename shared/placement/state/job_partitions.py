"""In which partitions a job may be, and in which one it starts."""

from collections.abc import Iterator, Sequence
from itertools import chain

from shared.domain.cluster import Cluster
from shared.domain.job import Job, jobs_of_parts
from shared.scheduling.eligibility import (
    RefusedToJob,
    admits,
    node_set,
    nodes_of_partition,
    partitions_of,
)
from shared.scheduling.gangs import nodes_of_parts


def offered_in(job: Job, cluster: Cluster) -> Iterator[tuple[list[str], Job]]:
    """Yield each part of a gang, or a job itself, with the partitions that it asks for there."""
    for part in jobs_of_parts(job):
        yield [each.name for each in partitions_of(part, cluster)], part


def only_in(
    partitions: Sequence[str], refused: RefusedToJob, job: Job, cluster: Cluster
) -> RefusedToJob:
    """Return what a job may not have on a cluster where it is in these partitions alone."""
    asked = chain.from_iterable(names for names, _ in offered_in(job, cluster))
    others = [name for name in dict.fromkeys(asked) if name not in partitions]
    return refused._replace(partitions=tuple(dict.fromkeys([*refused.partitions, *others])))


def started_in(
    job: Job, cluster: Cluster, nodes: Sequence[int], closed: RefusedToJob, *, is_alone: bool
) -> tuple[str, ...]:
    """Return in which partition each part of a gang, or a job, runs on these nodes, empty where it
    is in none; nothing where it asks for none."""
    parts = jobs_of_parts(job)
    if not any(partitions_of(part, cluster) for part in parts):
        return ()
    owned = nodes_of_parts(job, cluster, nodes, closed) if job.parts else [nodes]
    if not owned:
        return ("",) * len(parts)
    return tuple(
        first_with(part, cluster, own, closed, is_alone=is_alone)
        for part, own in zip(parts, owned, strict=True)
    )


def first_with(
    job: Job, cluster: Cluster, nodes: Sequence[int], closed: RefusedToJob, *, is_alone: bool
) -> str:
    """Return the first partition of those where a job may run that has all of these nodes: none is
    exclusive where others have some of them. Empty where the job is in no partition."""
    own, units = node_set(nodes), job.nodes_on(cluster)
    for partition in partitions_of(job, cluster):
        is_open = not partition.down and partition.name not in closed.partitions
        may_be = is_alone or not partition.exclusive
        has_all = not own & ~nodes_of_partition(cluster, partition.name)
        if is_open and may_be and has_all and admits(partition, job, units):
            return partition.name
    return ""
