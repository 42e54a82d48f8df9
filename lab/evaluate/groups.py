"""Run times and energies of groups that were held out of training, and how far off models are.

Dauwe et al. (2016), sections 4.2.4 and 5.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.box import MARKDOWN
from rich.table import Table

from cli.progress import progress_of
from coplace_client.errors import UnusableError
from lab.evaluate.group_features import (
    FEATURE_SETS,
    FEATURES,
    Alone,
    Floats,
    GroupRun,
    class_intensities,
    features,
    intensity_class,
    mean_percent_error,
    normalized_rmse,
)
from lab.evaluate.group_files import GroupFiles
from services.prediction.group_models import Predict, train_linear, train_network
from shared.process.folders import write_csv

PARTITIONS: Final = 20
_HELD_SHARE: Final = 0.3
_LEAST_RUNS: Final = 20
_MARGIN_QUANTILE: Final = 0.95
_NETWORKS: Final = 5
# Of memory intensities alone; the last feature set that a class can replace.
_BY_CLASS: Final = "D"

TIME: Final = "time"
ENERGY: Final = "energy"
LINEAR: Final = "linear"
NETWORK: Final = "network"
POWER: Final = "average power x predicted time"

Train = Callable[[Floats, Floats], Predict]


class GroupScore(NamedTuple):
    """Mean percent error, and root mean square error as a share of the range: means over the
    partitions, of what was held out."""

    mpe_percent: float
    nrmse: float


class ScoreKey(NamedTuple):
    """What was predicted, from which feature set, by which model."""

    target: str
    feature_set: str
    model: str


class UnmeasuredScore(NamedTuple):
    """Mean percent error of the run times of an application that is held out of training: without
    memory intensities, with its own and with the mean one of its class; NaN where nobody else is of
    that class."""

    app: str
    intensity_class: str
    without_percent: float
    measured_percent: float
    by_class_percent: float


def scores(files: GroupFiles, seed: int = 0) -> dict[ScoreKey, GroupScore]:
    """Score over random partitions with 30 % held out; all models see the same ones. Raises
    UnusableError for too few runs."""
    if len(files.runs) < _LEAST_RUNS:
        raise UnusableError(f"{len(files.runs)} runs of groups: at least {_LEAST_RUNS} are needed")
    rows, found = features(files.runs, files.alone), dict[ScoreKey, list[GroupScore]]()
    actual = {
        TIME: np.array([run.time_s for run in files.runs]),
        ENERGY: np.array([run.energy_j for run in files.runs]),
    }
    power_w = np.array([files.alone[run.target, run.freq_ghz].power_w for run in files.runs])
    rng = np.random.default_rng(seed)
    with progress_of(PARTITIONS, "partitions") as tell:
        for number in range(PARTITIONS):
            held = _held(len(rows), rng)
            for key, said in _predictions(rows, actual, power_w, held, number):
                of = actual[key.target][held]
                each = GroupScore(mean_percent_error(said, of), normalized_rmse(said, of))
                found.setdefault(key, []).append(each)
            tell(number + 1)
    return {key: GroupScore(*np.mean(each, axis=0).tolist()) for key, each in found.items()}


def _predictions(
    rows: Floats,
    actual: Mapping[str, Floats],
    power_w: Floats,
    held: np.ndarray,
    seed: int,
) -> Iterator[tuple[ScoreKey, Floats]]:
    """What is said of the runs that are held out."""
    models: dict[str, Train] = {LINEAR: train_linear, NETWORK: partial(_network, seed=seed)}
    for target, values in actual.items():
        for name, columns in FEATURE_SETS.items():
            for model, train in models.items():
                predict = train(rows[~held, :columns], values[~held])
                said = predict(rows[held, :columns])
                yield ScoreKey(target, name, model), said
                if (target, model) == (TIME, NETWORK):
                    yield ScoreKey(ENERGY, name, POWER), power_w[held] * said


def train_time_network(files: GroupFiles, seed: int = 0) -> Predict:
    """Train a network of run times from feature set F, of all runs."""
    rows = features(files.runs, files.alone)[:, : FEATURE_SETS["F"]]
    return _network(rows, np.array([run.time_s for run in files.runs]), seed)


def train_ratio_networks(files: GroupFiles, seed: int = 0) -> Predict:
    """Train T_co / T_alone from feature set F: the mean of some networks, of all runs."""
    rows, ratio = _ratios(files)
    return _networks(rows, ratio, seed)


def ratio_margin(files: GroupFiles, seed: int = 0) -> float:
    """Return by what share of what such networks say the run times that were held out of their
    training are longer, at most in 95 of 100."""
    rows, ratio = _ratios(files)
    held = _held(len(rows), np.random.default_rng(seed))
    said = _networks(rows[~held], ratio[~held], seed)(rows[held])
    return max(float(np.quantile(ratio[held] / said - 1, _MARGIN_QUANTILE)), 0.0)


def _ratios(files: GroupFiles) -> tuple[Floats, Floats]:
    rows = features(files.runs, files.alone)[:, : FEATURE_SETS["F"]]
    time_s = np.array([run.time_s for run in files.runs])
    return rows, time_s / rows[:, FEATURES.index("baseExTime")]


def _networks(rows: Floats, value: Floats, seed: int) -> Predict:
    networks = [_network(rows, value, seed + number) for number in range(_NETWORKS)]
    return lambda asked: np.mean([predict(asked) for predict in networks], axis=0)


def _held(runs: int, rng: np.random.Generator) -> np.ndarray:
    held = np.zeros(runs, dtype=np.bool_)
    held[rng.permutation(runs)[: round(_HELD_SHARE * runs)]] = True
    return held


def _network(rows: Floats, value: Floats, seed: int) -> Predict:
    """Trained to its most rounds, which may be before it has converged."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train_network(rows, value, seed)


