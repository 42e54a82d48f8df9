"""Learns run times and energies of groups, with scikit-learn: Dauwe et al. (2016), section 3.

They are compared with measurements by `coplace evaluate`, and not published: a network's sums are
BLAS's, whose last digits differ from processor to processor."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Predict = Callable[[Floats], Floats]

# The paper names no size. Weights are fitted by L-BFGS: scikit-learn has no conjugate gradient.
_NEURONS: Final = 10
_MOST_ROUNDS: Final = 400
_RESTRAINT: Final = 0.1


def train_linear(rows: Floats, value: Floats) -> Predict:
    """Train least squares (equations 1 and 2)."""
    from sklearn.linear_model import LinearRegression

    model: Any = LinearRegression().fit(rows, value)
    return lambda asked: np.asarray(model.predict(asked))


def train_network(rows: Floats, value: Floats, seed: int = 0) -> Predict:
    """Train a network of one layer of hyperbolic tangents (equation 3); its inputs and outputs are
    counted in standard deviations from the mean."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPRegressor(
        hidden_layer_sizes=(_NEURONS,),
        activation="tanh",
        solver="lbfgs",
        alpha=_RESTRAINT,
        max_iter=_MOST_ROUNDS,
        max_fun=20 * _MOST_ROUNDS,
        random_state=seed,
    )
    model: Any = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )
    model.fit(rows, value)
    return lambda asked: np.asarray(model.predict(asked))
