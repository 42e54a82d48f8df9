"""Licences as the budgets of a pass: each is a budget whose unit is one licence."""

from collections.abc import Mapping, Set
from typing import Final

from shared.domain.cluster import Cluster
from shared.placement.state.licences import LicencePools
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.licences import Licences
from shared.scheduling.power import PowerBudget, Scope

_NOBODY: Final[Mapping[str, Licences]] = {}


def licences_of_a_pass(
    pools: LicencePools,
    clusters: Mapping[str, Cluster],
    occupancy: Mapping[str, Occupancy],
    needed: Set[str],
) -> Mapping[str, Licences]:
    """Return the licences that jobs of each cluster may have in a pass, of those that a job which
    waits needs: empty where none of them is declared. What runs on a cluster has them once its
    scheduler is made."""
    if not (pools.any and needed):
        return _NOBODY
    by_cluster: dict[str, dict[str, list[PowerBudget]]] = {name: {} for name in occupancy}
    for pool in pools.listed():
        if pool.name not in needed:
            continue
        budget = PowerBudget(pool.cap, is_shared=pool.scope is not Scope.CLUSTER)
        for cluster in pool.covered.among(clusters):
            if cluster in by_cluster:
                by_cluster[cluster].setdefault(pool.name, []).append(budget)
    return {cluster: Licences(there) for cluster, there in by_cluster.items() if there}
