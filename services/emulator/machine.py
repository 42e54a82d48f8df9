"""The nodes of an emulated cluster: what each draws, and how many of its cores are taken."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.emulator.truth.noise import Noise
from shared.domain.cluster import Cluster
from shared.workloads.table1 import NODE_MODELS


class Machine:
    """One cluster in motion. Raises ValueError for a node model that has no truth."""

    def __init__(self, cluster: Cluster, noise: Noise) -> None:
        if cluster.node_model not in NODE_MODELS:
            raise ValueError(
                f"{cluster.name} has nodes of the model {cluster.node_model}, the emulator knows "
                f"{', '.join(NODE_MODELS)}"
            )
        self.cluster = cluster
        self.model = NODE_MODELS[cluster.node_model]
        names = cluster.names()
        self.node_names = [names.name(index) for index in range(cluster.nodes)]
        self._power_factors = np.array([noise.node_power(name) for name in self.node_names])
        self._used_cores: NDArray[np.int64] = np.zeros(cluster.nodes, dtype=np.int64)

    def power_factors(self, nodes: Sequence[int]) -> NDArray[np.float64]:
        """What each of `nodes` draws against the mean node, shape (nodes,)."""
        return self._power_factors[list(nodes)]

    def short_of_cores(self, nodes: Sequence[int], cores: int) -> str | None:
        """The first of `nodes` that has fewer than `cores` free cores, else None."""
        busy = self._used_cores[list(nodes)] + cores > self.cluster.cores_per_node
        return self.node_names[nodes[int(np.argmax(busy))]] if busy.any() else None

    def used_cores(self, nodes: Sequence[int]) -> int:
        """The largest count of cores that are taken on one of `nodes`."""
        return int(self._used_cores[list(nodes)].max())

    def take(self, nodes: Sequence[int], cores: int) -> None:
        """Give `cores` of each of `nodes` to a job."""
        self._used_cores[list(nodes)] += cores

    def release(self, nodes: Sequence[int], cores: int) -> None:
        """Take them back."""
        self._used_cores[list(nodes)] -= cores
