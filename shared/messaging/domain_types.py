"""Events as domain types, where more than one service reads them.

All raise RejectedError, which names the field.
"""

import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from coplace.v1.jobs_pb2 import JobSubmitted

from shared.domain.cluster import Cluster
from shared.domain.coefficients import Coefficients
from shared.domain.errors import RejectedError
from shared.domain.job import Job
from shared.domain.signature import Signature


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


def signatures_of(message: SignatureUpdated) -> tuple[Signature, ...]:
    """The AppDB's row, ascending by frequency."""
    if not message.at:
        raise RejectedError("at", f"of {message.app_id} must hold at least one P-state")
    return tuple(
        Signature(
            app_id=message.app_id,
            node_model=message.node_model,
            freq_ghz=at.freq_ghz,
            time_s=at.time_s,
            power_w=at.power_w,
            cpi=at.cpi,
            tpi=at.tpi,
            mem_gbps=at.mem_gbps,
            tpi_scale=message.tpi_scale,
            count=at.count,
        )
        for at in sorted(message.at, key=lambda at: at.freq_ghz)
    )


def coefficients_of(message: CoefficientsPublished) -> Coefficients:
    """The matrices of a node model."""
    count = len(message.pstates_ghz)

    def matrix(field: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        values = np.array(getattr(message, field), dtype=np.float64)
        if values.size != count * count:
            raise RejectedError(field, f"must hold {count * count} values, got {values.size}")
        return values.reshape(count, count)

    a, b, c, d, e, f = (matrix(field) for field in "abcdef")
    return Coefficients(
        node_model=message.node_model,
        version=message.version,
        tpi_scale=message.tpi_scale,
        pstates_ghz=tuple(message.pstates_ghz),
        a=a,
        b=b,
        c=c,
        d=d,
        e=e,
        f=f,
        available=matrix("available").astype(np.bool_),
    )
