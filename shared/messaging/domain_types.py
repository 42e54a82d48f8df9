"""Events as domain types, where more than one service reads them.

All raise RejectedError, which names the field.
"""

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobSubmitted

from shared.domain.cluster import Cluster
from shared.domain.job import Job


def cluster_of(message: ClusterDeclared) -> Cluster:
    """The cluster as declared."""
    return Cluster(
        name=message.cluster,
        site=message.site,
        node_model=message.node_model,
        nodes=message.nodes,
        cores_per_node=message.cores_per_node,
        pstates_ghz=tuple(message.pstates_ghz),
        idle_power_w=message.idle_power_w,
        peak_bandwidth_gbps=message.peak_bandwidth_gbps,
    )


def job_of(message: JobSubmitted) -> Job:
    """The attempt that was submitted."""
    return Job(
        job_id=message.job_id,
        attempt=message.attempt,
        app_id=message.app_id,
        user=message.user,
        account=message.account,
        nodes=message.nodes,
        walltime_s=message.walltime_s,
        reference_cluster=message.reference_cluster,
        shareable=message.shareable,
        submit_s=message.submitted_at_us / 1e6,
    )
