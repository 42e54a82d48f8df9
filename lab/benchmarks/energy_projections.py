"""How many job x P-state points a second one core projects: python -m
lab.benchmarks.energy_projections [jobs]

Two node models of 16 and 20 P-states; jobs measured at the nominal P-state, at any P-state, and
(third line) all three values of (jobs, node models, P-states) in one array. The last line is what a
quantile of the projections costs beside them.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from shared.domain.coefficients import Coefficients, Uncertainty
from shared.models.ear import Metrics, project_metrics, project_onto_models

REPEATS = 7


def coefficients(name: str, pstates_ghz: tuple[float, ...]) -> Coefficients:
    """Return coefficients near to proportional to frequency for each pair; one P-state was never
    measured."""
    clocks = np.asarray(pstates_ghz)
    ratio, zero = clocks / clocks[:, np.newaxis], np.zeros((len(clocks), len(clocks)))
    available = np.ones_like(zero, dtype=np.bool_)
    available[8] = available[:, 8] = False
    return Coefficients(
        *(name, "v", "scale", pstates_ghz, ratio, zero, zero, ratio**0.1, zero, zero, available),
        Uncertainty(zero + 0.01, zero + 0.02),
    )


def metrics(table: Coefficients, jobs: int, *, is_mixed: bool) -> Metrics:
    """Draw signatures at random."""
    rng, last = np.random.default_rng(1), len(table.pstates_ghz) - 1
    return Metrics(
        time_s=rng.uniform(40, 60, jobs),
        power_w=rng.uniform(300, 500, jobs),
        cpi=rng.uniform(0.4, 4, jobs),
        tpi=rng.uniform(0, 20, jobs),
        reference=rng.integers(0, last, jobs) if is_mixed else np.full(jobs, last),
    )


def report(title: str, points: int, work: Callable[[], object]) -> None:
    """Print the best of several runs, in CPU time: other programs may use the machine."""
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    print(f"{title}: {points / min(seconds) / 1e6:.1f} million points a CPU-second")


def main(jobs: int) -> None:
    """Print points a second of each case."""
    tables = [
        coefficients("a", tuple(np.round(np.arange(12, 28) / 10, 1).tolist())),
        coefficients("b", tuple(np.round(np.arange(12, 32) / 10, 1).tolist())),
    ]
    for title, is_mixed in (("from the nominal P-state", False), ("from any P-state", True)):
        drawn = metrics(tables[0], jobs, is_mixed=is_mixed)
        report(title, 16 * jobs, partial(project_metrics, tables[0], drawn))
    several = [metrics(table, jobs, is_mixed=False) for table in tables]
    both = partial(project_onto_models, tables, several)
    report("on two node models, one array", 36 * jobs, both)
    found = project_metrics(tables[0], metrics(tables[0], jobs, is_mixed=True))
    report("nine in ten quantile of time, power, energy", 16 * jobs, partial(found.at, 0.9))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
