"""scipy's distributions are the standard here: it is only tests that ask them."""

import numpy as np
import pytest
from scipy import special

from shared.numerics import normal

RNG = np.random.default_rng(1)


def test_normal_quantiles_have_sixteen_digits() -> None:
    tail = 10 ** RNG.uniform(-300, -1, 1000)
    share = np.concatenate([RNG.random(2000), tail, 1 - np.maximum(tail, 1e-15)])
    assert normal.quantiles(share) == pytest.approx(special.ndtri(share), rel=1e-14)
    assert normal.quantile(0.5) == 0
    assert normal.quantile(0.9) == -normal.quantile(0.1) == pytest.approx(1.2815515655446004)
