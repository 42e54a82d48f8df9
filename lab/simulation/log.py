"""A log in the Standard Workload Format as jobs of one pool of processors."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from coplace_client.errors import UnusableError
from lab.simulation.system import require_above_idle
from lab.workloads.swf import Skip, SwfLog, read_swf
from shared.scheduling.pool import Pool
from shared.scheduling.workload import Ints, Workload


@dataclass(frozen=True, slots=True, eq=False)
class LoggedJobs:
    """The jobs of a log that can run on a machine of `procs` processors, by submission.

    `job_id` and `user_id` (jobs,) are the log's numbers. `left_out` counts by reason what cannot
    run or be read, `out_of_order` the jobs that come after one that was submitted later.
    """

    job_id: Ints
    user_id: Ints
    workload: Workload
    procs: int
    left_out: Mapping[Skip, int]
    out_of_order: int


class UnknownSizeError(UnusableError):
    """A log does not say how large its machine was."""


def read_log(
    path: Path,
    procs: int | None = None,
    *,
    kill_at_limit: bool = True,
    proc_w: float = 0.0,
    cap_w: float = inf,
    idle_w: float = 0.0,
    cap_counts_idle: bool = True,
) -> LoggedJobs:
    """Read jobs of a log for a machine of `procs` processors (None: MaxProcs, else MaxNodes).

    A job takes the processors that it asked for, else those it got, and is expected to end after
    the time that it asked for, else its run time; `kill_at_limit` says that it ends then at the
    latest. Each processor draws `proc_w`, `idle_w` of it where it idles; a job that draws more than
    a cap leaves (see Pool) never starts and is left out. Jobs of one instant stay in the order of
    the file.
    Raises OSError when the file cannot be read, UnknownSizeError when neither `procs` nor it names
    a size, UnusableError when it holds no job that can run, and for a cap below which all idles.
    """
    log = read_swf(path)
    machine_procs = procs if procs is not None else log.machine_procs
    if machine_procs is None:
        raise UnknownSizeError(f"{path} says neither MaxProcs nor MaxNodes")
    pool = Pool(machine_procs, cap_w, idle_w, cap_counts_idle)
    require_above_idle("the pool", pool.cap_w, pool.base_mw)
    beyond_w = max(0.0, proc_w - idle_w)
    kept = log.playable(machine_procs, pool.left_mw / 1000 / beyond_w if beyond_w else inf)
    if not len(kept.rows):
        left_out = ", ".join(f"{count} for {reason}" for reason, count in kept.skipped.items())
        problem = f"{path} holds no job that can run (left out: {left_out or 'none'})"
        told = "raise the cap" if Skip.ABOVE_CAP in kept.skipped else "is it an SWF log?"
        raise UnusableError(f"{problem}: {told}")
    submit_s = kept.column("submit_s")
    by_submission = submit_s.argsort(kind="stable")
    workload = _workload(kept, by_submission, proc_w)
    return LoggedJobs(
        job_id=kept.column("job_number")[by_submission].astype(np.int64),
        user_id=kept.column("user_id")[by_submission].astype(np.int64),
        workload=workload.killed_at_limit() if kill_at_limit else workload,
        procs=machine_procs,
        left_out=kept.skipped,
        out_of_order=int((submit_s < np.maximum.accumulate(submit_s)).sum()),
    )


def _workload(log: SwfLog, by_submission: Ints, proc_w: float) -> Workload:
    procs = np.ceil(log.procs[by_submission])
    return Workload(
        submit_s=log.column("submit_s")[by_submission],
        order=np.arange(len(procs))[:, np.newaxis],
        units=procs.astype(np.int64)[:, np.newaxis],
        limit_s=log.estimate_s[by_submission, np.newaxis],
        run_s=log.column("run_s")[by_submission, np.newaxis],
        power_w=proc_w * procs[:, np.newaxis],
    )
