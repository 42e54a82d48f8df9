"""Coefficients between learning phases: what runs teach, and what they cannot spoil."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.energy.adaptive import Floats, PairEvidence, adapt, gram_of, regressors
from services.energy.model import KernelRun

LEARNED = np.array([[0.55, -0.4, 37.0], [0.9, 0.006, -0.05]])
TRUE = np.array([[0.62, -0.1, 30.0], [0.95, 0.004, 0.02]])


def runs(count: int, seed: int = 1) -> list[KernelRun]:
    rng = np.random.default_rng(seed)
    return [
        KernelRun(50.0, rng.uniform(250, 500), rng.uniform(0.4, 4.5), rng.uniform(0, 200))
        for _ in range(count)
    ]


def at_the_other_pstate(run: KernelRun, coefficients: Floats = TRUE) -> KernelRun:
    power_w, cpi = (coefficients * regressors(run)).sum(axis=1).tolist()
    return KernelRun(100.0, power_w, cpi, run.tpi)


def evidence(of: list[KernelRun], forgetting: float = 0.98) -> PairEvidence:
    found = PairEvidence.none()
    for run in of:
        found = found.and_run(LEARNED, run, at_the_other_pstate(run), forgetting)
    return found


def test_without_runs_the_learned_coefficients_stay_to_the_last_bit() -> None:
    assert adapt(LEARNED, gram_of(runs(12)), PairEvidence.none()).tobytes() == LEARNED.tobytes()


def test_without_forgetting_it_is_least_squares_over_kernels_and_runs_together() -> None:
    kernels, seen = runs(12), runs(30, seed=2)
    x = np.array([regressors(run) for run in (*kernels, *seen)])
    y = np.array(
        [(LEARNED * regressors(run)).sum(axis=1) for run in kernels]
        + [(TRUE * regressors(run)).sum(axis=1) for run in seen]
    )
    together = [np.linalg.lstsq(x[:, line], y[:, line])[0] for line in range(2)]
    found = adapt(LEARNED, gram_of(kernels), evidence(seen, forgetting=1.0))
    assert found == pytest.approx(np.array(together), rel=1e-7)


def test_the_sums_are_those_of_the_classical_recursion_with_its_reset() -> None:
    """R <- l R + x x' + (1 - l) R0 and w <- w + R^-1 (x (y - x'w) - (1 - l) R0 (w - w0))."""
    kernels, seen, forgetting = gram_of(runs(12)), runs(20, seed=3), 0.9
    gram, found = kernels[0].copy(), LEARNED[0].copy()
    for run in seen:
        x, y = regressors(run)[0], at_the_other_pstate(run).power_w
        gram = forgetting * gram + np.outer(x, x) + (1 - forgetting) * kernels[0]
        pull = (1 - forgetting) * kernels[0] @ (found - LEARNED[0])
        found = found + np.linalg.solve(gram, x * (y - x @ found) - pull)
    assert adapt(LEARNED, kernels, evidence(seen, forgetting))[0] == pytest.approx(found, rel=1e-6)


def worst_error(found: Floats, true: Floats = TRUE) -> float:
    """Of the power of fresh applications, as a share."""
    pairs = [(at_the_other_pstate(r, found), at_the_other_pstate(r, true)) for r in runs(99, 9)]
    return max(abs(projected.power_w / measured.power_w - 1) for projected, measured in pairs)


def test_runs_of_many_applications_lead_to_what_is_true_now() -> None:
    """At 0.98 the runs count as much as 50 kernels against the 12 that were learned from."""
    kernels = gram_of(runs(12))
    found = adapt(LEARNED, kernels, evidence(runs(400, seed=2)))
    assert worst_error(found) < 2 * 12 / 62 * worst_error(LEARNED)


def test_one_application_for_weeks_moves_others_by_no_more_than_the_kernels_allow() -> None:
    """With h = x' R0^-1 x of each, Cauchy and Schwarz bound the shift of another application by
    sqrt(h_other / h_own) of the own."""
    only, kernels = runs(1)[0], gram_of(runs(12))
    seen = PairEvidence.none()
    for _ in range(5_000):
        seen = seen.and_run(LEARNED, only, at_the_other_pstate(only, 1.1 * LEARNED))
    shift = adapt(LEARNED, kernels, seen)[0] - LEARNED[0]
    own, inverse = regressors(only)[0], np.linalg.inv(kernels[0])
    assert 0.8 < shift @ own / (0.1 * LEARNED[0] @ own) < 1
    for other in (regressors(run)[0] for run in runs(99, 9)):
        leverage = (other @ inverse @ other) / (own @ inverse @ own)
        assert abs(shift @ other) <= abs(shift @ own) * np.sqrt(leverage) * (1 + 1e-6)


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(1e-3, 10), st.floats(0, 1e3)), max_size=40))
def test_what_is_kept_is_symmetric_and_bounded(drawn: list[tuple[float, float, float]]) -> None:
    seen = [KernelRun(1.0, power_w, cpi, tpi) for power_w, cpi, tpi in drawn]
    found = evidence(seen, forgetting=0.9)
    assert (found.gram == np.swapaxes(found.gram, 1, 2)).all()
    largest = max((np.square(regressors(run)).sum(axis=1).max() for run in seen), default=0.0)
    assert np.abs(found.gram).max() <= largest / (1 - 0.9) * (1 + 1e-9)
    assert np.isfinite(adapt(LEARNED, gram_of(runs(12)), found)).all()
