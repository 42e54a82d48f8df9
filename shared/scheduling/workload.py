"""Jobs as columns: what a timeline plays, and the schedule that comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# The order of a job on a cluster that it has no queue entry for.
NO_ENTRY: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class OtherModes:
    """Modes in which entries may start where a cap refuses their own, in the order in which they
    are tried: of the shape (jobs, clusters, modes), NaN behind the last one of an entry."""

    limit_s: Floats
    run_s: Floats
    power_w: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs by submission, and their entries: arrays of the shape (jobs,) or (jobs, clusters).

    A job has an entry on each cluster where `order` is not NO_ENTRY: it takes `units` there (whole
    nodes, or cores where the cluster gives out cores) for `run_s`, is scheduled to end after
    `limit_s` at the latest, and draws `power_w` on all its units together. Entries of one cluster
    are served by ascending `order`, which no two entries share. Raises ValueError for columns
    that contradict each other.
    """

    submit_s: Floats
    order: Ints
    units: Ints
    limit_s: Floats
    run_s: Floats
    power_w: Floats
    others: OtherModes | None = None

    def __post_init__(self) -> None:
        if (np.diff(self.submit_s) < 0).any():
            raise ValueError("submit_s must ascend: sort the jobs by submission")
        has_entry = self.order != NO_ENTRY
        if not has_entry.any(axis=1).all():
            raise ValueError("order: each job needs an entry on one cluster at least")
        for name in ("units", "limit_s", "run_s"):
            if not (getattr(self, name)[has_entry] > 0).all():
                raise ValueError(f"{name} must be above 0 for every entry")
        if not (self.power_w[has_entry] >= 0).all():
            raise ValueError("power_w must not be negative")

    def __len__(self) -> int:
        return len(self.submit_s)

    def killed_at_limit(self) -> "Workload":
        """Return the workload where no job runs longer than its limit."""
        others = self.others
        if others is not None:
            others = replace(others, run_s=np.minimum(others.run_s, others.limit_s))
        return replace(self, run_s=np.minimum(self.run_s, self.limit_s), others=others)

    def beyond_idle(self, idle_w: Sequence[float]) -> "Workload":
        """Return the workload with the power that entries draw beyond what their units draw that
        idle, of a unit `idle_w` by cluster: in no mode less than 0, and modes as far from each
        other as they were."""
        if not any(idle_w):
            return self
        off_w = np.fmin(self.units * np.array(idle_w), self.least_power_w)
        others = self.others
        if others is not None:
            others = replace(others, power_w=others.power_w - off_w[..., np.newaxis])
        return replace(self, power_w=self.power_w - off_w, others=others)

    @property
    def least_power_w(self) -> Floats:
        """Return what each entry draws in the mode in which that is least, (jobs, clusters)."""
        if self.others is None:
            return self.power_w
        every = np.concatenate((self.power_w[..., np.newaxis], self.others.power_w), axis=2)
        return np.asarray(np.fmin.reduce(every, axis=2))


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Start, end and place of each job of a workload: arrays of the shape (jobs,).

    `cluster` is a column of the workload; `backfilled` marks starts before a blocked entry. `mode`
    is 0 for the entry's own, n for the nth of its others; None where no entry has any. `promised_s`
    is when each job's first reservation was to begin, nan where it never had one; None where
    nobody noted it.
    """

    cluster: Ints
    start_s: Floats
    end_s: Floats
    backfilled: Mask
    mode: Ints | None = None
    promised_s: Floats | None = None
