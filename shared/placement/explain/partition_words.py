"""In which partition a job starts."""

from collections.abc import Sequence

from shared.domain.cluster import Cluster
from shared.placement.state.declines import refused_to
from shared.placement.state.job_record import JobRecord
from shared.scheduling.eligibility import (
    admits,
    node_set,
    nodes_of_partition,
    partitions_of,
)


def started_in(job: JobRecord, cluster: Cluster, nodes: Sequence[int], *, is_alone: bool) -> str:
    """Return the first partition of those where a job may run that has all of these nodes: none is
    exclusive where others have some of them. Empty where the job is in no partition."""
    asked = partitions_of(job.job, cluster)
    if not asked:
        return ""
    refused = refused_to(job.declined_on(cluster.name)).partitions
    own, units = node_set(nodes), job.job.nodes_on(cluster)
    for partition in asked:
        is_open = not partition.down and partition.name not in refused
        may_be = is_alone or not partition.exclusive
        has_all = not own & ~nodes_of_partition(cluster, partition.name)
        if is_open and may_be and has_all and admits(partition, job.job, units):
            return partition.name
    return ""
