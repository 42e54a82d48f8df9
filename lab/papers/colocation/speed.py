"""CPU time of all pairs of a queue, beside scikit-learn, and of their matching."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import numpy as np

from services.prediction.model import open_tree
from shared.colocation.measured import Floats
from shared.colocation.pairing import Matching, blossom, greedy, saved_s, total_saved_s, two_opt
from shared.models.forest import Forest
from shared.models.pair_forest import all_pairs

_COLUMNS: Final = 10
_LEARNED: Final = 700
_REPETITIONS: Final = 3
_TREES: Final = (6, 22)


Found = TypeVar("Found")
Match = Callable[[Floats], Matching]
_MATCHINGS: Final[dict[str, Match]] = {
    "greedy": greedy,
    "greedy + 2-opt": lambda saved: two_opt(saved, greedy(saved)),
    "blossom": blossom,
}


def cpu_s(work: Callable[[], Found], repetitions: int = _REPETITIONS) -> tuple[float, Found]:
    """Measure the least CPU time of some repetitions, and return the result."""
    least = inf
    for _ in range(repetitions):
        begin = time.process_time()
        found = work()
        least = min(least, time.process_time() - begin)
    return least, found


def all_pairs_rows() -> Iterator[list[str]]:
    """Yield jobs, trees, scikit-learn with rows of all pairs, and separable: CPU ms; how many
    times.

    700 pairs of random applications train a random forest of ten counters of each, as Zacarias.
    """
    rng = np.random.default_rng(0)
    for trees in _TREES:
        trained, forest = _forests(trees, rng)
        for jobs in 50, 250, 1000:
            counters = rng.random((jobs, _COLUMNS))

            def with_rows(counters: Any = counters, trained: Any = trained) -> Any:
                many = len(counters)
                pairs = (np.repeat(counters, many, axis=0), np.tile(counters, (many, 1)))
                return trained.predict(np.concatenate(pairs, axis=1))

            def separable(counters: Any = counters, forest: Forest = forest) -> Any:
                return all_pairs(forest, counters, counters)

            theirs, said = cpu_s(with_rows)
            ours, found = cpu_s(separable)
            if np.abs(said - found.ravel()).max() > 1e-9:
                raise ValueError("the separable form says something else than scikit-learn")
            yield [
                *(str(jobs), str(trees), f"{1e3 * theirs:.1f}", f"{1e3 * ours:.1f}"),
                f"{theirs / ours:.1f}",
            ]


def from_counters_rows() -> Iterator[list[str]]:
    """Yield jobs, trees, and the matching that such a queue has time for: CPU ms from counters
    on."""
    rng = np.random.default_rng(0)
    for trees in _TREES:
        _, forest = _forests(trees, rng)
        for jobs, name in (250, "blossom"), (1000, "greedy + 2-opt"):
            counters, alone_s = rng.random((jobs, _COLUMNS)), rng.lognormal(5.0, 1.0, jobs)

            def work(
                match: Match = _MATCHINGS[name],
                forest: Forest = forest,
                counters: Floats = counters,
                alone_s: Floats = alone_s,
            ) -> Matching:
                return match(saved_s(alone_s, 100 * all_pairs(forest, counters, counters)))

            timed_s, _ = cpu_s(work)
            yield [name, str(jobs), str(trees), f"{1e3 * timed_s:.1f}"]


def _forests(trees: int, rng: np.random.Generator) -> tuple[Any, Forest]:
    """What scikit-learn learned of random pairs, and the same in the open form."""
    from sklearn.ensemble import RandomForestRegressor

    rows = rng.random((_LEARNED, 2 * _COLUMNS))
    degradation = rows[:, 0] * rows[:, _COLUMNS] + rows[:, 1] * rows[:, _COLUMNS + 1] ** 2
    trained = RandomForestRegressor(trees, random_state=0, n_jobs=1).fit(rows, degradation)
    open_trees = [open_tree(each.tree_) for each in trained.estimators_]
    return trained, Forest.from_trees(open_trees, features=2 * _COLUMNS)


def matching_rows() -> Iterator[list[str]]:
    """Yield jobs, and of each matching its CPU ms from degradation to pairs and how far its run
    time lies above the least one, %. Blossom on 1,000 jobs and more, which takes long, is measured
    once."""
    for jobs in 50, 250, 1000, 2000:
        rng = np.random.default_rng(jobs)
        alone_s = rng.lognormal(5.0, 1.0, jobs)
        percent = 100 * rng.random((jobs, 1)) * rng.random((1, jobs)) + rng.random((jobs, jobs))
        kept_s, timed_s = {}, {}
        for name, match in _MATCHINGS.items():
            work = partial(_kept_s, match, alone_s, percent)
            is_long = name == "blossom" and jobs >= 1000
            timed_s[name], kept_s[name] = cpu_s(work, 1 if is_long else _REPETITIONS)
        for name in _MATCHINGS:
            above = 100 * (kept_s[name] / kept_s["blossom"] - 1)
            yield [name, str(jobs), f"{1e3 * timed_s[name]:.1f}", f"{above:.2f}"]


def _kept_s(match: Match, alone_s: Floats, percent: Floats) -> float:
    """How long the jobs keep nodes in sum."""
    saved = saved_s(alone_s, percent)
    return float(alone_s.sum()) - total_saved_s(saved, match(saved))
