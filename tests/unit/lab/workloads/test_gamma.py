"""scipy's distributions are the standard here: it is only tests that ask them."""

import numpy as np
import pytest
from scipy import special

from lab.workloads import gamma

RNG = np.random.default_rng(1)
# Of the workload models, and what they cut off: ln runtimes, ln gaps, accuracies, normal shares.
GAMMAS = [(4.2, 12.8), (312.0, 400.0), (10.46, 26.7), (1.5, 7.5), (8.17, 15.0), (0.5, 30.0)]


@pytest.mark.parametrize(("shape", "most"), GAMMAS)
def test_the_share_below_a_value_is_that_of_the_gamma_distribution(
    shape: float, most: float
) -> None:
    x = RNG.uniform(0, most, 1000)
    assert gamma.shares(shape, x) == pytest.approx(
        special.gammainc(shape, x), rel=1e-11, abs=1e-300
    )
    assert gamma.share(shape, 0.0) == 0


@pytest.mark.parametrize(("shape", "most"), GAMMAS)
def test_a_quantile_is_where_its_share_lies(shape: float, most: float) -> None:
    share = RNG.uniform(1e-9, gamma.share(shape, most), 1000)
    found = gamma.quantiles(shape, share)
    assert gamma.shares(shape, found) == pytest.approx(share, rel=1e-11)
    assert found == pytest.approx(special.gammaincinv(shape, share), rel=1e-9)
    alone = [gamma.quantiles(shape, share[i : i + 1])[0] for i in range(20)]
    assert alone == found[:20].tolist()
    least = gamma.quantiles(1.5, np.array([0.0, 1e-300, 1e-20]))
    assert ((least >= 0) & (least < 1e-12)).all()
