"""Hyper-parameters of a model, sought by cross-validation on pairs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from lab.evaluate.degradation import Predict, score
from lab.papers.colocation.pair_rows import FOLDS, of_cells, rows_of_cells
from lab.papers.colocation.regressors import Regressor
from lab.papers.colocation.search import Best, Parameters, maximised
from shared.colocation.history import Ints, Mask
from shared.colocation.measured import Floats
from shared.colocation.model import Cells

# Gives predictions of a model that has seen all pairs but hidden ones.
Learn = Callable[[Mask], Predict]


def cross_validated(learned: Learn, degradation: Floats, rank: Ints, out: Mask) -> float:
    """Return R^2 on five folds of the pairs that are not held out, by their ranks; each fold is
    predicted by what learned of the four others."""
    actual = np.where(out, np.nan, degradation)
    said = np.full(actual.shape, np.nan)
    for fold in range(FOLDS):
        of_fold = np.broadcast_to(rank % FOLDS == fold, actual.shape)
        cells = Cells.with_values(np.where(of_fold, actual, np.nan))
        said[cells] = learned(out | of_fold)(cells)
    cells = Cells.with_values(actual)
    return score(of_cells(actual, cells), said[cells]).r2


@dataclass(frozen=True, slots=True, eq=False)
class PairLearner:
    """A model that reads columns of applications, (machines, applications, columns), and learns of
    degradation, (machines, targets, neighbours)."""

    regressor: Regressor
    columns: Floats
    degradation: Floats
    seed: int

    def learned(self, parameters: Parameters, hidden: Mask) -> Predict:
        """Return what it says after it has seen all pairs but the hidden ones."""
        cells = Cells.with_values(np.where(hidden, np.nan, self.degradation))
        rows, value = rows_of_cells(self.columns, cells), of_cells(self.degradation, cells)
        fitted = self.regressor.fitted(parameters, rows, value, self.seed)
        return lambda asked: fitted.predict(rows_of_cells(self.columns, asked))

    def tuned(
        self, rank: Ints, out: Mask, trials: int, seed: int, tell: Callable[[], None]
    ) -> Best:
        """Return the best of so many trials; `tell` is called after each."""

        def value_of(parameters: Parameters) -> float:
            learned = partial(self.learned, parameters)
            found = cross_validated(learned, self.degradation, rank, out)
            tell()
            return found

        return maximised(value_of, self.regressor.space, trials, seed)
