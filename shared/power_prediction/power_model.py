"""What a node draws for a job that is known by its submission alone: what placement evaluates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np
from numpy.typing import NDArray

from coplace_client.bounds import NODE_POWER_W
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.numerics.elementary import log
from shared.numerics.normal import quantile as normal_quantile
from shared.power_prediction.kinds import KindOfJob
from shared.power_prediction.similar_jobs import HISTORY, PowerAtStart, PowerTables

Floats = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class PowerModel:
    """What similar jobs drew, and one figure a node model where none is known."""

    fallback_version: str = ""
    fallback_power_w: Mapping[str, float] = field(default_factory=dict)
    tables: PowerTables = field(default_factory=PowerTables)

    @property
    def version(self) -> str:
        """Return the version of the newest of what it consists of."""
        number, trees = self.tables.number, self.tables.trees
        if not number:
            return self.fallback_version
        return f"{HISTORY}@{number}" + (f", {trees.version}" if trees else "")

    def predict(self, jobs: Sequence[Job], cluster: Cluster) -> tuple[Floats, Floats]:
        """Predict of jobs at the nominal P-state the mean power of one node used whole, W, and its
        relative standard deviation, NaN where no job on this node model is known, each of shape
        (jobs,).

        The deviation is such that the quantile 1 - alpha is the calibrated bound. Without any job
        the power is the mean reading of the node model, or the declared idle power: a lower bound,
        and the only figure there is; what was declared of the job's accelerators comes on top.
        """
        kinds = [KindOfJob.from_job(job, cluster, cluster.nominal_ghz) for job in jobs]
        powers = self.tables.predict_all(kinds)
        found = [
            self._of(power, kind.accelerators_w, cluster)
            for power, kind in zip(powers, kinds, strict=True)
        ]
        power_w, deviation = zip(*found, strict=True) if found else ((), ())
        return np.array(power_w, dtype=np.float64), np.array(deviation, dtype=np.float64)

    def _of(
        self, predicted: PowerAtStart | None, accelerators_w: float, cluster: Cluster
    ) -> tuple[float, float]:
        if predicted is None:
            mean_w = self.fallback_power_w.get(cluster.node_model, cluster.idle_power_w)
            return mean_w + accelerators_w, nan
        beyond = log(predicted.upper_w / predicted.predicted_w)
        power_w = max(predicted.predicted_w, NODE_POWER_W.least)
        return power_w, beyond / normal_quantile(1 - predicted.alpha)
