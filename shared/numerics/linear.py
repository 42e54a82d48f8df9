"""Least squares without BLAS or LAPACK: the same digits on every processor.

`@` and numpy.linalg call OpenBLAS, whose kernels sum in another order on each processor. What is
here adds, multiplies, divides and takes square roots, each of which IEEE 754 rounds in one way, in
an order that only the shapes decide. Many small matrices are taken at once: arrays have the shape
(columns, rows, ...), and what follows counts matrices.
"""

from itertools import combinations, product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_EPSILON: Final = float(np.finfo(np.float64).eps)
# Sweeps converge quadratically: matrices of a few columns take 4 to 8.
_MOST_SWEEPS: Final = 30
# Singular values of an active set below this share of the largest are rounding.
_ACTIVE_TOLERANCE: Final = 1e-12


class Decomposition(NamedTuple):
    """A = sum over c of left[c] singular[c] right[c]', singular values in no order.

    `left` (columns, rows, ...) is orthonormal where its singular value is above 0, `singular` has
    the shape (columns, ...), `right` (columns, columns, ...).
    """

    left: Floats
    singular: Floats
    right: Floats

    def kept(self, tolerance: float) -> Mask:
        """Return which singular values are above `tolerance` of the largest: the others are
        rounding."""
        return np.asarray(self.singular > tolerance * self.singular.max(axis=0))

    def rank(self, tolerance: float) -> Ints:
        """Return how many columns say something of their own, shape (...)."""
        return np.asarray(self.kept(tolerance).sum(axis=0))

    def solved(self, target: Floats, tolerance: float) -> Floats:
        """Return the shortest x with the least |A x - target|, shape (columns, ...)."""
        kept = self.kept(tolerance)
        along = self._along(target) / np.where(kept, self.singular, 1.0)
        return total(self.right * np.where(kept, along, 0.0)[:, np.newaxis])

    def fitted(self, target: Floats, tolerance: float) -> Floats:
        """Return A x of that x: the target's projection onto the columns, shape (rows, ...)."""
        along = np.where(self.kept(tolerance), self._along(target), 0.0)
        return total(self.left * along[:, np.newaxis])

    def leverage(self, tolerance: float) -> Floats:
        """Return the diagonal of the hat matrix A (A'A)^-1 A', shape (rows, ...)."""
        return total(np.square(self.left) * self.kept(tolerance)[:, np.newaxis])

    def _along(self, target: Floats) -> Floats:
        return total(self.left * target, axis=1)


def total(values: Floats, axis: int = 0) -> Floats:
    """Sum along an axis, in an order that the shape decides."""
    return np.asarray(np.add.reduce(values, axis=axis))


def decompose(matrix: Floats) -> Decomposition:
    """Return the singular value decomposition of `matrix` (columns, rows, ...), by one-sided Jacobi
    rotations: pairs of columns are rotated until all are at right angles.

    Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.3; after Hestenes, J. SIAM
    6(1), 1958. Small singular values are as exact as large ones (Demmel and Veselic, "Jacobi's
    method is more accurate than QR", SIAM J. Matrix Anal. Appl. 13(4), 1992). NaN stays NaN.
    """
    columns, right = matrix.copy(), _identity(matrix)
    pairs = list(combinations(range(len(matrix)), 2))
    tolerance = _EPSILON * max(1, matrix.shape[1])
    for _ in range(_MOST_SWEEPS):
        turned = [_made_orthogonal(columns, right, p, q, tolerance) for p, q in pairs]
        if not any(turned):
            break
    singular = np.sqrt(total(np.square(columns), axis=1))
    length = np.where(singular > 0, singular, 1.0)[:, np.newaxis]
    return Decomposition(columns / length, singular, right)


def _identity(matrix: Floats) -> Floats:
    count, batch = len(matrix), matrix.shape[2:]
    square = np.eye(count).reshape(count, count, *(1 for _ in batch))
    return np.broadcast_to(square, (count, count, *batch)).copy()


def _made_orthogonal(columns: Floats, right: Floats, p: int, q: int, tolerance: float) -> bool:
    """Rotate columns p and q in place where they are not at right angles; whether any were."""
    mixed = total(columns[p] * columns[q])
    p_square, q_square = total(np.square(columns[p])), total(np.square(columns[q]))
    turned = np.abs(mixed) > tolerance * np.sqrt(p_square) * np.sqrt(q_square)
    if not turned.any():
        return False
    cosine, sine = _rotation(p_square, q_square, np.where(turned, mixed, 1.0))
    cosine, sine = np.where(turned, cosine, 1.0), np.where(turned, sine, 0.0)
    for vectors in (columns, right):
        first, second = vectors[p], vectors[q]
        vectors[p], vectors[q] = cosine * first - sine * second, sine * first + cosine * second
    return True


def _rotation(p_square: Floats, q_square: Floats, mixed: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine of the smaller angle that brings two columns to right angles."""
    with np.errstate(over="ignore"):
        zeta = (q_square - p_square) / (2 * mixed)
        tangent = np.copysign(1.0, zeta) / (np.abs(zeta) + np.sqrt(1 + zeta * zeta))
    cosine = 1 / np.sqrt(1 + tangent * tangent)
    return cosine, cosine * tangent


def non_negative(matrix: Floats, target: Floats) -> Floats:
    """Return the x >= 0 with the least |A x - target|, for one `matrix` (columns, rows) of few
    columns.

    It is the plain least squares solution over the columns where it is above 0 (Lawson and Hanson,
    "Solving Least Squares Problems", 1974, chapter 23): the best of those that are nowhere below 0,
    among all 2^columns sets of columns.
    """
    found = decompose(matrix)
    # |A x - target| differs from |S V' x - U' target| by what no x changes.
    reduced = (found.right * found.singular[:, np.newaxis]).T
    along = total(found.left * target, axis=1)[:, np.newaxis]
    sets = np.array(list(product((False, True), repeat=len(matrix)))).T
    parts = np.where(sets[:, np.newaxis], reduced[..., np.newaxis], 0.0)
    solved = decompose(parts).solved(along, _ACTIVE_TOLERANCE)
    error = total(np.square(total(parts * solved[:, np.newaxis]) - along))
    best = np.where((solved >= 0).all(axis=0), error, np.inf).argmin()
    return np.asarray(solved[:, best])
