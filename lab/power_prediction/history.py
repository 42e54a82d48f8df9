"""What similar jobs really drew, exponentially forgotten: only of jobs whose power is known.

Similar is a word of several meanings: a *shape* is what two jobs have in common. Of each shape that
came up the history keeps means of several memories, the newest powers and how much they spread.
All powers are natural logarithms of W: errors count by their ratio, and one absurd job counts less.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Any, Final

from shared.numerics.elementary import exp, log
from shared.power_prediction.submission import (
    SUBMISSION_FEATURES,
    UNKNOWN,
    Submission,
    submission_row,
)

SHAPES: Final = {
    "user, queue, nodes, walltime": ("cluster", "user", "queue", "nodes", "walltime_s"),
    "user, nodes": ("cluster", "user", "nodes"),
    "user, walltime": ("cluster", "user", "walltime_s"),
    "user": ("cluster", "user"),
    "queue, nodes, walltime": ("cluster", "queue", "nodes", "walltime_s"),
    "nodes": ("cluster", "nodes"),
    "all": ("cluster",),
}
# Of these it also matters how many of the kind are on their way, and how long ago the last came.
_OF_USERS: Final = 4
# The share of the newest power in each mean: memories of about 20, 5 and 2 jobs.
MEMORIES: Final = (0.05, 0.2, 0.5)
_NEWEST: Final = 8
_SPREAD_MEMORY: Final = 0.2
# Jobs run past their walltime in some systems; a share beyond this is a mistake.
_MOST_USED: Final = 10.0
# Shapes that came up longest ago are dropped; the history's size is bounded by this.
MOST_OF_A_SHAPE: Final = 50_000

_STATISTICS: Final = (
    *(f"mean of about {round(1 / share)}" for share in MEMORIES),
    *("median of 3", "median of 8", "last", "2nd last", "3rd last", "4th last", "5th last"),
    *("deviation", "used walltime", "log runtime", "log count", "log age"),
)
_ARRIVALS: Final = ("on their way", "log gap")
FEATURES: Final = (
    *SUBMISSION_FEATURES,
    *(f"{shape}: {what}" for shape in SHAPES for what in _STATISTICS),
    *(f"{shape}: {what}" for shape in tuple(SHAPES)[:_OF_USERS] for what in _ARRIVALS),
)
# The statistics that are predictions of their own, as (shape, statistic) by number.
_PREDICTING: Final = (
    *((0, statistic) for statistic in (1, 2, 3, 4, 5)),
    *((1, statistic) for statistic in (1, 2, 3, 5)),
    *((2, statistic) for statistic in (1, 3, 4)),
    *((3, statistic) for statistic in (1, 2, 3, 5)),
)
PREDICTORS: Final = tuple(f"{tuple(SHAPES)[s]}: {_STATISTICS[n]}" for s, n in _PREDICTING)
_COLUMNS: Final = tuple(
    len(SUBMISSION_FEATURES) + shape * len(_STATISTICS) + n for shape, n in _PREDICTING
)
# Where the shape itself is new, the means of about 5 of coarser ones replace it, in this order.
_COARSER: Final = tuple(
    len(SUBMISSION_FEATURES) + shape * len(_STATISTICS) + 1 for shape in (0, 1, 2, 3, 4, 5, 6)
)
_NOTHING: Final = [UNKNOWN] * len(_STATISTICS)


@dataclass(slots=True)
class Kept:
    """What is kept of one shape. `newest` are (log power, job id), the newest first."""

    count: int = 0
    means: list[float] = field(default_factory=lambda: [0.0] * len(MEMORIES))
    deviation: float = 0.0
    used_walltime: float = UNKNOWN
    log_runtime: float = UNKNOWN
    learned_at: int = 0
    newest: list[tuple[float, str]] = field(default_factory=list)
    on_their_way: int = 0
    submitted_at: int = -1

    def add(self, job_id: str, log_w: float, used_walltime: float, log_runtime: float) -> None:
        """Remember one job's power. The first ones count as plain means."""
        self.count += 1
        if self.count > 1:
            deviation = abs(log_w - self.means[1])
            self.deviation += _SPREAD_MEMORY * (deviation - self.deviation)
        for index, share in enumerate(MEMORIES):
            self.means[index] += max(share, 1 / self.count) * (log_w - self.means[index])
        self.used_walltime = used_walltime
        self.log_runtime = log_runtime
        self.newest = [(log_w, job_id), *self.newest[: _NEWEST - 1]]

    def row(self, now: int) -> list[float]:
        """Return the statistics, of a job that is submitted as number `now`."""
        if not self.count:
            return _NOTHING
        newest = [log_w for log_w, _ in self.newest]
        padded = [*newest, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN][:5]
        return [
            *self.means,
            median(newest[:3]),
            median(newest),
            *padded,
            self.deviation,
            self.used_walltime,
            self.log_runtime,
            log(self.count),
            log(max(1, now - self.learned_at)),
        ]