def unmeasured(files: GroupFiles, seed: int = 0) -> Iterator[UnmeasuredScore]:
    """Yield scores of each application in turn held out of training in both roles, and predicted by
    networks as a target beside the others."""
    for app in sorted({run.target for run in files.runs}):
        asked = [run for run in files.runs if run.target == app and app not in run.neighbours]
        left = [run for run in files.runs if app not in (run.target, *run.neighbours)]
        if len(left) >= _LEAST_RUNS and asked:
            yield _unmeasured(app, left, asked, files.alone, seed)


def _unmeasured(
    app: str, left: Sequence[GroupRun], asked: Sequence[GroupRun], alone: Alone, seed: int
) -> UnmeasuredScore:
    rows, said_of = features(left, alone), features(asked, alone)
    time_s, actual_s = np.array([r.time_s for r in left]), np.array([r.time_s for r in asked])

    def error(columns: int, of: Floats) -> float:
        said = _network(rows[:, :columns], time_s, seed)(of[:, :columns])
        return mean_percent_error(said, actual_s)

    intensity = float(said_of[:, FEATURES.index("targetMem")].mean())
    name, columns = intensity_class(intensity), FEATURE_SETS[_BY_CLASS]
    by_class = said_of.copy()
    by_class[:, FEATURES.index("targetMem")] = class_intensities(alone, app).get(name, np.nan)
    is_known = not np.isnan(by_class).any()
    return UnmeasuredScore(
        app,
        name,
        error(FEATURE_SETS["B"], said_of),
        error(columns, said_of),
        error(columns, by_class) if is_known else np.nan,
    )


def score_rows(found: Mapping[ScoreKey, GroupScore]) -> list[list[str]]:
    """Return a row for each feature set: mean percent error and NRMSE of each model."""
    columns = (
        (TIME, LINEAR),
        (TIME, NETWORK),
        (ENERGY, LINEAR),
        (ENERGY, NETWORK),
        (ENERGY, POWER),
    )
    return [
        [
            name,
            *(
                f"{of.mpe_percent:.2f}, {of.nrmse:.4f}"
                for of in (found[ScoreKey(target, name, model)] for target, model in columns)
            ),
        ]
        for name in FEATURE_SETS
    ]


SCORE_HEADER: Final = (
    "features", "time: linear", "time: network", "energy: linear", "energy: network",
    f"energy: {POWER}",
)  # fmt: skip
UNMEASURED_HEADER: Final = ("application", "class", "B", "D, measured", "D, mean of its class")


def unmeasured_rows(found: Sequence[UnmeasuredScore]) -> list[list[str]]:
    """Return a row for each application: mean percent errors."""
    return [
        [*each[:2], *("-" if np.isnan(error) else f"{error:.1f}" for error in each[2:])]
        for each in found
    ]


def tables(
    found: Mapping[ScoreKey, GroupScore], of_unmeasured: Sequence[UnmeasuredScore]
) -> Iterator[Table]:
    """Yield both tables as they are printed."""
    yield _table("mean percent error, NRMSE", SCORE_HEADER, score_rows(found))
    title = "applications never measured beside others: mean percent error of run time"
    yield _table(title, UNMEASURED_HEADER, unmeasured_rows(of_unmeasured))


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    printed = Table(title=title, box=MARKDOWN)
    for place, name in enumerate(header):
        printed.add_column(name, justify="right" if place else "left")
    for row in rows:
        printed.add_row(*row)
    return printed


def write_scores(path: Path, found: Mapping[ScoreKey, GroupScore]) -> None:
    """Write target, feature_set, model, mpe_percent, nrmse."""
    rows = ((*key, *(round(figure, 6) for figure in each)) for key, each in found.items())
    write_csv(path, (*ScoreKey._fields, *GroupScore._fields), rows)
