"""What runs of one application on one node model were like: means by P-state, and their spread."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, Final, Self

from coplace_client.signature import Signature

# Metrics that distinguish applications. Time is not among them: it goes with the input.
METRICS: Final = ("power_w", "cpi", "tpi", "mem_gbps")
_BLENDED: Final = ("time_s", *METRICS)
# The least weight of a new run: applications change with their inputs and versions, so that after
# ten runs the mean forgets as fast as it learns.
FORGETTING: Final = 0.1
# A mean that forgets so is worth 2 / FORGETTING - 1 runs, however many there were.
MOST_RUNS: Final = round(2 / FORGETTING) - 1
# Until its own runs say otherwise an application varies by 5 % from run to run. That counts as much
# as four runs.
PRIOR_SPREAD: Final = 0.05
PRIOR_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class SignatureProfile:
    """Mean signatures by P-state, and for each of METRICS the variance of single runs around them,
    as squares of shares of the mean: exponentially forgotten like the means, one for all P-states.
    """

    means: Mapping[float, Signature]
    variances: Mapping[str, float]

    @classmethod
    def from_run(cls, first: Signature) -> Self:
        """Return the profile of one run, of which nobody knows yet how far others will be from
        it."""
        return cls({first.freq_ghz: first}, dict.fromkeys(METRICS, PRIOR_SPREAD * PRIOR_SPREAD))

    def taking(self, run: Signature) -> "SignatureProfile":
        """Return the profile with one more run."""
        old = self.means.get(run.freq_ghz)
        if old is None:
            return SignatureProfile({**self.means, run.freq_ghz: run}, self.variances)
        runs = sum(mean.count - 1 for mean in self.means.values())
        variances = {
            m: self._variance(m, getattr(old, m), getattr(run, m), old.count, runs) for m in METRICS
        }
        return SignatureProfile({**self.means, run.freq_ghz: _blended(old, run)}, variances)

    def spread(self, metric: str) -> float:
        """Return the standard deviation of single runs as a share of their mean."""
        return sqrt(self.variances[metric])

    def nearest_ghz(self, freq_ghz: float) -> float:
        """Return the measured P-state that is nearest, of two the lower."""
        return min(self.means, key=lambda measured: (abs(measured - freq_ghz), measured))

    def without(self, freq_ghz: float) -> "SignatureProfile":
        """Return the profile as if one P-state had never been measured."""
        kept = {f: mean for f, mean in self.means.items() if f != freq_ghz}
        return SignatureProfile(kept, self.variances)

    def _variance(self, metric: str, mean: float, new: float, count: int, runs: int) -> float:
        """With one more deviation, less what of it is the mean's own error, in `runs` so far."""
        before = self.variances[metric]
        if not mean:
            return before
        n = min(count, MOST_RUNS)
        error = new / mean - 1
        square = error * error * n / (n + 1)
        return before + max(1 / (runs + PRIOR_RUNS + 1), FORGETTING) * (square - before)


def _blended(old: Signature, new: Signature) -> Signature:
    """The mean with one more run: the plain mean at first, then with exponential forgetting."""
    weight = max(1 / (old.count + 1), FORGETTING)

    def mixed(metric: str) -> float:
        before: float = getattr(old, metric)
        after: float = getattr(new, metric)
        return before + weight * (after - before)

    means: dict[str, Any] = {metric: mixed(metric) for metric in _BLENDED}
    return replace(old, count=old.count + 1, **means)