class PowerHistory:
    """What is kept of every shape that came up, in the order of submissions."""

    def __init__(self) -> None:
        self._kept: list[dict[Hashable, Kept]] = [{} for _ in SHAPES]
        self._submitted = 0

    def submit(self, job: Submission) -> list[float]:
        """Return FEATURES of a job, of what is known now; from here on it is on its way."""
        now = self._submitted
        self._submitted += 1
        kept = [self._of(shape, job) for shape in range(len(SHAPES))]
        row = submission_row(job)
        for each in kept:
            row += each.row(now)
        for each in kept[:_OF_USERS]:
            row += (each.on_their_way, _gap(each, now))
        for each in kept:
            each.on_their_way += 1
            each.submitted_at = now
        return row

    def learn(self, job: Submission, log_w: float, runtime_s: float) -> None:
        """Learn what a job that was submitted drew. NaN: nobody will ever know."""
        used, log_runtime = _runtime(job, runtime_s)
        for shape in range(len(SHAPES)):
            each = self._of(shape, job)
            each.on_their_way = max(0, each.on_their_way - 1)
            if not math.isnan(log_w):
                each.add(job.job_id, log_w, used, log_runtime)
                each.learned_at = self._submitted

    def similar(self, job: Submission) -> dict[str, tuple[tuple[float, str], ...]]:
        """Return the newest (log power, job id) of each of the job's shapes."""
        shapes = enumerate(SHAPES)
        return {name: tuple(self._of(index, job).newest) for index, name in shapes}

    def _of(self, shape: int, job: Submission) -> Kept:
        """Removed and added again: the first of a table is what came up longest ago."""
        table, key = self._kept[shape], _KEYS[shape](job)
        found = table.pop(key, None) or Kept()
        table[key] = found
        if len(table) > MOST_OF_A_SHAPE:
            del table[next(iter(table))]
        return found


def predictions(row: Sequence[float]) -> tuple[list[float], list[bool]] | None:
    """Return what each of PREDICTORS says, in log W, and whether it knows the shape itself or a
    coarser one replaces it; None where no shape of the job ever came up."""
    stand_in = next((row[at] for at in _COARSER if row[at] != UNKNOWN), None)
    if stand_in is None:
        return None
    knows = [row[at] != UNKNOWN for at in _COLUMNS]
    return [
        row[at] if known else stand_in for at, known in zip(_COLUMNS, knows, strict=True)
    ], knows


def jobs_of_user(row: Sequence[float]) -> float:
    """Return how many jobs of the user are known, of a row."""
    log_count = row[_COUNT_OF_USER]
    return 0.0 if log_count == UNKNOWN else exp(log_count)


_COUNT_OF_USER: Final = FEATURES.index("user: log count")


def _hashable(value: Any) -> Hashable:
    """NaN is no key: it differs from itself."""
    return UNKNOWN if value != value else value


def _key(fields: tuple[str, ...]) -> Callable[[Submission], Hashable]:
    taken = [attrgetter(name) for name in fields]
    return lambda job: tuple(_hashable(take(job)) for take in taken)


_KEYS: Final = tuple(_key(fields) for fields in SHAPES.values())


def _gap(kept: Kept, now: int) -> float:
    return log(now - kept.submitted_at) if kept.submitted_at >= 0 else UNKNOWN


def _runtime(job: Submission, runtime_s: float) -> tuple[float, float]:
    """The share of its walltime that a job used, and the logarithm of its run time."""
    if not 0 < runtime_s < math.inf:
        return UNKNOWN, UNKNOWN
    used = min(runtime_s / job.walltime_s, _MOST_USED) if job.walltime_s > 0 else UNKNOWN
    return used, log(runtime_s)
