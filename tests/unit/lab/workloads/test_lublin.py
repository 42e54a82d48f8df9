import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from lab.workloads import lublin

JOBS = 20_000
MACHINE_NODES = 512


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def distance(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    return float(stats.kstest(sample, cdf).statistic)


def bound_of_distance(draws: int) -> float:
    """Dvoretzky-Kiefer-Wolfowitz: exceeded with a probability of at most one in a million."""
    return math.sqrt(math.log(2 / 1e-6) / (2 * draws))


def two_stage_cdf(log2_size: float) -> float:
    u_hi = math.log2(MACHINE_NODES)
    u_med = u_hi - 2.5
    low = np.clip((log2_size - 0.8) / (u_med - 0.8), 0, 1)
    high = np.clip((log2_size - u_med) / (u_hi - u_med), 0, 1)
    return float(0.86 * low + 0.14 * high)


def size_probabilities() -> np.ndarray:
    """The model's probability of each size 1..512, worked out from its distribution function."""
    probability = np.zeros(MACHINE_NODES + 1)
    probability[1] = 0.244
    for power in range(1, 10):
        rounded = two_stage_cdf(power + 0.5) - two_stage_cdf(power - 0.5)
        probability[2**power] += 0.576 * rounded
    for size in range(2, MACHINE_NODES + 1):
        between = two_stage_cdf(math.log2(size + 0.5)) - two_stage_cdf(math.log2(size - 0.5))
        probability[size] += (1 - 0.244 - 0.576) * between
    return probability


@pytest.fixture(scope="module")
def sizes() -> np.ndarray:
    return lublin.sizes(generator(), np.full(JOBS, MACHINE_NODES))


@pytest.mark.parametrize("of", [[1], 2 ** np.arange(10)], ids=["serial jobs", "powers of two"])
def test_the_share_of_some_sizes_is_that_of_the_model(sizes: np.ndarray, of: list[int]) -> None:
    expected = size_probabilities()[of].sum()
    bound = 5 * math.sqrt(expected * (1 - expected) / JOBS)  # exceeded once in 1.7 million runs
    assert abs(np.isin(sizes, of).mean() - expected) < bound


def test_the_mean_size_is_that_of_the_model(sizes: np.ndarray) -> None:
    values, probability = np.arange(MACHINE_NODES + 1), size_probabilities()
    assert probability.sum() == pytest.approx(1)
    mean = values @ probability
    deviation = math.sqrt((values - mean) ** 2 @ probability)
    assert abs(sizes.mean() - mean) < 5 * deviation / math.sqrt(JOBS)


def test_no_job_is_larger_than_a_machine_whose_size_is_no_power_of_two() -> None:
    sizes = lublin.sizes(generator(), np.full(JOBS, 360))
    assert sizes.min() == 1
    assert sizes.max() == 360


def test_a_machine_too_small_for_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 nodes, got one of 9"):
        lublin.sizes(generator(), np.array([512, 9]))


@pytest.mark.parametrize("nodes", [1, 64, 512])
def test_the_runtimes_of_a_size_follow_the_hyper_gamma_below_the_limit(nodes: int) -> None:
    share = min(1.0, max(0.0, -0.0054 * nodes + 0.78))

    def mixture(ln_runtime: np.ndarray | float) -> np.ndarray:
        first = stats.gamma.cdf(ln_runtime, 4.2, scale=0.94)
        second = stats.gamma.cdf(ln_runtime, 312, scale=0.03)
        return np.asarray(share * first + (1 - share) * second)

    ln_runtimes = np.log(lublin.runtimes_s(generator(), np.full(JOBS, nodes)))
    bound = bound_of_distance(JOBS)
    assert distance(ln_runtimes, lambda x: mixture(x) / mixture(12.0)) < bound
    assert ln_runtimes.max() <= 12


def busy_clock_s(arrivals_s: np.ndarray) -> np.ndarray:
    """Seconds of the clock that runs with the arrival rate, computed by summing half hours."""
    weights = lublin.day_weights()
    halves, rest_s = np.divmod(arrivals_s, 1800)
    before = np.concatenate(([0.0], np.cumsum(np.tile(weights, int(halves.max() // 48) + 1))))
    return np.asarray(before[halves.astype(int)] * 1800 + weights[halves.astype(int) % 48] * rest_s)


def test_the_gaps_between_arrivals_follow_the_gamma_on_the_clock_of_the_day() -> None:
    arrivals_s = lublin.arrivals_s(generator(), JOBS)
    ln_gaps = np.log(np.diff(busy_clock_s(arrivals_s), prepend=0))
    gamma = stats.gamma(10.2303 * 1.0225, scale=0.4871)
    assert distance(ln_gaps, lambda x: gamma.cdf(x) / gamma.cdf(13)) < bound_of_distance(JOBS)
    assert np.all(np.diff(arrivals_s) > 0)


def test_most_jobs_arrive_in_the_early_afternoon_and_least_before_five_in_the_morning() -> None:
    weights = lublin.day_weights()
    assert weights.mean() == pytest.approx(1)
    assert np.argmax(weights) == 27  # 13:30, the mode of gamma(8.1737, 3.9631) counted from 1
    assert np.argmin(weights) in (9, 10)  # 04:30 or 05:00: where the fitted day ends and begins


def test_the_first_jobs_do_not_depend_on_how_many_follow() -> None:
    nodes = np.full(100, MACHINE_NODES)
    for draw in (
        lambda jobs: lublin.sizes(generator(), nodes[:jobs]),
        lambda jobs: lublin.runtimes_s(generator(), nodes[:jobs]),
        lambda jobs: lublin.arrivals_s(generator(), jobs),
    ):
        assert np.array_equal(draw(10), draw(100)[:10])
