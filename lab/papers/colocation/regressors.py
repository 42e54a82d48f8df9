"""The four models of Zacarias et al. (2021), Table 2, and what their hyper-parameters may be.

Columns and degradation are standardised by what is learned from, so that one space fits all
counters and machines; the paper's C, epsilon and alpha are of degradations in percent.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from lab.papers.colocation.search import Between, OneOf, Parameters, Space
from shared.colocation.measured import Floats

_TOLERANCE: Final = Between(1e-5, 1e-2)
_HIDDEN: Final = ((16,), (64,), (128,), (32, 32), (128, 128), (32, 32, 8), (64, 64, 32))


class Fitted(Protocol):
    """What has learned."""

    def predict(self, rows: Floats, /) -> Floats: ...


class Regressor(NamedTuple):
    """A model of scikit-learn by its hyper-parameters and a seed."""

    make: Callable[[Parameters, int], Any]
    space: Space

    def fitted(self, parameters: Parameters, rows: Floats, value: Floats, seed: int) -> Fitted:
        """Fit a regressor to rows."""
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        scaled = make_pipeline(StandardScaler(), self.make(parameters, seed))
        model = TransformedTargetRegressor(scaled, transformer=StandardScaler())
        with warnings.catch_warnings(action="ignore"):  # stopped before it converged
            found: Fitted = model.fit(rows, value)
        return found


def _elastic_net(parameters: Parameters, seed: int) -> Any:
    from sklearn.linear_model import ElasticNet

    return ElasticNet(**parameters, random_state=seed)


def _svm(parameters: Parameters, _seed: int) -> Any:
    from sklearn.svm import SVR

    return SVR(**parameters, max_iter=50_000)


def _random_forest(parameters: Parameters, seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(**parameters, random_state=seed, n_jobs=1)


def _mlp(parameters: Parameters, seed: int) -> Any:
    from sklearn.neural_network import MLPRegressor

    return MLPRegressor(**parameters, max_iter=300, random_state=seed)


REGRESSORS: Final[Mapping[str, Regressor]] = {
    "Elastic Net": Regressor(
        _elastic_net,
        {
            "alpha": Between(1e-5, 1.0),
            "l1_ratio": Between(0.01, 1.0, by_ratio=False),
            "tol": _TOLERANCE,
            "max_iter": Between(1_000, 10_000, whole=True),
        },
    ),
    "SVM": Regressor(
        _svm,
        {
            "kernel": OneOf(("linear", "poly", "rbf", "sigmoid")),
            "C": Between(1e-2, 1e2),
            "tol": _TOLERANCE,
            "coef0": Between(0.0, 1.0, by_ratio=False),
            "degree": Between(2, 5, by_ratio=False, whole=True),
            "gamma": Between(1e-4, 1.0),
            "epsilon": Between(1e-3, 1.0),
        },
    ),
    "random forest": Regressor(
        _random_forest,
        {
            "max_features": OneOf((1.0, "sqrt", "log2")),
            "min_samples_split": Between(2, 10, by_ratio=False, whole=True),
            "bootstrap": OneOf((True, False)),
            "n_estimators": Between(5, 100, whole=True),
        },
    ),
    "MLP": Regressor(
        _mlp,
        {
            "hidden_layer_sizes": OneOf(_HIDDEN),
            "alpha": Between(1e-5, 1.0),
            "activation": OneOf(("relu", "logistic", "tanh", "identity")),
            "learning_rate_init": Between(1e-4, 0.1),
            "tol": _TOLERANCE,
        },
    ),
}
