"""Which jobs may share nodes on each cluster, and what that costs them."""

from collections.abc import Mapping, Set

from shared.domain.cluster import Cluster
from shared.placement.state.model_store import ModelStore
from shared.scheduling.sharing import Contention, Pair, PairCosts


class NeighbourRules:
    """Keeps a rule, with the costs that it remembers, until something changes that it follows
    from."""

    def __init__(self, models: ModelStore, isolated: Mapping[str, Set[Pair]] | None = None) -> None:
        self._models = models
        self._isolated = isolated or {}
        self._rules: dict[str, Contention] = {}
        self._revision = -1

    def isolate(self, pairs: Mapping[str, Set[Pair]]) -> None:
        """Let these pairs of applications, by node model, and no others start beside each other no
        more."""
        self._isolated, self._revision = pairs, -1

    def __call__(self) -> Mapping[str, Contention]:
        """Return the rule of each cluster."""
        if self._revision != self._models.revision:
            self._rules = {name: self._newest(c) for name, c in self._models.clusters.items()}
            self._revision = self._models.revision
        return self._rules

    def _newest(self, cluster: Cluster) -> Contention:
        rule, before = self._rule(cluster), self._rules.get(cluster.name)
        return before if before is not None and rule.equals(before) else rule

    def _rule(self, cluster: Cluster) -> Contention:
        models = self._models
        signatures = models.signatures(cluster.node_model)
        gbps = {app: rows[-1].mem_gbps for app, rows in signatures.items()}
        weights = models.degradation.weights if models.degradation else None
        node = cluster.peak_bandwidth_gbps, cluster.millicores_per_node
        isolated = self._isolated.get(cluster.node_model, frozenset())
        pairs = None
        if models.pair_trees is not None:
            newest = {app: rows[-1] for app, rows in signatures.items()}
            pairs = PairCosts(models.pair_trees, newest, node[1], node[0])
        most, is_open = models.rules.now.max_slowdown, cluster.shares_unpredicted
        return Contention(gbps, *node, weights, most, isolated, pairs, is_open)
