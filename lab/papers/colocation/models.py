"""The models of Zacarias et al. (2021) on measured pairs, and which of them is chosen: by R^2 as it
is usual, and by the makespans of queues that are played (sections 3.3, 3.6 and 4.3).

Hyper-parameters are sought on 70 % of the pairs. With these a model learns anew for each queue, of
all pairs that the queue's applications have no part in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from cli.progress import progress_of
from lab.evaluate.degradation import DegradationScore, Predict, score
from lab.evaluate.pair_files import PairFiles
from lab.papers.colocation.pair_rows import held_out, of_cells, ranks
from lab.papers.colocation.queues import QUEUES, QueuedApps, queued_apps
from lab.papers.colocation.regressors import REGRESSORS
from lab.papers.colocation.tuning import Learn, PairLearner, cross_validated
from lab.papers.placement.markdown import table
from services.prediction.degradation_trees import train_extra_trees
from shared.colocation.history import Ints, Mask
from shared.colocation.makespan import fifo, makespan_s, paired
from shared.colocation.measured import Floats
from shared.colocation.model import Cells, DegradationModel
from shared.colocation.pairing import blossom, greedy, saved_s

TRIALS: Final = 20
SHIPS: Final = "Coplace"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A model with the columns it reads, and how it learns; `r2` is that of cross-validation on
    pairs that are not held out."""

    model: str
    features: str
    learned: Learn
    r2: float


class PolicyShares(NamedTuple):
    """Makespans of a queue as shares of FIFO's; `perfect` is of blossom that knows degradation."""

    greedy: float
    blossom: float
    perfect: float


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A candidate on the pairs held out, where a share of what it said was negative; on the queues
    that are reported; and on others, by which one is chosen."""

    candidate: Candidate
    held: DegradationScore
    negative: float
    told: list[PolicyShares]
    others: list[PolicyShares]


def judged(
    files: PairFiles,
    features: Mapping[str, Floats],
    *,
    trials: int = TRIALS,
    queues: int = QUEUES,
    seed: int = 0,
) -> list[Judged]:
    """Judge each model with each set of columns, and what ships, on the same pairs and queues."""
    rank = ranks(files.degradation, seed)
    out = held_out(files.degradation, rank)
    candidates = [*_tuned(files, features, rank, out, trials, seed), _ships(files, rank, out, seed)]
    drawn = [queued_apps(files, number) for number in range(2 * queues)]
    found = []
    with progress_of(len(candidates), "judged") as tell:
        for number, each in enumerate(candidates):
            shares = [_played(files, each, apps) for apps in drawn]
            on_held = _on_held_out(files.degradation, each.learned(out), out)
            found.append(Judged(each, *on_held, shares[:queues], shares[queues:]))
            tell(number + 1)
    return found


def _tuned(
    files: PairFiles,
    features: Mapping[str, Floats],
    rank: Ints,
    out: Mask,
    trials: int,
    seed: int,
) -> Iterator[Candidate]:
    total = len(features) * len(REGRESSORS) * trials
    with progress_of(total, "trials") as tell:
        done = iter(range(1, total + 1))
        for named, columns in features.items():
            for model, regressor in REGRESSORS.items():
                learner = PairLearner(regressor, columns, files.degradation, seed)
                best = learner.tuned(rank, out, trials, seed, lambda: tell(next(done)))
                learned = partial(learner.learned, best.parameters)
                yield Candidate(model, named, learned, best.value)


def _ships(files: PairFiles, rank: Ints, out: Mask, seed: int) -> Candidate:
    """The predictor of `coplace evaluate degradation`."""
    train = partial(train_extra_trees, seed=seed)

    def learned(hidden: Mask) -> Predict:
        left = np.where(hidden, np.nan, files.degradation)
        return DegradationModel(files.profiles, left, train).predict

    r2 = cross_validated(learned, files.degradation, rank, out)
    return Candidate(SHIPS, "profile, other pairs", learned, r2)


def _on_held_out(
    degradation: Floats, predict: Predict, out: Mask
) -> tuple[DegradationScore, float]:
    """What is said below 0 counts as 0, as what was measured does."""
    cells = Cells.with_values(np.where(out, degradation, np.nan))
    said = predict(cells)
    found = score(of_cells(degradation, cells), np.maximum(said, 0.0))
    return found, float((said < 0).mean())


def _played(files: PairFiles, candidate: Candidate, queued: QueuedApps) -> PolicyShares:
    """A queue by greedy and blossom on what is predicted, and by blossom on what was measured."""
    machine, apps = queued.machine, queued.apps
    shape = len(apps), len(apps)
    of = files.degradation[machine][np.ix_(apps, apps)]
    first, second = np.indices(shape).reshape(2, -1)
    cells = Cells(np.full(len(first), machine), apps[first], apps[second])
    said = candidate.learned(queued.hidden(files.degradation))(cells).reshape(shape)
    alone_s = files.profiles.alone_s[machine, apps]
    predicted, measured = (
        saved_s(alone_s, 100 * each) for each in (np.where(np.isnan(of), np.nan, said), of)
    )
    fifo_s = makespan_s(fifo(alone_s))
    return PolicyShares(
        *(
            makespan_s(paired(alone_s, of, matching)) / fifo_s
            for matching in (greedy(predicted), blossom(predicted), blossom(measured))
        )
    )


def gained(shares: Sequence[PolicyShares]) -> float:
    """Return what blossom gains on FIFO, as a share of what it would gain by perfect prediction."""
    said, perfect = (
        np.array([1 - getattr(each, name) for each in shares]).sum()
        for name in ("blossom", "perfect")
    )
    return float(said / perfect)


def of_models(found: Sequence[Judged]) -> str:
    """Return a row for each candidate."""
    header = ["model", "columns", "R², cross-validated", "R², held out", "error of T_alone / T_co"]
    header += ["negative, %", "greedy, % of FIFO", "blossom, % of FIFO", "gain, % of perfect"]
    header.append("gain on other queues")
    rows = []
    for each in found:
        shares = np.array(each.told)
        cells = [each.candidate.model, each.candidate.features]
        cells += [f"{r2:.3f}" for r2 in (each.candidate.r2, each.held.r2)]
        cells.append(f"{each.held.rel_perf_error:.4f}")
        figures = each.negative, shares[:, 0].mean(), shares[:, 1].mean()
        gains = gained(each.told), gained(each.others)
        rows.append(cells + [f"{100 * figure:.1f}" for figure in (*figures, *gains)])
    return table(header, rows)


def of_choices(found: Sequence[Judged]) -> str:
    """Return which model each way to choose takes, what ships left out, and its result on the
    queues that nothing was chosen by."""
    papers = [each for each in found if each.candidate.model != SHIPS]
    ways = {
        "R², cross-validated": max(papers, key=lambda each: each.candidate.r2),
        "makespan of other queues": max(papers, key=lambda each: gained(each.others)),
    }
    rows = [
        [
            way,
            f"{each.candidate.model}, {each.candidate.features}",
            f"{each.held.r2:.3f}",
            f"{100 * np.array(each.told)[:, 1].mean():.1f}",
            f"{100 * gained(each.told):.1f}",
        ]
        for way, each in ways.items()
    ]
    header = ["chosen by", "model", "R², held out", "blossom, % of FIFO", "gain, % of perfect"]
    return table(header, rows)
