"""What jobs are like, as far as it is known before they start, and what such jobs drew.

A *shape* is what jobs have in common; the finish of a job replaces one row of each of its shapes.
Powers are those of a node used whole. Where they are logarithms, they are natural ones of W.
"""

from hashlib import sha256
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coplace_client.millicores import cores_text
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.power_prediction.blend import Context

Floats = NDArray[np.float64]
Key = tuple[object, ...]

SHAPES: Final = (
    "user, application, size, walltime",
    "user, application, size",
    "user, application",
    "application",
    "user",
    "all",
)
# The share of the newest power in each mean: memories of about 20, 5 and 2 jobs.
MEMORIES: Final = (0.05, 0.2, 0.5)
MOST_NEWEST: Final = 8
# What predicts, by shape: means by memory, medians of so many newest, and the last.
STATISTICS: Final = (
    *("mean of about 20", "mean of about 5", "mean of about 2"),
    *("median of 3", "median of 8", "last"),
)
# Of the words about a job's size.
MOST_SIZE: Final = 200


class KindOfJob(NamedTuple):
    """What is known of a job before it starts, on a node model at a P-state; `accelerators_w` is
    the declared thermal design power of its accelerators on a node used whole, W."""

    node_model: str
    freq_ghz: float
    user: str
    app_id: str
    size: str
    walltime_s: float
    accelerators_w: float = 0.0

    @classmethod
    def from_job(cls, job: Job, cluster: Cluster, freq_ghz: float) -> "KindOfJob":
        """Return the kind of a job on a cluster."""
        of_job = job.user, job.app_id, size_of(job), job.walltime_s
        accelerators_w = cluster.accelerators_of_node_w(
            job.resources_per_unit, job.unit_millicores, shareable=job.shareable
        )
        return cls(cluster.node_model, freq_ghz, *of_job, accelerators_w)

    @property
    def where(self) -> str:
        """Return the node model and the P-state, and what accelerators may draw there."""
        place = f"{self.node_model} at {self.freq_ghz!r} GHz"
        if not self.accelerators_w:
            return place
        return f"{place}, accelerators of {self.accelerators_w!r} W"

    @property
    def name(self) -> str:
        """Return all of it in words, as keys of records have it."""
        return "|".join(map(str, self if self.accelerators_w else self[:-1]))

    def subjects(self) -> tuple[Key | None, ...]:
        """Return the subject of each of SHAPES; None where the job has no name of an
        application."""
        where = (*self[:2], self.accelerators_w)
        of_app = self.user, self.app_id
        return (
            (0, *where, *of_app, self.size, self.walltime_s),
            (1, *where, *of_app, self.size),
            (2, *where, *of_app),
            (3, *where, self.app_id) if self.app_id else None,
            (4, *where, self.user),
            (5, *where),
        )


def size_of(job: Job) -> str:
    """Return units, and what each of them has, in words; a digest of longer ones."""
    has = [f"{job.nodes} units"]
    if job.shareable:
        has.append("shareable")
    if job.cores_per_unit:
        has.append(f"{cores_text(job.unit_millicores)} cores")
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
        """Return STATISTICS, ln W."""
        return *self.means, median(self.newest[:3]), median(self.newest), self.newest[0]

    def with_power(self, log_w: float) -> "SimilarPower":
        """Return the power with one more job. The first ones count as plain means."""
        jobs = self.jobs + 1
        means = tuple(
            mean + max(share, 1 / jobs) * (log_w - mean)
            for mean, share in zip(self.means, MEMORIES, strict=True)
        )
        newest = (log_w, *self.newest[: MOST_NEWEST - 1])
        return self._replace(jobs=jobs, means=means, newest=newest)

    def with_losses(self, context: Context, losses: Floats) -> "SimilarPower":
        """Return the power with how wrong each predictor was about one more job."""
        before = np.array(self.losses) if self.losses else np.zeros(len(losses))
        return self._replace(losses=tuple((context.kept_share * before + losses).tolist()))


NONE: Final = SimilarPower(0, (0.0,) * len(MEMORIES), ())
