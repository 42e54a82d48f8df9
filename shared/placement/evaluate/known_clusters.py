"""The clusters of a region as jobs are evaluated on them."""

from shared.placement.evaluate.predictions import ClusterModels, WorkedOut
from shared.placement.state.model_store import ModelStore


class KnownClusters:
    """Joins each cluster with what is known of its node model, and keeps what was worked out."""

    def __init__(self, models: ModelStore) -> None:
        self._models = models
        self._worked_out: dict[str, WorkedOut] = {}
        self._evictions = models.evictions

    def __call__(self) -> list[ClusterModels]:
        """Return the declared clusters, in the order of their names."""
        models = self._models
        if self._evictions != models.evictions:
            self._worked_out, self._evictions = {}, models.evictions
        for name in self._worked_out.keys() - models.clusters.keys():
            del self._worked_out[name]
        return [
            ClusterModels(
                cluster,
                models.coefficients.get(cluster.node_model),
                models.signatures(cluster.node_model),
                self._worked_out.setdefault(name, WorkedOut()),
            )
            for name, cluster in models.clusters.items()
        ]
