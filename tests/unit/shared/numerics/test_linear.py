"""What numpy's LAPACK says of the same matrices is the standard here: it is only tests that ask."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls

from shared.numerics.linear import Decomposition, Floats, decompose, non_negative, total

TOLERANCE = 1e-9
RNG = np.random.default_rng(1)


def rebuilt(found: Decomposition) -> Floats:
    """A from its parts: (columns, rows)."""
    scaled = found.left * found.singular[:, np.newaxis]
    return np.asarray(np.einsum("cr,cj->jr", scaled, found.right))


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 2), (3, 12), (4, 300), (3, 2)])
def test_the_parts_make_the_matrix(columns: int, rows: int) -> None:
    matrix = RNG.normal(size=(columns, rows))
    found = decompose(matrix)
    assert rebuilt(found) == pytest.approx(matrix, rel=1e-13, abs=1e-14)
    assert np.sort(found.singular)[::-1][:rows] == pytest.approx(
        np.linalg.svd(matrix, compute_uv=False), rel=1e-13
    )
    kept = found.left[found.singular > 1e-12]
    assert kept @ kept.T == pytest.approx(np.eye(len(kept)), abs=1e-14)
    assert found.right @ found.right.T == pytest.approx(np.eye(columns), abs=1e-14)


@given(arrays(np.float64, (3, 5), elements=st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6)))
def test_least_squares_are_those_of_lapack_where_columns_are_well_separated(matrix: Floats) -> None:
    if np.linalg.cond(matrix) > 1e4:
        return
    target = np.array([1.0, -2.0, 3.0, 0.5, 7.0])
    found = decompose(matrix)
    expected = np.linalg.lstsq(matrix.T, target)[0]
    assert found.solved(target, TOLERANCE) == pytest.approx(expected, rel=1e-7, abs=1e-12)
    assert found.fitted(target, TOLERANCE) == pytest.approx(expected @ matrix, rel=1e-7, abs=1e-7)


def test_alike_columns_lower_the_rank_and_share_what_they_explain() -> None:
    matrix = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    found = decompose(matrix)
    target = np.array([2.0, 5.0, 6.0])
    assert found.rank(TOLERANCE) == 2
    assert found.solved(target, TOLERANCE) == pytest.approx(np.array([1.0, 1.0, 1.0]))
    zeros = decompose(np.stack([np.ones(6), np.zeros(6), np.arange(6.0)]))
    assert zeros.solved(3 + 2 * np.arange(6.0), TOLERANCE) == pytest.approx(np.array([3.0, 0, 2]))
    small = RNG.normal(size=(3, 8)) * np.array([1e8, 1.0, 1e-9])[:, np.newaxis]
    true = np.array([3e-8, 2.0, 5e9])  # a small column is as exact as a large one
    assert decompose(small).solved(true @ small, 1e-20) == pytest.approx(true, rel=1e-12)


@pytest.mark.parametrize("matrix", [np.zeros((3, 4)), np.zeros((3, 0))])
def test_a_matrix_of_nothing_says_nothing(matrix: Floats) -> None:
    found = decompose(matrix)
    assert found.rank(TOLERANCE) == 0
    assert not found.solved(np.ones(matrix.shape[1]), TOLERANCE).any()
    assert not found.leverage(TOLERANCE).any()


def test_the_leverage_of_a_row_is_its_place_on_the_diagonal_of_the_hat_matrix() -> None:
    matrix = RNG.normal(size=(3, 9))
    hat = matrix.T @ np.linalg.inv(matrix @ matrix.T) @ matrix
    assert decompose(matrix).leverage(TOLERANCE) == pytest.approx(np.diag(hat), rel=1e-12)


def test_many_matrices_at_once_are_each_what_they_are_alone() -> None:
    many, target = RNG.normal(size=(3, 7, 5, 4)), RNG.normal(size=(7, 5, 4))
    many[:, :, 2, 2] = 0.0
    together = decompose(many).solved(target, TOLERANCE)
    for at in np.ndindex(5, 4):
        alone = decompose(many[(..., *at)]).solved(target[(..., *at)], TOLERANCE)
        assert together[(..., *at)] == pytest.approx(alone, rel=1e-12, abs=1e-15)


def test_what_is_no_number_stays_none_and_spoils_no_other_matrix() -> None:
    many = RNG.normal(size=(3, 7, 2))
    many[0, 0, 0] = np.nan
    found = decompose(many)
    assert found.rank(TOLERANCE).tolist() == [0, 3]
    assert rebuilt(Decomposition(*(part[..., 1] for part in found))) == pytest.approx(many[..., 1])


@pytest.mark.parametrize("true", [(0.0, 0.1, 0.2, 0.5), (0.3, -0.4, 0.2, -0.1), (-1, -1, -1, -1)])
@pytest.mark.parametrize("rows", [3, 20, 1000])
def test_weights_not_below_zero_are_those_of_lawson_and_hanson(
    true: tuple[float, ...], rows: int
) -> None:
    own, other = RNG.random((2, rows))
    matrix = np.stack([np.ones(rows), own, other, own * other])
    target = np.array(true) @ matrix + RNG.normal(0, 0.05, rows)
    found, (_, least) = non_negative(matrix, target), nnls(matrix.T, target)
    assert (found >= 0).all()
    assert np.sqrt(total((found @ matrix - target) ** 2)) == pytest.approx(least, rel=1e-9)
    alike = non_negative(matrix[:, :1].repeat(rows, axis=1), np.full(rows, 0.1))
    assert (alike >= 0).all()
    assert alike @ matrix[:, 0] == pytest.approx(0.1)
