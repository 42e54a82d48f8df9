"""Coefficients between learning phases: recursive least squares that forgets towards the kernels.

Salgado, Goodwin and Middleton, "Modified least squares algorithm incorporating exponential
resetting and forgetting", International Journal of Control 47(2), 1988, in its information form.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.energy.model import KernelRun
from shared.numerics.linear import decompose, total

Floats = NDArray[np.float64]

# Fifty runs of a pair then count as much as all before them.
FORGETTING: Final = 0.98
# Directions that are this much weaker than the strongest are rounding: they keep what was learned.
TOLERANCE: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class PairEvidence:
    """What runs at both P-states of a pair said since the learning phase.

    With x = [metric, TPI, 1] at the one, y the metric at the other, w0 the learned coefficients and
    l the forgetting: `gram` S = sum of l^k x x', shape (2, 3, 3), and `moment` m = sum of
    l^k x (y - x'w0), shape (2, 3), k counting back from the newest. The first line of each is
    power (equation 1), the second CPI (equation 2).
    """

    gram: Floats
    moment: Floats

    @classmethod
    def none(cls) -> "PairEvidence":
        """Return what is known before any pair of runs: zeros."""
        return cls(np.zeros((2, 3, 3)), np.zeros((2, 3)))

    @classmethod
    def stack(cls, of: Sequence["PairEvidence"]) -> "PairEvidence":
        """Return the evidence of several pairs, along a leading axis."""
        return cls(np.stack([each.gram for each in of]), np.stack([each.moment for each in of]))

    def and_run(
        self, learned: Floats, before: KernelRun, after: KernelRun, forgetting: float = FORGETTING
    ) -> "PairEvidence":
        """Return the evidence with one more run: S <- l S + x x', m <- l m + x (y - x'w0).

        S stays symmetric to the last bit and, since l < 1, below max |x|^2 / (1 - l).
        """
        x = regressors(before)
        surprise = np.array([after.power_w, after.cpi]) - (learned * x).sum(axis=1)
        return PairEvidence(
            gram=forgetting * self.gram + x[:, :, np.newaxis] * x[:, np.newaxis, :],
            moment=forgetting * self.moment + x * surprise[:, np.newaxis],
        )


def regressors(run: KernelRun) -> Floats:
    """Return [P, TPI, 1] and [CPI, TPI, 1]: shape (2, 3)."""
    return np.array([[run.power_w, run.tpi, 1.0], [run.cpi, run.tpi, 1.0]])


def gram_of(runs: Iterable[KernelRun]) -> Floats:
    """Return X'X of the kernels of a learning phase at the P-state that is projected from: (2, 3,
    3)."""
    x = np.array([regressors(run) for run in runs]).reshape(-1, 2, 3)
    return total(x[..., :, np.newaxis] * x[..., np.newaxis, :])


def adapt(learned: Floats, kernels: Floats, evidence: PairEvidence) -> Floats:
    """Return the coefficients [own, TPI, constant] of power and CPI, shape (2, 3), after the
    evidence; of many pairs at once where all arrays have a leading axis for them.

    w = w0 + (R0 + S)^-1 m, R0 being `kernels`: what minimises the squared errors of the kernels
    and, with forgetting, of the runs. R0 + S is never below R0: where runs say nothing, what was
    learned stays. Columns are scaled to a diagonal of 1 before the inverse is taken.
    """
    gram = kernels + evidence.gram
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    alike = gram * scale[..., :, np.newaxis] * scale[..., np.newaxis, :]
    found = decompose(np.moveaxis(alike, (-2, -1), (0, 1)))
    correction = found.solved(np.moveaxis(scale * evidence.moment, -1, 0), TOLERANCE)
    return np.asarray(learned + scale * np.moveaxis(correction, 0, -1))
