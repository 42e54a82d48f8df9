"""What placement evaluates before a job starts: what similar jobs drew, as tables of rows.

Who learns publishes rows and who evaluates folds them; both run this code on equal tables. A
*shape* is what jobs have in common; the finish of a job replaces one row of each of its shapes. All
powers are those of a node used whole. Where they are logarithms, they are natural ones of W.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.numerics.elementary import exp
from shared.power_prediction.blend import Context, shares_of, weighted_median
from shared.power_prediction.bound import FEW_JOBS, SPREAD_GROUPS, Margin

Floats = NDArray[np.float64]
Key = tuple[object, ...]

# Versions of the tables are named by it and the number of the newest row.
HISTORY: Final = "power-history"
SHAPES: Final = (
    "user, application, size, walltime",
    "user, application, size",
    "user, application",
    "application",
    "user",
    "all",
)
_OF_USER: Final = SHAPES.index("user")
# The share of the newest power in each mean: memories of about 20, 5 and 2 jobs.
MEMORIES: Final = (0.05, 0.2, 0.5)
MOST_NEWEST: Final = 8
# The statistics that predict, by shape: means by memory, medians of so many newest, and the last.
_MEAN_20, _MEAN_5, _MEAN_2, _MEDIAN_3, _MEDIAN_8, _LAST = range(6)
STATISTICS: Final = (
    *("mean of about 20", "mean of about 5", "mean of about 2"),
    *("median of 3", "median of 8", "last"),
)
_PREDICTING: Final = (
    *((0, statistic) for statistic in (_MEAN_5, _MEAN_2, _MEDIAN_3, _LAST)),
    *((1, statistic) for statistic in (_MEAN_5, _MEDIAN_8, _LAST)),
    *((2, statistic) for statistic in (_MEAN_20, _MEAN_5, _MEDIAN_8, _LAST)),
    *((3, statistic) for statistic in (_MEAN_20, _MEAN_5, _MEDIAN_8)),
    *((4, statistic) for statistic in (_MEAN_20, _MEAN_5)),
    (5, _MEAN_20),
)
PREDICTORS: Final = tuple(f"{SHAPES[s]}: {STATISTICS[n]}" for s, n in _PREDICTING)
# For what jobs have in common it is kept how wrong each predictor was of late.
CONTEXTS: Final[Mapping[int, Context]] = {
    0: Context(SHAPES[0], 0.8, 1.0),
    2: Context(SHAPES[2], 0.9, 0.3),
    4: Context(SHAPES[4], 0.95, 0.3),
    5: Context(SHAPES[5], 0.999, 0.003),
}
# A statistic of a shape that is new counts so much; the next coarser shape stands in.
_TRUST_IN_STAND_INS: Final = 0.1
_NEARLY_HIGHEST: Final = round(0.9 * (len(PREDICTORS) - 1))
# Of the words about a job's size.
MOST_SIZE: Final = 200
# Kinds of jobs that finished longest ago make room.
MOST_KINDS: Final = 5_000
_MEANING: Final = (
    *(SHAPES, MEMORIES, MOST_NEWEST, PREDICTORS, sorted(CONTEXTS.items())),
    *(SPREAD_GROUPS, FEW_JOBS, MOST_KINDS),
)
# Of what rows and predictors mean: rows of another origin would be taken for something else.
ORIGIN: Final = sha256(repr(_MEANING).encode()).digest()


class KindOfJob(NamedTuple):
    """What is known of a job before it starts, on a node model at a P-state."""

    node_model: str
    freq_ghz: float
    user: str
    app_id: str
    size: str
    walltime_s: float

    @classmethod
    def of(cls, job: Job, cluster: Cluster, freq_ghz: float) -> "KindOfJob":
        """A job on a cluster."""
        of_job = job.user, job.app_id, size_of(job), job.walltime_s
        return cls(cluster.node_model, freq_ghz, *of_job)

    @property
    def where(self) -> str:
        """The node model and the P-state."""
        return f"{self.node_model} at {self.freq_ghz!r} GHz"

    def subjects(self) -> tuple[Key | None, ...]:
        """Of each of SHAPES; None where the job has no name of an application."""
        where, of_app = self[:2], (self.user, self.app_id)
        return (
            (0, *where, *of_app, self.size, self.walltime_s),
            (1, *where, *of_app, self.size),
            (2, *where, *of_app),
            (3, *where, self.app_id) if self.app_id else None,
            (4, *where, self.user),
            (5, *where),
        )


def size_of(job: Job) -> str:
    """Units, and what each of them has, in words; a digest of longer ones."""
    has = [f"{job.nodes} units"]
    if job.shareable:
        has.append("shareable")
    if job.cores_per_unit:
        has.append(f"{job.cores_per_unit} cores")
    has += [f"{count} {name}" for name, count in job.resources_per_unit]
    words = ", ".join(has)
    return words if len(words) <= MOST_SIZE else sha256(words.encode()).hexdigest()


class SimilarPower(NamedTuple):
    """What the jobs of one shape drew: how many, exponential means by memory, the newest powers
    (ln W), and how wrong predictors were for them. `losses` are empty until a prediction is judged,
    and of shapes that are no context."""

    jobs: int
    means: tuple[float, ...]
    newest: tuple[float, ...]
    losses: tuple[float, ...] = ()

    def statistics(self) -> tuple[float, ...]:
        """STATISTICS, ln W."""
        return *self.means, _median(self.newest[:3]), _median(self.newest), self.newest[0]

    def with_power(self, log_w: float) -> "SimilarPower":
        """One more job. The first ones count as plain means."""
        jobs = self.jobs + 1
        means = tuple(
            mean + max(share, 1 / jobs) * (log_w - mean)
            for mean, share in zip(self.means, MEMORIES, strict=True)
        )
        newest = (log_w, *self.newest[: MOST_NEWEST - 1])
        return self._replace(jobs=jobs, means=means, newest=newest)

    def with_losses(self, context: Context, losses: Floats) -> "SimilarPower":
        """How wrong each predictor was about one more job."""
        before = np.array(self.losses) if self.losses else np.zeros(len(PREDICTORS))
        return self._replace(losses=tuple((context.kept_share * before + losses).tolist()))


NONE: Final = SimilarPower(0, (0.0,) * len(MEMORIES), ())


class PowerBound(NamedTuple):
    """Of all jobs on a node model at a P-state: the highest power of the newest ones, the limits
    between groups, and each group's margin, at the share `alpha` of jobs that may lie above."""

    alpha: float
    highest_w: float
    spreads_w: tuple[float, ...]
    margins: tuple[Margin, ...]

    def upper_w(self, predicted_w: float, group: int) -> float:
        """The bound of a prediction, W."""
        margin = self.margins[group]
        upper_w = predicted_w + margin.above_w + margin.above_share * predicted_w
        return max(predicted_w, min(upper_w, self.highest_w))


