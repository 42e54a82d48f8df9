"""Jobs whose times a wrong clock told."""

from collections.abc import Mapping
from dataclasses import replace

from shared.placement.jobs.actions import Refused
from shared.placement.jobs.table import CANDIDATES, PREFIX
from shared.placement.jobs.tracked import Tracked


def mended(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """The jobs that a wrong clock placed, ended or told of in the future, as of now."""
    changes: dict[str, bytes | None] = {}
    for key, value in restored.items():
        if key.startswith(PREFIX):
            job = Tracked.from_bytes(value)
            if _bring_back(job, now_us / 1e6):
                changes[key] = job.to_bytes()
                if job.candidates:  # of before they were kept apart
                    changes[CANDIDATES + job.job.job_id] = job.candidates_to_bytes()
    return changes


def _bring_back(job: Tracked, now_s: float) -> bool:
    """Whether anything of the job lay in the future."""
    before = (job.placed, job.ended_s, job.settles_s, job.actions, job.refusals)
    if job.placed is not None and job.placed.since_s > now_s:
        job.placed = replace(job.placed, ends_s=now_s + job.placed.limit_s)
    if job.placed is not None and (job.placed.suspended_s or 0.0) > now_s:
        job.placed = replace(job.placed, suspended_s=now_s)
    job.actions = tuple(replace(a, asked_s=min(a.asked_s, now_s)) for a in job.actions)
    job.refusals = tuple(Refused(kind, min(since_s, now_s)) for kind, since_s in job.refusals)
    job.ended_s = None if job.ended_s is None else min(job.ended_s, now_s)
    job.settles_s = min(job.settles_s, now_s)
    return before != (job.placed, job.ended_s, job.settles_s, job.actions, job.refusals)
