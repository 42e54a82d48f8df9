"""Repair of jobs whose times a wrong clock gave."""

from dataclasses import replace

from shared.placement.state.job_record import JOBS, JobRecord
from shared.placement.state.job_table import TABLE
from shared.streams.state.state import State


def repair(state: State, now_us: int) -> None:
    """Set times of jobs that a wrong clock dated to the future to now."""
    jobs = state.table(TABLE, JOBS)
    for job_id, job in jobs.items():
        before = _times(job)
        _bring_back(job, now_us / 1e6)
        if _times(job) != before:
            jobs.changed(job_id)


def _times(job: JobRecord) -> tuple[object, ...]:
    """Return what says when something of a job was."""
    run = job.run
    return run.allocation, run.actions, run.refusals, job.life.ended_s, job.notice.settles_s


def _bring_back(job: JobRecord, now_s: float) -> None:
    """Set the times of a job that lie in the future to now."""
    run = job.run
    if run.allocation is not None and run.allocation.since_s > now_s:
        run.allocation = replace(run.allocation, ends_s=now_s + run.allocation.limit_s)
    if run.allocation is not None and (run.allocation.suspended_s or 0.0) > now_s:
        run.allocation = replace(run.allocation, suspended_s=now_s)
    run.actions = tuple(replace(a, asked_s=min(a.asked_s, now_s)) for a in run.actions)
    run.refusals = tuple(replace(each, since_s=min(each.since_s, now_s)) for each in run.refusals)
    job.life.ended_s = None if job.life.ended_s is None else min(job.life.ended_s, now_s)
    job.notice.settles_s = min(job.notice.settles_s, now_s)
