"""Degradation of pairs, predicted from profiles and from other pairs.

The mean of three: a forest over the profiles of both, and two estimates, each with a forest of what
it leaves. Of an application that never ran beside another only its profile is known. So there are
forests for each case: the target's history known or not, the neighbour's known or not. No column of
a forest is of a pair, so that all pairs of a queue are evaluated without a row of any.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from shared.colocation.history import Ints, Mask, PairHistory
from shared.colocation.measured import Floats, Profiles
from shared.models.forest import Forest
from shared.models.pair_forest import all_pairs


class TrainForest(Protocol):
    """Grows a forest from rows and what it shall say of them. One of rests tries fewer columns of
    each split, so that it leans on none."""

    def __call__(self, rows: Floats, value: Floats, *, of_rest: bool) -> Forest: ...


class Cells(NamedTuple):
    """Targets beside neighbours on machines, as indexes: arrays of one length."""

    machine: Ints
    target: Ints
    neighbour: Ints

    def only(self, of: Mask) -> "Cells":
        """Return the cells that the mask selects."""
        return Cells(self.machine[of], self.target[of], self.neighbour[of])

    def mirrored(self) -> "Cells":
        """Return the neighbours beside the targets."""
        return Cells(self.machine, self.neighbour, self.target)

    @classmethod
    def with_values(cls, degradation: Floats) -> "Cells":
        """Return the cells of (machines, targets, neighbours) that have a value."""
        return cls(*np.nonzero(~np.isnan(degradation)))


class _KnownHistory(NamedTuple):
    """Which of a pair was measured beside others."""

    target_known: bool
    neighbour_known: bool


_CASES: Final = tuple(_KnownHistory(a, b) for a in (False, True) for b in (False, True))


class _Trained(NamedTuple):
    """A forest over profiles, and one of what each estimate leaves, over profiles and history."""

    of_profiles: Forest
    of_rests: list[Forest]


@dataclass(eq=False, slots=True)
class DegradationModel:
    """Learned from `degradation` (machines, targets, neighbours): T_co / T_alone - 1, NaN where it
    is not known. Forests grow when they are first asked."""

    profiles: Profiles
    degradation: Floats
    train: TrainForest
    _alone: Floats = field(init=False)
    _curves: Floats = field(init=False)
    _history: PairHistory = field(init=False)
    _trained: dict[_KnownHistory, _Trained] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._alone, self._curves = self.profiles.columns(), self.profiles.filled_curves()
        self._history = PairHistory.from_degradation(self.degradation, self._curves)

    def predict(self, cells: Cells) -> Floats:
        """Predict each cell. One that was learned from is near what was measured of it."""
        found = np.empty(len(cells.machine))
        for case_of_all, of in self._cases(cells):
            asked, case = cells.only(of), self._learnable(case_of_all)
            trained, rows = self._forests(case), self._rows(asked, case)
            terms = [trained.of_profiles.predict(self._rows(asked, _CASES[0]))]
            terms += [
                estimate[asked] + forest.predict(rows)
                for estimate, forest in zip(self._estimates(case), trained.of_rests, strict=True)
            ]
            found[of] = _mean(terms)
        return np.maximum(found, self._least)

    def all_pairs(self, machine: int, apps: Ints) -> Floats:
        """Predict each job beside each other one, shape (jobs, jobs); `apps` says what each job
        runs.

        No pair of these applications may have been measured: its own value would predict itself.
        """
        found = np.empty((len(apps), len(apps)))
        known = self._is_known(np.full(len(apps), machine), apps, apps)
        for case in _CASES:
            targets = np.flatnonzero(known == case.target_known)
            neighbours = np.flatnonzero(known == case.neighbour_known)
            if targets.size and neighbours.size:
                found[np.ix_(targets, neighbours)] = self._block(
                    self._learnable(case), machine, apps[targets], apps[neighbours]
                )
        return np.maximum(found, self._least)

    def _block(self, case: _KnownHistory, machine: int, targets: Ints, neighbours: Ints) -> Floats:
        trained = self._forests(case)
        machines = np.full(len(targets), machine), np.full(len(neighbours), machine)
        first = self._of_role(machines[0], targets, targets, case.target_known)
        second = self._of_role(machines[1], neighbours, neighbours, case.neighbour_known)
        alone = self._alone[machine]
        terms = [all_pairs(trained.of_profiles, alone[targets], alone[neighbours])]
        terms += [
            estimate[machine][np.ix_(targets, neighbours)] + all_pairs(forest, first, second)
            for estimate, forest in zip(self._estimates(case), trained.of_rests, strict=True)
        ]
        return _mean(terms)

    @property
    def _least(self) -> float:
        return float(np.nanmin(self.degradation))

    def _cases(self, cells: Cells) -> list[tuple[_KnownHistory, Mask]]:
        machine, target, neighbour = cells
        target_known = self._is_known(machine, target, neighbour)
        neighbour_known = self._is_known(machine, neighbour, target)
        found = [
            (case, (target_known == case.target_known) & (neighbour_known == case.neighbour_known))
            for case in _CASES
        ]
        return [(case, of) for case, of in found if of.any()]

    def _is_known(self, machine: Ints, app: Ints, without: Ints) -> Mask:
        return np.asarray(self._history.known[machine, app, without])

    def _forests(self, case: _KnownHistory) -> _Trained:
        if case not in self._trained:
            self._trained[case] = self._grown(case)
        return self._trained[case]

    def _learnable(self, case: _KnownHistory) -> _KnownHistory:
        """The case; that of profiles alone where no pair that was measured is of this one."""
        return case if len(self._to_learn(case).machine) else _CASES[0]

    def _to_learn(self, case: _KnownHistory) -> Cells:
        cells = Cells.with_values(self.degradation)
        learned = self._is_known(*cells) | (not case.target_known)
        learned &= self._is_known(*cells.mirrored()) | (not case.neighbour_known)
        return cells.only(learned)

    def _grown(self, case: _KnownHistory) -> _Trained:
        cells = self._to_learn(case)
        rows, actual = self._rows(cells, case), self.degradation[cells]
        return _Trained(
            self.train(self._rows(cells, _CASES[0]), actual, of_rest=False),
            [
                self.train(rows, actual - estimate[cells], of_rest=True)
                for estimate in self._estimates(case)
            ],
        )

    def _estimates(self, case: _KnownHistory) -> list[Floats]:
        """(machines, targets, neighbours); none beside a neighbour that nobody had."""
        if not case.neighbour_known:
            return []
        known = self._history
        return [known.like_bubble, known.like_targets if case.target_known else known.like_curves]

    def _rows(self, cells: Cells, case: _KnownHistory) -> Floats:
        machine, target, neighbour = cells
        first = self._of_role(machine, target, neighbour, case.target_known)
        second = self._of_role(machine, neighbour, target, case.neighbour_known)
        return np.concatenate([first, second], axis=1)

    def _of_role(self, machine: Ints, app: Ints, without: Ints, known: bool) -> Floats:
        alone = self._alone[machine, app]
        if not known:
            return alone
        return np.concatenate([alone, self._history.columns[machine, app, without]], axis=1)


def _mean(terms: Sequence[Floats]) -> Floats:
    """Added up one by one: an order that does not depend on how many cells there are."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total / len(terms)
