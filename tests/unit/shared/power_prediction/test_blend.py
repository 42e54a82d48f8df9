"""The median that follows who was right."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.power_prediction.blend import Blend, weighted_median
from shared.power_prediction.submission import Submission

ADA = Submission("1", "ada", 1.0, 60.0)


def test_who_is_right_about_a_users_jobs_counts_for_this_user() -> None:
    blend = Blend(np.ones(3))
    for _ in range(5):
        blend.learn(ADA, np.array([4.0, 5.0, 5.5]), 4.0)
        blend.learn(ADA._replace(user="bob"), np.array([4.0, 5.0, 5.5]), 5.5)
    assert blend.weights(ADA, np.ones(1)).argmax() == 0
    assert blend.weights(ADA._replace(user="bob"), np.ones(1)).argmax() == 2
    # One absurd miss does not silence a predictor for ever.
    blend = Blend(np.ones(2))
    blend.learn(ADA, np.array([300.0, 5.0]), 5.0)
    for _ in range(30):
        blend.learn(ADA, np.array([5.0, 6.0]), 5.0)
    assert blend.weights(ADA, np.ones(1)).argmax() == 0


def test_who_cannot_know_a_job_counts_less_for_it() -> None:
    weights = Blend(np.array([1.0, 1.0])).weights(ADA, np.array([1.0, 0.25]))
    assert weights.tolist() == [0.8, 0.2]


values = st.lists(st.tuples(st.floats(-10, 10), st.floats(0.01, 1)), min_size=1, max_size=12)


@given(values)
def test_half_of_the_weight_lies_on_both_sides_of_a_weighted_median(
    pairs: list[tuple[float, float]],
) -> None:
    numbers, weights = map(np.array, zip(*pairs, strict=True))
    median = weighted_median(numbers, weights)
    half = weights.sum() / 2 - 1e-9
    assert median in numbers
    assert weights[numbers <= median].sum() >= half
    assert weights[numbers >= median].sum() >= half
