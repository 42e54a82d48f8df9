"""Repair of jobs whose times a wrong clock gave."""

from collections.abc import Mapping
from dataclasses import replace

from shared.placement.state.job_record import JOBS, JobRecord
from shared.placement.state.job_table import TABLE
from shared.streams.state.state import State


def repaired(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """Return the changes that set times of jobs which a wrong clock dated to the future to now."""
    state = State(restored)
    jobs = state.table(TABLE, JOBS)
    for job_id, job in jobs.items():
        if _bring_back(job, now_us / 1e6):
            jobs.changed(job_id)
    return state.changes()


def _bring_back(job: JobRecord, now_s: float) -> bool:
    """Set the times of a job that lie in the future to now; return whether any did."""
    before = (
        job.run.allocation,
        job.life.ended_s,
        job.notice.settles_s,
        job.run.actions,
        job.run.refusals,
    )
    if job.run.allocation is not None and job.run.allocation.since_s > now_s:
        job.run.allocation = replace(job.run.allocation, ends_s=now_s + job.run.allocation.limit_s)
    if job.run.allocation is not None and (job.run.allocation.suspended_s or 0.0) > now_s:
        job.run.allocation = replace(job.run.allocation, suspended_s=now_s)
    job.run.actions = tuple(replace(a, asked_s=min(a.asked_s, now_s)) for a in job.run.actions)
    job.run.refusals = tuple(
        replace(each, since_s=min(each.since_s, now_s)) for each in job.run.refusals
    )
    job.life.ended_s = None if job.life.ended_s is None else min(job.life.ended_s, now_s)
    job.notice.settles_s = min(job.notice.settles_s, now_s)
    return before != (
        job.run.allocation,
        job.life.ended_s,
        job.notice.settles_s,
        job.run.actions,
        job.run.refusals,
    )
