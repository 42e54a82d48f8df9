"""Jobs of a model or a log, and the applications that they run."""

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final

import numpy as np

from coplace_client.errors import UnusableError
from lab.simulation.log import read_log
from lab.simulation.system import SizeUnit, System
from lab.workloads.cirne import MAX_NODES, cirne_jobs
from lab.workloads.rigid import RigidJobs, lublin_jobs
from lab.workloads.streams import Stream, stream
from shared.scheduling.workload import Ints

CIRNE: Final = "cirne"
LUBLIN: Final = "lublin"
MODELS: Final = (CIRNE, LUBLIN)
MODEL_JOBS: Final = 5000


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """Which jobs: `source` is a model's name or the path of a log, `jobs` their number (None:
    MODEL_JOBS, or all of the log).

    `share` of them run an application that is best off on another cluster than the first, None
    draws all applications alike. `counts` says what the sizes of a log count. Jobs arrive `speed`
    times as fast as in the log or the model.
    """

    source: str = CIRNE
    jobs: int | None = None
    share: float | None = None
    counts: SizeUnit = SizeUnit.NODE
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.speed < inf:
            raise UnusableError(f"speed must be above 0, got {self.speed}")
        if self.share is not None and not 0 <= self.share <= 1:
            raise UnusableError(f"share must be from 0 to 1, got {self.share}")

    @property
    def label(self) -> str:
        """Return the workload as tables name it."""
        mix = "uniform" if self.share is None else f"{self.share:.0%}"
        speed = "" if self.speed == 1 else f" x{self.speed:g}"
        return f"{Path(self.source).name}{speed} {mix}"


CIRNE_UNIFORM: Final = WorkloadSpec()


@dataclass(frozen=True, slots=True, eq=False)
class SubmittedJobs:
    """Jobs with their numbers `job_id` (jobs,); `counts` says what `jobs.nodes` counts."""

    jobs: RigidJobs
    job_id: Ints
    counts: SizeUnit


def submit_jobs(spec: WorkloadSpec, seed: int, system: System) -> SubmittedJobs:
    """Return the jobs of a workload, the same for the same seed; a log is the same for any.

    Raises OSError or UnusableError for a log that cannot be read, ValueError for a model that
    knows no such system.
    """
    made = _modelled(spec, seed, system) if spec.source in MODELS else _logged(spec, system)
    faster = replace(made.jobs, submit_s=made.jobs.submit_s / spec.speed)
    return replace(made, jobs=faster)


def _modelled(spec: WorkloadSpec, seed: int, system: System) -> SubmittedJobs:
    count = MODEL_JOBS if spec.jobs is None else spec.jobs
    largest = max(cluster.nodes for cluster in system.clusters)
    if spec.source == CIRNE:
        jobs = cirne_jobs(seed, count, min(MAX_NODES, largest))
    else:
        total = sum(cluster.nodes for cluster in system.clusters)
        jobs = lublin_jobs(seed, count, largest, total)
    return SubmittedJobs(jobs, np.arange(1, count + 1), SizeUnit.NODE)


def _logged(spec: WorkloadSpec, system: System) -> SubmittedJobs:
    largest = max(cluster.size_in(spec.counts) for cluster in system.clusters)
    log = read_log(Path(spec.source), largest, kill_at_limit=False)
    some, work = slice(spec.jobs), log.workload
    jobs = RigidJobs(
        submit_s=work.submit_s[some],
        nodes=work.units[some, 0],
        run_s=work.run_s[some, 0],
        requested_s=work.limit_s[some, 0],
    )
    return SubmittedJobs(jobs, log.job_id[some], spec.counts)


def draw_apps(best: Ints, spec: WorkloadSpec, seed: int, jobs: int) -> Ints:
    """Draw an application for each job, (jobs,), as an index into `best` (applications,): the
    cluster that each is best off on. Raises UnusableError where a share of none is asked for."""
    weights = np.full(len(best), 1 / len(best))
    if spec.share is not None:
        elsewhere = best != 0
        if not 0 < elsewhere.sum() < len(best):
            problem = "needs applications that are best off on the first cluster and others"
            raise UnusableError(f"a share of {spec.share:g} {problem}: draw them uniformly")
        weights[elsewhere] = spec.share / elsewhere.sum()
        weights[~elsewhere] = (1 - spec.share) / (~elsewhere).sum()
    return stream(seed, Stream.APP).choice(len(best), size=jobs, p=weights)
