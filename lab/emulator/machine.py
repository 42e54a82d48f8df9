"""The nodes of an emulated cluster: what each draws, and which jobs have which part of it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lab.emulator.shapes import Share, lacks, together
from lab.emulator.truth.noise import Noise
from lab.workloads.table1 import NODE_MODELS
from shared.domain.cluster import Cluster, NodeClass


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
        self._class_ends = list(accumulate(each.nodes for each in cluster.node_classes))
        self._shares: list[dict[str, Share]] = [{} for _ in range(cluster.nodes)]

    def power_factors(self, nodes: Sequence[int]) -> NDArray[np.float64]:
        """Return what each of `nodes` draws against the mean node, shape (nodes,)."""
        return self._power_factors[list(nodes)]

    def class_of(self, node: int) -> NodeClass:
        """Return the class that a node is of."""
        return self.cluster.node_classes[bisect_right(self._class_ends, node)]

    def shares(self, node: int) -> Mapping[str, Share]:
        """Return what the jobs on a node have of it, by job, in the order in which they came."""
        return self._shares[node]

    def jobs_on(self, nodes: Sequence[int]) -> list[str]:
        """Return the jobs that have a part of any of `nodes`, in the order of their ids."""
        return sorted({job for node in nodes for job in self._shares[node]})

    def lacks(self, node: int, share: Share) -> str | None:
        """Return what the node has too little of beside what is taken, in words; None if it is
        enough."""
        taken = together([*self._shares[node].values(), share])
        return lacks(taken, self.cluster, self.class_of(node))

    def take(self, job: str, shares: Mapping[int, Share]) -> None:
        """Give parts of nodes to a job."""
        for node, share in shares.items():
            self._shares[node][job] = share

    def release(self, job: str, nodes: Sequence[int]) -> None:
        """Release these nodes of a job."""
        for node in nodes:
            del self._shares[node][job]
