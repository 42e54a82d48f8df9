"""EAMC's Energy Prediction Module: what each application takes and draws on each cluster.

D'Amico and Corbalan (2021): equations 1 to 3 at every P-state, equation 4 for the P-state of each
cluster, equation 5 to compare clusters. All by the code that placement runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coplace_client.errors import UnusableError
from coplace_client.signature import Signature
from shared.domain.coefficients import Coefficients
from shared.eamc.chosen import ChosenPStates
from shared.eamc.frequency import (
    EVEN,
    FrequencyRule,
    Weighing,
    choose_pstates,
    pstates_by_cost,
    slower_pstates,
)
from shared.eamc.ranking import part_eff
from shared.models.ear import Metrics, project_metrics
from shared.models.projection import Projection
from shared.scheduling.workload import Floats, Ints, Mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeModels:
    """What is known of the nodes of one cluster: coefficients, and signatures by application."""

    coefficients: Coefficients
    signatures: Mapping[str, Signature]


@dataclass(frozen=True, slots=True, eq=False)
class EpmPredictions:
    """Applications, or jobs, on clusters at the P-state of their choice: (applications, clusters).

    `time_s` is the time of one iteration, `time_ratio` that over the time on the reference (the
    first cluster that knows the application) at its nominal P-state, `node_w` the power of one
    node; NaN where a cluster does not know the application.
    """

    freq_ghz: Floats
    time_s: Floats
    time_ratio: Floats
    node_w: Floats

    @property
    def known(self) -> Mask:
        """Return where a cluster knows an application."""
        return ~np.isnan(self.time_s)

    def of(self, app: Ints) -> "EpmPredictions":
        """Return the predictions of jobs by their applications, (jobs, clusters)."""
        return EpmPredictions(
            self.freq_ghz[app], self.time_s[app], self.time_ratio[app], self.node_w[app]
        )

    @property
    def energy_j(self) -> Floats:
        """Return the energy of one iteration on one node."""
        return self.node_w * self.time_s

    def part_eff(self, eligible: Mask, weighing: Weighing) -> Floats:
        """Return equation 5 over the clusters that are eligible, infinite elsewhere."""
        return part_eff(self.energy_j, self.time_s, eligible, weighing)


@dataclass(frozen=True, slots=True, eq=False)
class SlowerModes:
    """Applications, or jobs, on clusters at the lower P-states at which they may start where a cap
    refuses their own, in the order in which these are tried: (applications, clusters, modes), NaN
    behind the last one. Times and powers are those over what they are at the own P-state."""

    freq_ghz: Floats
    time_ratio: Floats
    power_ratio: Floats

    def of(self, app: Ints) -> "SlowerModes":
        """Return the modes of jobs by their applications, (jobs, clusters, modes)."""
        return SlowerModes(self.freq_ghz[app], self.time_ratio[app], self.power_ratio[app])

    @property
    def least_power_ratio(self) -> Floats:
        """Return the power ratio in the mode that draws least, the own one where there is no other,
        (jobs, clusters)."""
        return np.asarray(np.fmin.reduce(self.power_ratio, axis=2, initial=1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Epm:
    """Applications projected to every P-state of each cluster: (applications, P-states) each."""

    apps: tuple[str, ...]
    projections: tuple[Projection, ...]

    @classmethod
    def from_models(cls, models: Sequence[NodeModels]) -> "Epm":
        """Return the model of the applications that some cluster knows. Raises UnusableError when
        there is none."""
        apps = tuple(dict.fromkeys(app for each in models for app in each.signatures))
        if not apps:
            raise UnusableError("no cluster knows an application: give signatures of its module")
        return cls(apps, tuple(_projected(each, apps) for each in models))

    def predict(self, rule: FrequencyRule, weighing: Weighing = EVEN) -> EpmPredictions:
        """Predict all applications on all clusters at the P-state that a rule chooses."""
        chosen = [ChosenPStates.choose(each, rule, weighing) for each in self.projections]
        time_s = _columns([each.time_s for each in chosen])
        return EpmPredictions(
            freq_ghz=_columns([each.freq_ghz for each in chosen]),
            time_s=time_s,
            time_ratio=time_s / _reference_s(_columns([each.nominal_s for each in chosen])),
            node_w=_columns([each.power_w for each in chosen]),
        )

    def slower(self, rule: FrequencyRule, weighing: Weighing, most_slowdown: float) -> SlowerModes:
        """Return the slower modes of all applications on all clusters, as placement has them: see
        slower_pstates. None where jobs may not take longer."""
        most = max(len(each.pstates_ghz) for each in self.projections)
        shape = len(self.apps), len(self.projections), most
        found = SlowerModes(*(np.full(shape, np.nan) for _ in "fpt"))
        for cluster, projection in enumerate(self.projections if most_slowdown > 1 else ()):
            own = choose_pstates(projection, rule, weighing).tolist()
            for app in np.flatnonzero(projection.available.any(axis=1)).tolist():
                time_s, power_w = projection.time_s[app], projection.power_w[app]
                by_cost = pstates_by_cost(projection, app, rule, weighing)
                lower = slower_pstates(by_cost, own[app], time_s, power_w.item, most_slowdown)
                for mode, pstate in enumerate(lower):
                    at, by = (app, cluster, mode), own[app]
                    found.freq_ghz[at] = projection.pstates_ghz[pstate]
                    found.time_ratio[at] = time_s[pstate] / time_s[by]
                    found.power_ratio[at] = power_w[pstate] / power_w[by]
        return found

    def best(self, weighing: Weighing = EVEN) -> Ints:
        """Return the cluster of the least part_eff at EAMC's P-states, (applications,)."""
        predictions = self.predict(FrequencyRule.MIN_DISTANCE, weighing)
        efficiency = predictions.part_eff(predictions.known, weighing)
        return np.asarray(efficiency.argmin(axis=1), dtype=np.int64)


def _projected(known: NodeModels, apps: Sequence[str]) -> Projection:
    signatures = [known.signatures.get(app) for app in apps]
    return project_metrics(
        known.coefficients, Metrics.from_signatures(known.coefficients, signatures)
    )


def _reference_s(nominal_s: Floats) -> Floats:
    """Time of each application on the first cluster that knows it, (applications, 1)."""
    first = (~np.isnan(nominal_s)).argmax(axis=1)
    return np.asarray(nominal_s[np.arange(len(first)), first])[:, np.newaxis]


def _columns(several: Sequence[Floats]) -> Floats:
    return np.stack(several, axis=1)
