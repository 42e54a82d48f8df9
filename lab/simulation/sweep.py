"""Cases: a policy with its weights on a workload, one by one or all combinations on all cores."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Final

from lab.simulation.entries import PolicyChoice, entries_of
from lab.simulation.epm import Epm, NodeModels
from lab.simulation.jobs import (
    CIRNE_UNIFORM,
    SubmittedJobs,
    WorkloadSpec,
    draw_apps,
    submit_jobs,
)
from lab.simulation.lookahead import AS_TUNED, Ahead, play_ahead
from lab.simulation.metrics import Summary, summarise
from lab.simulation.policy import SimulatedPolicy
from lab.simulation.system import System
from shared.domain.eamc_policy import Reading
from shared.eamc.frequency import EVEN, Weighing
from shared.replay.played import Played
from shared.scheduling.pool import Discipline
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill
from shared.scheduling.timeline import play
from shared.scheduling.workload import Ints

THRESHOLD: Final = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What all cases share: the clusters, and what is known of the nodes of each."""

    system: System
    models: tuple[NodeModels, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One simulation: what decides, on which workload. The same case gives the same result.

    `threshold` is that of PriorityInc-V, `reading` that of equations 4 and 5, `discipline` what may
    pass what waits under EAMC's policies, None the policy's own,
    `ahead` the prices of look-ahead, `slurm` what Slurm's backfill looks at. Where a cap refuses a
    job's P-state it may start at one at which it takes `cap_slowdown` times as long at most: raises
    ValueError where the policy has no use for it.
    """

    policy: SimulatedPolicy
    workload: WorkloadSpec = CIRNE_UNIFORM
    seed: int = 1
    t_weight: float = EVEN.t_weight
    threshold: float = THRESHOLD
    reading: Reading = EVEN.reading
    kill_at_limit: bool = True
    ahead: Ahead = AS_TUNED
    slurm: SlurmBackfill = SLURM_DEFAULTS
    cap_slowdown: float = 1.0
    discipline: Discipline | None = None

    def __post_init__(self) -> None:
        if self.discipline is not None and not self.policy.takes_discipline:
            raise ValueError(f"discipline is of no use to {self.policy}: leave it out")
        if self.cap_slowdown > 1 and self.discipline is Discipline.SLURM:
            raise ValueError("cap_slowdown is of no use under the discipline slurm: leave it out")
        if self.cap_slowdown > 1 and not self.policy.takes_slower_modes:
            raise ValueError(f"cap_slowdown is of no use to {self.policy}: leave it out")

    @property
    def label(self) -> str:
        """Return the case without its seed and workload, as tables and pictures name it."""
        return f"{self.policy} w={self.t_weight:g}" if self.policy.weighs else self.policy


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A case in full: `job_id` (jobs,) are the jobs' numbers, `left_out` how many fit nowhere."""

    played: Played
    job_id: Ints
    left_out: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case."""

    case: Case
    summary: Summary
    left_out: int


def play_case(setup: Setup, case: Case) -> Outcome:
    """Play one case.

    The jobs of a seed run the same applications whatever the policy and its weights. Raises
    OSError or UnusableError for a workload that cannot be read or of which nothing fits, and for a
    policy that does not keep the system's caps.
    """
    setup.system.require_kept_by([case.policy], case.discipline)
    return play_jobs(setup, case, submit_jobs(case.workload, case.seed, setup.system))


def play_jobs(
    setup: Setup, case: Case, jobs: SubmittedJobs, discipline: Discipline | None = None
) -> Outcome:
    """Play a case's applications on other jobs, or with another discipline than its policy's."""
    epm = Epm.from_models(setup.models)
    app = draw_apps(epm.best(), case.workload, case.seed, len(jobs.jobs))
    weighing = Weighing(case.t_weight, case.reading)
    is_ahead = case.policy is SimulatedPolicy.LOOK_AHEAD
    policy = case.ahead.starts_from if is_ahead else case.policy
    by = policy, weighing, case.threshold, case.kill_at_limit, case.cap_slowdown
    choice = PolicyChoice(*by)
    entries = entries_of(setup.system, epm, jobs, app, choice)
    if is_ahead:
        entries, schedule = play_ahead(setup.system, epm, entries, case.ahead)
    else:
        pools = [replace(pool, slurm=case.slurm) for pool in setup.system.pools]
        passing = discipline or case.discipline or case.policy.discipline
        schedule = play(pools, entries.workload, passing, setup.system.over)
        entries = entries.started(schedule)
    played = Played(entries.workload, schedule, setup.system.fleet, entries.traits)
    return Outcome(played, entries.job_id, entries.left_out)


def result_of(setup: Setup, case: Case) -> Result:
    """Return the result of one case. Raises as `play_case`."""
    outcome = play_case(setup, case)
    return Result(case, summarise(outcome.played), outcome.left_out)


def sweep(setup: Setup, cases: Sequence[Case], workers: int | None = None) -> Iterator[Result]:
    """Yield the results of cases in their order, each as soon as it and those before it are there,
    by as many processes (None: as there are cores).

    Processes are spawned: a fork would copy the locks of a progress bar's thread.
    """
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(result_of, setup), cases)


def combinations(
    policies: Sequence[SimulatedPolicy],
    t_weights: Sequence[float],
    workloads: Sequence[WorkloadSpec],
    seeds: Sequence[int],
    *,
    threshold: float = THRESHOLD,
    reading: Reading = EVEN.reading,
    kill_at_limit: bool = True,
    ahead: Ahead = AS_TUNED,
    slurm: SlurmBackfill = SLURM_DEFAULTS,
    cap_slowdown: float = 1.0,
    discipline: Discipline | None = None,
) -> list[Case]:
    """Return all cases; a policy without weights is there with the first weight only."""
    how = threshold, reading, kill_at_limit, ahead, slurm, cap_slowdown, discipline
    return [
        Case(policy, workload, seed, t_weight, *how)
        for workload, policy, t_weight, seed in product(workloads, policies, t_weights, seeds)
        if policy.weighs or t_weight == t_weights[0]
    ]
