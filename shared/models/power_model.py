"""Mean node power of a job from what is known when it is submitted: features and evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.domain.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.models.forest import Forest
from shared.numerics.elementary import log, log2

Floats = NDArray[np.float64]

# The columns of a feature row, in order.
FEATURES: Final = (
    "log2_nodes",
    "log_walltime_s",
    "shareable",
    "app_code",
    "user_code",
    "freq_ghz",
    "cores_per_node",
    "idle_power_w",
)
CODES: Final = 64


@lru_cache(maxsize=65_536)
def stable_code(text: str) -> int:
    """A number of 0 to 63 for a name, the same in every process and version (SHA-256)."""
    return sha256(text.encode()).digest()[0] % CODES


def feature_row(job: Job, cluster: Cluster, freq_ghz: float) -> tuple[float, ...]:
    """FEATURES of a job on a cluster at a P-state: jobs that teach ran at many."""
    return (
        log2(job.nodes),
        log(job.walltime_s),
        float(job.shareable),
        float(stable_code(job.app_id)),
        float(stable_code(job.user)),
        freq_ghz,
        float(cluster.cores_per_node),
        cluster.idle_power_w,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PowerModel:
    """A published power model: a forest, or one figure a node model while there is none."""

    version: str
    forest: Forest | None
    fallback_power_w: Mapping[str, float]

    def power_w(self, jobs: Sequence[Job], cluster: Cluster) -> Floats:
        """Mean power of one node used whole at the nominal P-state, W, shape (jobs,).

        Where neither forest nor fallback knows the node model, it is the declared idle power: a
        lower bound, and the only figure there is. A forest may have learned from meters that show
        0: it says at least what any node draws, since energies are compared as ratios.
        """
        if self.forest is None:
            fallback = self.fallback_power_w.get(cluster.node_model, cluster.idle_power_w)
            return np.full(len(jobs), fallback)
        rows = [feature_row(job, cluster, cluster.nominal_ghz) for job in jobs]
        return np.maximum(self.forest.predict(np.array(rows)), NODE_POWER_W.least)


NO_POWER_MODEL: Final = PowerModel("", None, {})
