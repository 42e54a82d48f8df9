"""Trees of pairs, of examples as bad as bounds of events let them come."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from services.prediction import pair_trees
from services.prediction.pair_trees import PairExample, grow, unseen_errors
from shared.models.pair_trees import MOST_EXCESS, UNIT, Side, row_of_pair

# As docs/bounds.md has them: 0 to a million GB/s of at least 0.1, a core of a million to all.
SIDES = st.builds(
    Side,
    st.sampled_from([0.0, 1e-7, 0.5, 1.0, 1e7]),
    st.sampled_from([1e-6, 0.5, 1.0]),
    st.sampled_from([0.01, 1.0, 1000.0]),
    st.sampled_from([1.0, 300.0, 100_000.0]),
)
NAMES = st.sampled_from(["a", "b", "c", "x" * 256])
EXAMPLES = st.builds(
    PairExample,
    st.sampled_from(["p1", "p2"]),
    st.tuples(NAMES, NAMES),
    SIDES,
    SIDES,
    st.sampled_from([1.0, 1.2, 100_000.0]),
)
MIDDLE = Side(0.5, 0.5, 1.0, 300.0)
ONE = PairExample("p1", ("a", "b"), MIDDLE, MIDDLE, 1.5)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_trees, "TREES", 2)


@settings(max_examples=25, deadline=None)
@given(learned=st.lists(EXAMPLES, min_size=1, max_size=12), asked=SIDES, other=SIDES)
@example(learned=[ONE], asked=MIDDLE, other=Side(1e7, 1.0, 0.01, 1.0))
def test_whatever_is_learned_what_is_said_of_anybody_is_a_slowdown(
    learned: list[PairExample], asked: Side, other: Side
) -> None:
    forest = grow(learned)
    said = forest.predict(np.array([row_of_pair(asked, other)]))
    assert 0.0 <= said[0] <= MOST_EXCESS
    assert said[0] * 2 / UNIT == round(said[0] * 2 / UNIT)
    assert np.isfinite(unseen_errors(learned)).all()


def test_columns_that_are_constant_leave_the_mean_of_what_was_measured() -> None:
    learned = [ONE._replace(slowdown_ratio=ratio) for ratio in (1.25, 1.5, 1.75)] * 40
    learned += [ONE._replace(apps=apps) for apps in (("a", "a"), ("b", "a"), ("b", "b"))] * 40
    said = grow(learned).predict(np.array([row_of_pair(MIDDLE, MIDDLE)]))
    assert said[0] == pytest.approx(0.5, abs=UNIT)
