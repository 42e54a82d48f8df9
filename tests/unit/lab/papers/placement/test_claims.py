"""A figure of the paper is the best of several cells."""

import pytest

from lab.papers.placement.claims import Claim
from lab.papers.placement.rows import Grid

GRID = Grid((1, 2), {})
CELLS = [[1.0, 9.0], [6.0, 2.0]]


@pytest.mark.parametrize(("is_least", "mean", "each"), [(False, 5.0, 7.5), (True, 4.0, 1.5)])
def test_the_best_mean_is_that_of_one_cell_and_each_seed_has_a_best_cell_of_its_own(
    is_least: bool, mean: float, each: float
) -> None:
    claim = Claim("figure", "6", "5.2", lambda _: CELLS, is_least=is_least)
    best = claim.best_of_each(GRID)
    assert claim.best_mean(GRID).mean == mean
    assert best is not None
    assert best.mean == each


def test_a_single_cell_is_not_the_best_of_any() -> None:
    assert Claim("figure", "6", "5.2", lambda _: CELLS[:1]).best_of_each(GRID) is None