class PowerUpdate(NamedTuple):
    """Rows that replace those of the same subjects with lower numbers; `similar` of each of SHAPES,
    None where the kind has none."""

    number: int
    kind: KindOfJob
    similar: tuple[SimilarPower | None, ...]
    bound: PowerBound


class PowerAtStart(NamedTuple):
    """What a node will draw, W: the mean and the bound that a share `alpha` of jobs exceeds; what
    each of PREDICTORS said (ln W), by how much they disagree upwards (W), and the group whose
    margin counted."""

    predicted_w: float
    upper_w: float
    alpha: float
    said: tuple[float, ...]
    spread_w: float
    group: int


class _Row(NamedTuple):
    number: int
    similar: SimilarPower


class PowerTables:
    """The newest row of each subject; of at most so many kinds of jobs."""

    def __init__(self, most_kinds: int = MOST_KINDS) -> None:
        self._most_kinds = most_kinds
        self._rows: dict[Key, _Row] = {}
        self._bounds: dict[str, tuple[int, PowerBound]] = {}
        self._kinds: dict[KindOfJob, int] = {}
        self._predicted: dict[KindOfJob, PowerAtStart | None] = {}
        self.number = 0

    def __len__(self) -> int:
        return len(self._kinds)

    def fold(self, update: PowerUpdate) -> list[KindOfJob]:
        """Take rows in, in any order; returns the kinds that made room."""
        number, kind = update.number, update.kind
        self.number = max(self.number, number)
        for key, similar in zip(kind.subjects(), update.similar, strict=True):
            if key is not None and similar is not None and number > self._number_of(key):
                self._rows[key] = _Row(number, similar)
        if number > self._bounds.get(kind.where, (0, None))[0]:
            self._bounds[kind.where] = number, update.bound
        self._kinds[kind] = max(number, self._kinds.get(kind, 0))
        self._predicted.clear()
        return self._make_room()

    def similar(self, key: Key | None) -> SimilarPower | None:
        """The row of a shape."""
        row = None if key is None else self._rows.get(key)
        return row.similar if row else None

    def predict(self, kind: KindOfJob) -> PowerAtStart | None:
        """The prediction of a kind of jobs; None where nothing is known of its node model at its
        P-state."""
        if kind not in self._predicted:
            if len(self._predicted) >= _MOST_REMEMBERED:
                self._predicted.clear()
            self._predicted[kind] = self._predict(kind)
        return self._predicted[kind]

    def shares(self, kind: KindOfJob) -> tuple[float, ...]:
        """How much each of PREDICTORS counts for a kind of jobs of which something is known."""
        rows = [self.similar(key) for key in kind.subjects()]
        return tuple(shares_of(_losses(rows), _said(rows)[1]).tolist())

    def _predict(self, kind: KindOfJob) -> PowerAtStart | None:
        rows = [self.similar(key) for key in kind.subjects()]
        if rows[-1] is None:
            return None
        said, trust = _said(rows)
        predicted_w = exp(weighted_median(said, shares_of(_losses(rows), trust)))
        spread_w = exp(float(np.sort(said)[_NEARLY_HIGHEST])) - predicted_w
        bound = self._bounds[kind.where][1]
        of_user = rows[_OF_USER]
        group = _group(bound, spread_w, of_user.jobs if of_user else 0)
        upper_w = bound.upper_w(predicted_w, group)
        says = tuple(said.tolist())
        return PowerAtStart(predicted_w, upper_w, bound.alpha, says, spread_w, group)

    def _number_of(self, key: Key) -> int:
        row = self._rows.get(key)
        return row.number if row else 0

    def _make_room(self) -> list[KindOfJob]:
        """With the oldest kinds go the rows that no other has replaced since: a tenth of all, so
        that this is rare."""
        if len(self._kinds) <= self._most_kinds:
            return []
        by_age = sorted(self._kinds, key=self._kinds.__getitem__)
        gone = by_age[: len(by_age) - self._most_kinds * 9 // 10]
        for kind in gone:
            number = self._kinds.pop(kind)
            for key in kind.subjects():
                if key is not None and self._number_of(key) == number:
                    del self._rows[key]
            if self._bounds.get(kind.where, (0, None))[0] == number:
                del self._bounds[kind.where]
        return gone


_MOST_REMEMBERED: Final = 10_000


def _said(rows: Sequence[SimilarPower | None]) -> tuple[Floats, Floats]:
    """What PREDICTORS say, ln W, and the trust in each; the mean of about 5 of the finest shape
    that is known stands in for those that are not."""
    of_shapes = [row.statistics() if row else None for row in rows]
    stand_in = next(each[_MEAN_5] for each in of_shapes if each is not None)
    said, trust = [], []
    for shape, statistic in _PREDICTING:
        of_shape = of_shapes[shape]
        said.append(stand_in if of_shape is None else of_shape[statistic])
        trust.append(_TRUST_IN_STAND_INS if of_shape is None else 1.0)
    return np.array(said), np.array(trust)


def _losses(rows: Sequence[SimilarPower | None]) -> Floats:
    """How wrong each predictor was of late for such jobs."""
    losses = np.zeros(len(PREDICTORS))
    for shape, context in CONTEXTS.items():
        row = rows[shape]
        if row is not None and row.losses:
            losses = losses + context.counts * np.array(row.losses)
    return losses


def _group(bound: PowerBound, spread_w: float, jobs_of_user: int) -> int:
    """Its number: the fifths, and behind them the users of few jobs."""
    if jobs_of_user < FEW_JOBS:
        return SPREAD_GROUPS
    return sum(limit_w < spread_w for limit_w in bound.spreads_w)


def _median(values: Sequence[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
