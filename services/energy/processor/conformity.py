"""Whether a run behaves like the application that its user says it is.

D'Amico and Corbalan (2021), section 3.4, leave open what conforms. Here: each metric is within the
noise of its mean at the same P-state, or, at a P-state that was never measured, within the noise of
the limits between which it must lie there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from typing import Final, NamedTuple

from coplace_client.signature import Signature
from services.energy.processor.profile import METRICS, MOST_RUNS, SignatureProfile

# Of normal noise 6 runs in 100,000 lie farther out, of any other at most one in 16 (Chebyshev).
TOLERANCE_SDS: Final = 4.0
# No application is taken to repeat itself better than this, as a share of the mean.
LEAST_SPREAD: Final = 0.02
# Nor its memory traffic than this: next to nothing may well double.
LEAST_SPREAD_GBPS: Final = 0.5
# How many times each metric is what it was when the clock is r times what it was: (exponent of one
# limit, of the other). Cycles per instruction stay where nothing waits for memory and shrink with
# the clock where all does; bandwidth the other way round; power goes by voltage squared times
# clock at most; transactions per instruction belong to the program.
_LIMITS: Final = {"power_w": (0, 3), "cpi": (0, 1), "tpi": (0, 0), "mem_gbps": (0, 1)}
_TRAFFIC: Final = ("tpi", "mem_gbps")


class Deviation(NamedTuple):
    """One metric; `deviation` and `tolerance` as shares of `expected`."""

    metric: str
    measured: float
    expected: float
    tolerance: float

    @property
    def deviation(self) -> float:
        """Return how far off it is, with its sign."""
        return self.measured / self.expected - 1

    @property
    def differs(self) -> bool:
        """Return whether it is more than noise."""
        return abs(self.deviation) > self.tolerance


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run against the mean at `compared_ghz`."""

    compared_ghz: float
    deviations: tuple[Deviation, ...]

    @property
    def conforms(self) -> bool:
        """Return whether every metric conforms."""
        return not any(each.differs for each in self.deviations)


def compare_run(profile: SignatureProfile, run: Signature) -> Verdict:
    """Compare a run of the same TPI scale with the nearest P-state that was measured.

    A metric that one of the two does not have (0) is not compared.
    """
    freq_ghz = profile.nearest_ghz(run.freq_ghz)
    return Verdict(freq_ghz, tuple(_deviations(profile, profile.means[freq_ghz], run)))


def _deviations(profile: SignatureProfile, mean: Signature, run: Signature) -> Iterator[Deviation]:
    clock = run.freq_ghz / mean.freq_ghz
    for metric in METRICS:
        known, measured = float(getattr(mean, metric)), float(getattr(run, metric))
        if known and measured:
            limits = sorted(known * prod([clock] * exponent) for exponent in _LIMITS[metric])
            expected = min(max(measured, limits[0]), limits[1])
            yield Deviation(metric, measured, expected, _tolerance(profile, mean, metric))


def _tolerance(profile: SignatureProfile, mean: Signature, metric: str) -> float:
    """TOLERANCE_SDS of a single run against the mean of n: sd sqrt(1 + 1/n)."""
    least = LEAST_SPREAD
    if metric in _TRAFFIC and mean.mem_gbps:
        least = max(least, LEAST_SPREAD_GBPS / mean.mem_gbps)
    runs = min(mean.count, MOST_RUNS)
    return TOLERANCE_SDS * max(profile.spread(metric), least) * sqrt(1 + 1 / runs)
