"""How good the published coefficients turn out to be: predicted against measured runs."""

from dataclasses import dataclass
from math import nan, sqrt
from typing import Final, NamedTuple

from services.energy.model import KernelRun
from shared.numerics.elementary import log

# The least weight of a new run: twenty runs then make up most of the mean.
WEIGHT: Final = 0.05
# No meter and no counter is better than this, so that a fit without any error can drift too.
LEAST_SD: Final = 0.01
# The rule of `needs_learning`: errors of twice the published size, and not of a few runs alone.
MOST_RATIO: Final = 2.0
LEAST_RUNS: Final = 30


class Deviations(NamedTuple):
    """Published relative standard deviations of a pair, NaN where nothing is published."""

    power: float
    time: float


class Errors(NamedTuple):
    """ln(measured / predicted) of one run: relative errors to first order."""

    power: float
    time: float

    @classmethod
    def between(cls, predicted: KernelRun, measured: KernelRun) -> "Errors":
        """Return the errors of a prediction; both runs have power and time above 0."""
        return cls(
            log(measured.power_w / predicted.power_w), log(measured.time_s / predicted.time_s)
        )


@dataclass(frozen=True, slots=True)
class Drift:
    """Runs at other P-states than the reference since the learning phase, newer ones count more.

    Means of relative errors (`bias`, above 0: more than predicted), of their squares, and of the
    squares in units of the published deviations; the energies of one node over one iteration
    since the node model is known, predicted and measured, J.
    """

    runs: int = 0
    power_bias: float = 0.0
    time_bias: float = 0.0
    power_square: float = 0.0
    time_square: float = 0.0
    power_excess: float = 0.0
    time_excess: float = 0.0
    predicted_j: float = 0.0
    measured_j: float = 0.0

    def and_run(self, predicted: KernelRun, measured: KernelRun, sd: Deviations) -> "Drift":
        """Return the drift with one more run: mean <- mean + w (new - mean), w the plain mean's at
        first."""
        weight = max(1 / (self.runs + 1), WEIGHT)
        error = Errors.between(predicted, measured)

        def mixed(before: float, new: float) -> float:
            return before + weight * (new - before)

        return Drift(
            runs=self.runs + 1,
            power_bias=mixed(self.power_bias, error.power),
            time_bias=mixed(self.time_bias, error.time),
            power_square=mixed(self.power_square, _square(error.power)),
            time_square=mixed(self.time_square, _square(error.time)),
            power_excess=mixed(self.power_excess, _square(error.power / _least(sd.power))),
            time_excess=mixed(self.time_excess, _square(error.time / _least(sd.time))),
            predicted_j=self.predicted_j + predicted.power_w * predicted.time_s,
            measured_j=self.measured_j + measured.power_w * measured.time_s,
        )

    def restarted(self) -> "Drift":
        """Return the drift after a learning phase: nothing is known of the new coefficients yet."""
        return Drift(predicted_j=self.predicted_j, measured_j=self.measured_j)

    @property
    def ratio(self) -> float:
        """Return the root mean square error over the published one, the worse of power and time:
        about 1 while the coefficients are as good as they say. NaN without runs or published
        deviations."""
        if self.runs == 0:
            return nan
        return sqrt(max(self.power_excess, self.time_excess))

    @property
    def needs_learning(self) -> bool:
        """Return whether the node model needs a new learning phase: a ratio above MOST_RATIO after
        at least LEAST_RUNS runs."""
        return self.runs >= LEAST_RUNS and self.ratio > MOST_RATIO


def _least(sd: float) -> float:
    """NaN stays NaN."""
    return max(sd, LEAST_SD)


def _square(x: float) -> float:
    return x * x
