"""The Lublin-Feitelson model of rigid parallel jobs: sizes, runtimes, arrivals.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the
characteristics of rigid jobs", JPDC 63(11), 2003, pp. 1105-1122. Every number is the one for all
jobs (batch and interactive together) in the authors' program m_lublin99.c, Parallel Workloads
Archive; its name there is beside it.

The program redraws what exceeds a limit. Here every draw is the inverse of the distribution that
this leaves, so that each job takes a fixed count of uniforms and no job depends on a later one.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from coplace_client.errors import UnusableError
from lab.workloads import gamma
from shared.numerics.elementary import LN2, exps, logs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SERIAL_PROB: Final = 0.244
POW2_PROB: Final = 0.576
U_LOW: Final = 0.8  # ULOW: log2 of the smallest parallel size; 0.8 favours two nodes a little
U_MED_BELOW_HI: Final = 2.5  # UMED = UHI - 2.5, where UHI is log2 of the machine's size
U_PROB: Final = 0.86  # UPROB: share of parallel jobs between ULOW and UMED
MIN_MACHINE_NODES: Final = 10  # below 2 ** (0.8 + 2.5) nodes UMED would be less than ULOW

A1: Final = 4.2
B1: Final = 0.94
A2: Final = 312.0
B2: Final = 0.03
PA: Final = -0.0054
PB: Final = 0.78
MAX_LN_RUNTIME: Final = 12.0  # TOO_MUCH_TIME: e ** 12 s, about two days

AARR: Final = 10.2303
BARR: Final = 0.4871
ARAR: Final = 1.0225  # scales AARR from the rush hours to the whole day
ANUM: Final = 8.1737
BNUM: Final = 3.9631
MAX_LN_GAP: Final = 13.0  # TOO_MUCH_ARRIVE_TIME: e ** 13 s, about five days
BUCKETS: Final = 48
BUCKET_S: Final = 1800.0
# CYCLIC_DAY_START. The program counts half hours from 1, so the fitted day begins at 05:00.
FIRST_BUCKET: Final = 11
DAY_S: Final = BUCKETS * BUCKET_S


def sizes(rng: np.random.Generator, machine_nodes: Ints) -> Ints:
    """Draw nodes of each job; `machine_nodes` (jobs,) is the size of the machine that it is for.

    Raises UnusableError for a machine of fewer than MIN_MACHINE_NODES.
    """
    if machine_nodes.min(initial=MIN_MACHINE_NODES) < MIN_MACHINE_NODES:
        raise UnusableError(
            f"the Lublin-Feitelson model needs machines of at least {MIN_MACHINE_NODES} nodes, "
            f"got one of {machine_nodes.min()}"
        )
    kind, stage, place = rng.random((len(machine_nodes), 3)).T
    log2_size = _two_stage_uniform(stage, place, logs(machine_nodes.astype(np.float64)) / LN2)
    log2_size = np.where(kind <= SERIAL_PROB + POW2_PROB, np.floor(log2_size + 0.5), log2_size)
    parallel = np.floor(exps(log2_size * LN2) + 0.5)
    nodes = np.where(kind <= SERIAL_PROB, 1, parallel).astype(np.int64)
    # Rounding up to a power of two may leave a machine whose size is none.
    return np.minimum(nodes, machine_nodes)


def _two_stage_uniform(stage: Floats, place: Floats, u_hi: Floats) -> Floats:
    """Uniform on [ULOW, UMED] with probability UPROB, else on [UMED, UHI]; all (jobs,)."""
    u_med = u_hi - U_MED_BELOW_HI
    first = U_LOW + place * (u_med - U_LOW)
    second = u_med + place * (u_hi - u_med)
    return np.where(stage <= U_PROB, first, second)


def runtimes_s(rng: np.random.Generator, nodes: Ints) -> Floats:
    """Draw the runtime of each job in s, (jobs,): e to the power of a hyper-gamma of its size."""
    component, place = rng.random((len(nodes), 2)).T
    first = component <= _first_gamma_share(nodes)
    ln_first = _truncated_gamma(place, A1, B1, MAX_LN_RUNTIME)
    ln_second = _truncated_gamma(place, A2, B2, MAX_LN_RUNTIME)
    return exps(np.where(first, ln_first, ln_second))


def _first_gamma_share(nodes: Ints) -> Floats:
    """Share of the first gamma, (jobs,): p = PA nodes + PB within [0, 1], given the limit holds."""
    p = np.clip(PA * nodes + PB, 0, 1)
    first = p * gamma.share(A1, MAX_LN_RUNTIME / B1)
    second = (1 - p) * gamma.share(A2, MAX_LN_RUNTIME / B2)
    return np.asarray(first / (first + second))


def arrivals_s(rng: np.random.Generator, jobs: int) -> Floats:
    """Draw the arrival of each job in s after midnight, ascending, (jobs,).

    The gaps are e to the power of a gamma, in seconds of a clock that runs as fast as jobs arrive
    at that time of day; reading them on a real clock gives the daily cycle.
    """
    gaps = exps(_truncated_gamma(rng.random(jobs), AARR * ARAR, BARR, MAX_LN_GAP))
    days, rest_s = np.divmod(np.cumsum(gaps), DAY_S)
    clock_s = np.concatenate(([0.0], np.cumsum(day_weights() * BUCKET_S)))
    return np.asarray(days * DAY_S + np.interp(rest_s, clock_s, np.arange(BUCKETS + 1) * BUCKET_S))


def day_weights() -> Floats:
    """Return the arrival rate of each half hour from midnight relative to the mean rate, (48,)."""
    fitted = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS, dtype=np.float64)
    ends = gamma.shares(ANUM, (fitted + 0.5) / BNUM)
    rates = ends - gamma.shares(ANUM, (fitted - 0.5) / BNUM)
    return np.asarray(np.roll(rates / rates.mean(), FIRST_BUCKET - 1))


def _truncated_gamma(uniform: Floats, alpha: float, beta: float, limit: float) -> Floats:
    """Gamma(alpha, beta) given that it is at most `limit`, by inverting its distribution."""
    return beta * gamma.quantiles(alpha, uniform * gamma.share(alpha, limit / beta))
