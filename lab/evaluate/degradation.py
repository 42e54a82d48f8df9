"""Degradation of pairs that were held out of training, and how far off its predictors are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.box import MARKDOWN
from rich.table import Table

from cli.progress import progress_of
from lab.evaluate.pair_files import PairFiles
from services.prediction.degradation_trees import train_extra_trees
from shared.colocation.history import Mask
from shared.colocation.measured import Floats, Profiles
from shared.colocation.model import Cells, DegradationModel
from shared.process.folders import write_csv

FOLDS: Final = 5

UNSEEN_PAIRS: Final = "unseen pairs"
UNSEEN_TARGETS: Final = "unseen applications, as targets"
UNSEEN_NEIGHBOURS: Final = "unseen applications, as neighbours"
COPLACE: Final = "Coplace"
PLAIN: Final = "plain extra trees"
BUBBLE_UP: Final = "bubble-up"

KINDS: Final = (UNSEEN_PAIRS, UNSEEN_TARGETS, UNSEEN_NEIGHBOURS)

Predict = Callable[[Cells], Floats]
# Learns from (machines, targets, neighbours).
Learn = Callable[[Floats], Predict]


class _HeldOut(NamedTuple):
    """What a predictor may not see, (machines, targets, neighbours), and what it is asked then."""

    hidden: Mask
    asked: dict[str, Mask]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedDegradation:
    """Every cell that was measured, and what was said of it by kind of test and predictor; NaN
    where a predictor had nothing to say."""

    cells: Cells
    actual: Floats
    said: dict[tuple[str, str], Floats]


class DegradationScore(NamedTuple):
    """Of `rows` targets beside neighbours: R^2 of T_co / T_alone - 1, and the mean absolute error
    of the relative performance T_alone / T_co."""

    rows: int
    r2: float
    rel_perf_error: float


def evaluated(files: PairFiles, seed: int = 0) -> EvaluatedDegradation:
    """Evaluate all predictors on all that is held out, by one seed."""
    degradation = files.degradation
    learners = {PLAIN: _plain(files.profiles, seed), COPLACE: _coplace(files.profiles, seed)}
    said = {(kind, name): np.full(degradation.shape, np.nan) for kind in KINDS for name in learners}
    rounds = [*_folds(degradation.shape, seed), *_without_each(degradation.shape)]
    with progress_of(len(rounds), "held out") as tell:
        for number, held in enumerate(rounds):
            left = np.where(held.hidden, np.nan, degradation)
            if np.isnan(left).all():
                continue
            for name, learn in learners.items():
                predict = learn(left)
                for kind, of in held.asked.items():
                    cells = Cells.with_values(np.where(of, degradation, np.nan))
                    if len(cells.machine):
                        said[kind, name][cells] = predict(cells)
            tell(number + 1)
    cells = Cells.with_values(degradation)
    found = {key: each[cells] for key, each in said.items()}
    bubble_up = {(kind, BUBBLE_UP): files.bubble_up[cells] for kind in KINDS}
    return EvaluatedDegradation(cells, degradation[cells], bubble_up | found)


def score(actual: Floats, said: Floats) -> DegradationScore:
    """Score the cells that something was said of; NaN where that is less than two, or all alike."""
    of = ~np.isnan(said)
    actual, said = actual[of], said[of]
    if len(actual) < 2 or np.ptp(actual) == 0:
        return DegradationScore(len(actual), np.nan, np.nan)
    spread = float(np.square(actual - actual.mean()).sum())
    return DegradationScore(
        len(actual),
        1 - float(np.square(actual - said).sum()) / spread,
        float(np.abs(1 / (1 + actual) - 1 / (1 + said)).mean()),
    )


def table(found: EvaluatedDegradation) -> Table:
    """Return a table with a row for each kind of test and each predictor that said something."""
    printed = Table(box=MARKDOWN)
    printed.add_column("held out")
    printed.add_column("predictor")
    for name in ("rows", "R² of T_co / T_alone - 1", "mean abs. error of T_alone / T_co"):
        printed.add_column(name, justify="right")
    for (kind, name), each in sorted(
        scores(found).items(), key=lambda item: KINDS.index(item[0][0])
    ):
        printed.add_row(kind, name, str(each.rows), f"{each.r2:.3f}", f"{each.rel_perf_error:.4f}")
    return printed


def scores(found: EvaluatedDegradation) -> dict[tuple[str, str], DegradationScore]:
    """Return scores by kind of test and predictor, in their order."""
    said = sorted(found.said.items(), key=lambda item: KINDS.index(item[0][0]))
    all_scores = {key: score(found.actual, each) for key, each in said}
    return {key: each for key, each in all_scores.items() if each.rows}


def write_pairs(path: Path, profiles: Profiles, found: EvaluatedDegradation) -> None:
    """Write config, target, neighbour, meas_rel_perf, and what each predictor said of it when the
    pair and when the target was held out, empty where it said nothing."""
    kinds = {UNSEEN_PAIRS: "unseen_pair", UNSEEN_TARGETS: "unseen_target"}
    names = {BUBBLE_UP: "bubble_up", PLAIN: "extra_trees", COPLACE: "coplace"}
    columns = {
        f"{name}_{kind}": found.said[by_kind, by_name]
        for by_kind, kind in kinds.items()
        for by_name, name in names.items()
        if by_name != BUBBLE_UP
    }
    columns = {"bubble_up": found.said[UNSEEN_PAIRS, BUBBLE_UP]} | columns
    header = ("config", "target", "neighbour", "meas_rel_perf", *columns)
    write_csv(path, header, _rows(profiles, found, list(columns.values())))


def _rows(
    profiles: Profiles, found: EvaluatedDegradation, columns: Sequence[Floats]
) -> Iterator[Sequence[object]]:
    for row, (machine, target, neighbour) in enumerate(zip(*found.cells, strict=True)):
        about = profiles.machines[machine], profiles.apps[target], profiles.apps[neighbour]
        said = [found.actual[row], *(column[row] for column in columns)]
        yield *about, *map(_rel_perf, said)


def _rel_perf(degradation: float) -> float | str:
    return "" if np.isnan(degradation) else round(1 / (1 + float(degradation)), 6)


def _folds(shape: tuple[int, ...], seed: int) -> Iterator[_HeldOut]:
    """Each pair of applications falls into one fold, on all machines and in both directions."""
    _, apps, _ = shape
    first, second = np.triu_indices(apps)
    fold = np.empty((apps, apps), dtype=np.int64)
    drawn = np.random.default_rng(seed).permutation(len(first)) % FOLDS
    fold[first, second] = fold[second, first] = drawn
    for number in range(FOLDS):
        hidden = np.broadcast_to(fold == number, shape)
        yield _HeldOut(hidden, {UNSEEN_PAIRS: hidden})


def _without_each(shape: tuple[int, ...]) -> Iterator[_HeldOut]:
    """All pairs of one application, in either role."""
    for app in range(shape[1]):
        target, neighbour = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
        target[:, app, :], neighbour[:, :, app] = True, True
        asked = {UNSEEN_TARGETS: target, UNSEEN_NEIGHBOURS: neighbour}
        yield _HeldOut(target | neighbour, asked)


def _coplace(profiles: Profiles, seed: int) -> Learn:
    train = partial(train_extra_trees, seed=seed)
    return lambda degradation: DegradationModel(profiles, degradation, train).predict


def _plain(profiles: Profiles, seed: int) -> Learn:
    """A forest over both profiles alone."""
    alone = profiles.columns()

    def rows(of: Cells) -> Floats:
        pair = alone[of.machine, of.target], alone[of.machine, of.neighbour]
        return np.concatenate(pair, axis=1)

    def learn(degradation: Floats) -> Predict:
        known = Cells.with_values(degradation)
        forest = train_extra_trees(rows(known), degradation[known], seed=seed)
        return lambda cells: forest.predict(rows(cells))

    return learn
