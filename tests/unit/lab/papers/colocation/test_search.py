"""Bayesian optimisation, where the greatest value is known."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lab.papers.colocation.search import Between, OneOf, Parameters, Space, maximised

SPACE: Space = {
    "x": Between(0.0, 1.0, by_ratio=False),
    "y": Between(1e-4, 1.0),
    "kind": OneOf(("flat", "right", "wrong")),
}


def _hill(at: Parameters) -> float:
    off = at["x"] - 0.3, np.log10(at["y"]) + 2
    return float((at["kind"] == "right") - sum(each * each for each in off))


def test_it_comes_nearer_the_top_than_as_many_random_trials() -> None:
    rng = np.random.default_rng(0)
    random = max(
        _hill({name: of.at(rng.uniform()) for name, of in SPACE.items()}) for _ in range(20)
    )
    found = maximised(_hill, SPACE, trials=20, seed=0)
    assert found.value == _hill(found.parameters)
    assert found.value > max(random, 0.98)


def test_one_seed_asks_the_same_trials_and_what_is_not_finite_is_never_the_best() -> None:
    asked: list[Parameters] = []

    def told(at: Parameters) -> float:
        asked.append(at)
        return float("nan") if at["x"] > 0.5 else _hill(at)

    for _ in range(2):
        assert maximised(told, SPACE, trials=12, seed=1).parameters["x"] <= 0.5
    assert asked[:12] == asked[12:]


@given(share=st.floats(0.0, 1.0), whole=st.booleans())
def test_what_is_tried_lies_in_its_space(share: float, whole: bool) -> None:
    for by_ratio in (True, False):
        assert 2 <= Between(2, 90, by_ratio=by_ratio, whole=whole).at(share) <= 90 + 1e-9
    assert OneOf("abc").at(share) in "abc"
