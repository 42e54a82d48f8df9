"""Licences as they are listed: how many there are, and which jobs hold them."""

from collections.abc import Iterator, Mapping
from typing import Final

from coplace.v1.placement_service_pb2 import LicenceHolder, ListedLicences, ListLicencesRequest

from shared.domain.cluster import Cluster
from shared.placement.state.allocations import Allocations
from shared.placement.state.licences import LicencePool, LicencePools

# Jobs that a row names.
_MOST_HOLDERS: Final = 10


def listed_licences(
    pools: LicencePools,
    clusters: Mapping[str, Cluster],
    allocations: Allocations,
    request: ListLicencesRequest,
) -> Iterator[ListedLicences]:
    """Yield the licences that a request asks for: of one cluster, those that its jobs share."""
    on = clusters.get(request.cluster)
    for pool in pools.listed():
        is_there = not request.cluster or (on is not None and pool.covered.covers(on))
        if is_there and request.name in ("", pool.name):
            yield _listed(pool, clusters, allocations)


def _listed(
    pool: LicencePool, clusters: Mapping[str, Cluster], allocations: Allocations
) -> ListedLicences:
    holders = [
        (-count, job.job.job_id)
        for job, placed in allocations.all()
        for name, count in job.job.licences
        if name == pool.name and pool.covered.covers(clusters[placed.cluster])
    ]
    holders.sort()
    return ListedLicences(
        licences=pool.message(),
        declared_by=pool.by,
        in_use=sum(-less for less, _ in holders),
        holders=[LicenceHolder(job_id=j, count=-less) for less, j in holders[:_MOST_HOLDERS]],
        holders_left_out=len(holders[_MOST_HOLDERS:]),
    )
