"""What Prometheus sees of prediction: how good the predictions of power turn out to be."""

from collections.abc import Callable, Iterable
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from services.prediction.processor import Prediction
from shared.power_prediction.online import OnlineLearner

# Of fewer predictions a share says nothing.
LEAST_JUDGED: Final = 100
_FIGURES: Final[tuple[tuple[str, str, Callable[[OnlineLearner], float]], ...]] = (
    (
        "power_error_ratio",
        "Mean absolute error of the newest 500 predictions of power, as a share",
        lambda learner: learner.scores.error,
    ),
    (
        "power_above_bound_ratio",
        "The share of the same jobs that drew more than their bound",
        lambda learner: learner.scores.above_share,
    ),
    (
        "power_alpha_ratio",
        "The share of jobs that may draw more than their bound",
        lambda learner: learner.progress.alpha,
    ),
)


class PowerMeter:
    """Asks the predictor of this process whenever metrics are read; a standby process has none."""

    def __init__(self) -> None:
        self._prediction: Prediction | None = None

    def watch(self, prediction: Prediction) -> Prediction:
        """Ask this one from now on; the same one."""
        self._prediction = prediction
        return prediction

    def register(self, meter: Meter) -> None:
        """Create the instruments."""
        for name, description, figure in _FIGURES:
            meter.create_observable_gauge(name, [self._observing(figure)], "", description)
        meter.create_observable_counter(
            "power_outcomes",
            [self._outcomes],
            "",
            "Runs that ended, by what was known of their power",
        )
        meter.create_observable_counter(
            "power_predictions",
            [self._known_shapes],
            "",
            "Predictions of power at a start, by the finest kind of similar jobs that were known",
        )

        meter.create_observable_counter(
            "implausible_readings",
            [self._implausible],
            "",
            "Readings of meters that no node of the cluster shows",
        )

    def _implausible(self, _options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(self._prediction.implausible_readings)] if self._prediction else []

    def _outcomes(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = list(self._prediction.job_power.outcomes.items()) if self._prediction else []
        return [Observation(count, {"outcome": outcome}) for outcome, count in found]

    def _known_shapes(self, _options: CallbackOptions) -> Iterable[Observation]:
        found = list(self._prediction.job_power.known_shapes.items()) if self._prediction else []
        return [Observation(count, {"same": shape or "none"}) for shape, count in found]

    def _observing(
        self, figure: Callable[[OnlineLearner], float]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            learner = self._prediction.power_learner if self._prediction else None
            if learner is None or learner.progress.judged < LEAST_JUDGED:
                return []
            return [Observation(figure(learner))]

        return observe
