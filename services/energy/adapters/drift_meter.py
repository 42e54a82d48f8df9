"""What Prometheus sees of the learner: how good coefficients turn out to be."""

from collections.abc import Callable, Iterable
from math import isnan

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.energy.drift import Drift
from services.energy.processor.learner import Learner


class DriftMeter:
    """Asks the learner of this process whenever metrics are read; a standby process has none."""

    def __init__(self) -> None:
        self._learner: Learner | None = None

    def watch(self, learner: Learner) -> Learner:
        """Ask this learner from now on; the same learner."""
        self._learner = learner
        return learner

    def register(self, meter: Meter) -> None:
        """Create the instruments."""
        meter.create_observable_gauge(
            "energy_drift_ratio",
            [self._observing(lambda drift: drift.ratio)],
            description="Errors of projections over the published ones; about 1 is good",
        )
        meter.create_observable_gauge(
            "energy_needs_learning",
            [self._observing(lambda drift: int(drift.needs_learning))],
            description="1 where the kernels of a node model should be measured again",
        )
        meter.create_observable_counter(
            "energy_predicted",
            [self._observing(lambda drift: drift.predicted_j)],
            unit="J",
            description="Of runs at other P-states than their reference, a node and iteration each",
        )
        meter.create_observable_counter(
            "energy_measured",
            [self._observing(lambda drift: drift.measured_j)],
            unit="J",
            description="Of the same runs",
        )

    def _observing(
        self, figure: Callable[[Drift], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            drifts = self._learner.drifts if self._learner else {}
            return [
                Observation(figure(drift), {"node_model": name})
                for name, drift in drifts.items()
                if drift.runs and not isnan(figure(drift))
            ]

        return observe
