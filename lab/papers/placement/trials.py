"""One simulation of the benchmark, and many of them on all cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from multiprocessing import get_context
from typing import Final

import numpy as np

from lab.papers.placement.rows import WORKLOADS, Grid, Row
from lab.simulation.jobs import SubmittedJobs
from lab.simulation.metrics import Summary, summarise
from lab.simulation.sweep import Case, Setup, play_jobs
from lab.simulation.system import SizeUnit
from lab.workloads.cirne import SIZE_REQUEST_CORRELATION, cirne_jobs
from shared.domain.eamc_policy import Reading
from shared.scheduling.pool import Discipline
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill


@dataclass(frozen=True, slots=True)
class Variation:
    """The Cirne workload, or what differs from it; `discipline` None is the policy's own, `slurm`
    what Slurm's looks at."""

    name: str
    speed: float = 1.0
    correlation: float = SIZE_REQUEST_CORRELATION
    exact_requests: bool = False
    discipline: Discipline | None = None
    slurm: SlurmBackfill = SLURM_DEFAULTS

    def jobs(self, seed: int) -> SubmittedJobs:
        """Return its jobs, the same for the same seed."""
        drawn = cirne_jobs(seed, correlation=self.correlation)
        varied = replace(
            drawn,
            submit_s=drawn.submit_s / self.speed,
            requested_s=drawn.run_s if self.exact_requests else drawn.requested_s,
        )
        return SubmittedJobs(varied, np.arange(1, len(varied) + 1), SizeUnit.NODE)


AS_IS: Final = Variation("as it is")
# The authors' published configuration of Slurm: bf_interval, bf_queue_limit; and the 100 records of
# its table of reservations at which Slurm ends a look.
AS_AUTHORS: Final = Variation(
    "slurm",
    discipline=Discipline.SLURM,
    slurm=SlurmBackfill(depth=1000, interval_s=23.0, records=100),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """A case on a variation of the workload."""

    case: Case
    variation: Variation = AS_IS

    @property
    def name(self) -> str:
        """Return what only it has in its benchmark."""
        case = self.case
        return f"{self.variation.name}, {case.workload.share}, {case.label}, {case.seed}"


@dataclass(frozen=True, slots=True)
class Block:
    """Rows on every workload with every seed, all read alike on one variation."""

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    variation: Variation = AS_IS
    reading: Reading = Reading.DIMENSIONLESS

    @property
    def _keys(self) -> list[tuple[str, Row]]:
        return [(workload, row) for workload in WORKLOADS for row in self.rows]

    def trials(self) -> list[Trial]:
        """Return the trials in the order that `grid` expects."""
        return [
            Trial(self._case(workload, row, seed), self.variation)
            for workload, row in self._keys
            for seed in self.seeds
        ]

    def grid(self, summaries: Sequence[Summary]) -> Grid:
        """Return the results of the trials."""
        size = len(self.seeds)
        parts = [summaries[at : at + size] for at in range(0, len(summaries), size)]
        return Grid(self.seeds, dict(zip(self._keys, parts, strict=True)))

    def _case(self, workload: str, row: Row, seed: int) -> Case:
        return Case(
            row.policy,
            WORKLOADS[workload],
            seed,
            row.t_weight,
            reading=self.reading,
            slurm=self.variation.slurm,
        )


def grids(
    setup: Setup, blocks: Sequence[Block], workers: int | None, told: Callable[[int], None]
) -> list[Grid]:
    """Return the results of blocks, by as many processes (None: as there are cores); `told` gets
    how many trials are done.

    Processes are spawned: a fork would copy the locks of a progress bar's thread.
    """
    trials = [block.trials() for block in blocks]
    found: list[Summary] = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for summary in pool.map(partial(summary_of, setup), chain(*trials), chunksize=4):
            found.append(summary)
            told(len(found))
    ends = accumulate(map(len, trials), initial=0)
    return [
        block.grid(found[first:end])
        for block, (first, end) in zip(blocks, pairwise(ends), strict=True)
    ]


def summary_of(setup: Setup, trial: Trial) -> Summary:
    """Return the result of one trial."""
    case, variation = trial.case, trial.variation
    outcome = play_jobs(setup, case, variation.jobs(case.seed), variation.discipline)
    return summarise(outcome.played)
