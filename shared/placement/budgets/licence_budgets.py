"""Licences as the budgets of a pass: each is a budget whose unit is one licence."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from shared.domain.cluster import Cluster
from shared.placement.budgets.cap_budgets import budgets
from shared.placement.state.licences import LicencePool, LicencePools
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.licences import Licences
from shared.scheduling.power import PowerBudget

_NOBODY: Final[Mapping[str, Licences]] = {}


def licences_of_a_pass(
    pools: LicencePools,
    clusters: Mapping[str, Cluster],
    occupancy: Mapping[str, Occupancy],
    now_s: float,
) -> Mapping[str, Licences]:
    """Return the licences that jobs of each cluster may have in a pass; empty where none are
    declared. What runs on a cluster has them once its scheduler is made."""
    if not pools.any:
        return _NOBODY
    by_name = defaultdict[str, list[LicencePool]](list)
    for pool in pools.listed():
        by_name[pool.name].append(pool)
    by_cluster: dict[str, dict[str, list[PowerBudget]]] = {name: {} for name in occupancy}
    for name, of_name in by_name.items():
        under = budgets((pool.cap for pool in of_name), clusters, now_s, lambda _: 0)
        for cluster in by_cluster:
            if under[cluster]:
                by_cluster[cluster][name] = under[cluster]
    return {cluster: Licences(there) for cluster, there in by_cluster.items()}
