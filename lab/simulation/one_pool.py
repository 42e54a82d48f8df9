"""A log played on one pool of processors."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from coplace_client.errors import UnusableError
from lab.simulation.log import LoggedJobs
from lab.simulation.policy import ONE_POOL, SimulatedPolicy, order_of
from shared.domain.runtimes import PASSING_SHARE, Runtimes
from shared.replay.played import Fleet, Played
from shared.scheduling.pool import Pool
from shared.scheduling.runtimes import PredictingPool, UserRuntimes
from shared.scheduling.slurm import SLURM_DEFAULTS, SlurmBackfill
from shared.scheduling.timeline import play


@dataclass(frozen=True, slots=True)
class PoolMachine:
    """`procs` processors under a cap, as Pool has it; one that idles draws `idle_w`. `slurm` is for
    that policy."""

    procs: int
    idle_w: float = 0.0
    cap_w: float = inf
    slurm: SlurmBackfill = SLURM_DEFAULTS
    cap_counts_idle: bool = True

    @property
    def pool(self) -> Pool:
        """Return what the timeline plays on."""
        return Pool(self.procs, self.cap_w, self.idle_w, self.cap_counts_idle, self.slurm)

    @property
    def fleet(self) -> Fleet:
        """Return it as the only cluster of a system."""
        return Fleet(
            names=("procs",),
            units=np.array([self.procs]),
            idle_w=np.array([self.idle_w]),
            cap_w=np.array([self.pool.most_w]),
        )


def play_log(
    logged: LoggedJobs,
    machine: PoolMachine,
    policy: SimulatedPolicy,
    runtimes: Runtimes = Runtimes.REQUESTED,
    passing_share: float = PASSING_SHARE,
) -> Played:
    """Play a log.

    Raises UnusableError for a policy that needs applications, which a log does not name, and
    ValueError for predictions where nothing is backfilled by them.
    """
    if policy not in ONE_POOL:
        known = ", ".join(ONE_POOL)
        raise UnusableError(f"{policy} needs applications, and a log names none: take {known}")
    jobs = logged.workload
    order = order_of(policy, np.zeros_like(jobs.order), np.zeros_like(jobs.order), jobs.limit_s)
    workload = replace(jobs, order=order)
    pool = machine.pool
    if runtimes is Runtimes.PREDICTED:
        capped = pool.cap_w, pool.idle_w, pool.cap_counts_idle
        expected = _predictions(logged)
        pool = PredictingPool(pool.units, *capped, runtimes=expected, passing_share=passing_share)
    schedule = play([pool], workload, policy.discipline)
    return Played(workload, schedule, machine.fleet)


def _predictions(logged: LoggedJobs) -> UserRuntimes:
    jobs = logged.workload
    return UserRuntimes(
        logged.user_id.tolist(),
        jobs.submit_s.tolist(),
        jobs.run_s[:, 0].tolist(),
    )
