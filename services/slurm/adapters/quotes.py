"""Notes in new jobs what they will cost and when they start, which `sbatch` prints."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import grpc
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_DECIDED,
    JOB_STANDING_RUNNING,
    ExplainResponse,
    QuoteResponse,
)

from coplace_client.calls import UnansweredError
from services.slurm.adapters.notes import JobNotes, NotesAMinute, noted_start
from services.slurm.adapters.reasons import Reasons
from services.slurm.adapters.region import AskedRegion
from services.slurm.model.jobs import SlurmJob

# For so long deploy/slurm/cli_filter.lua waits for a note.
_WITHIN_S: Final = 3.0
_STARTS: Final = frozenset({JOB_STANDING_DECIDED, JOB_STANDING_RUNNING})


class NewJob(NamedTuple):
    """A job that came, as Slurm shows it and as it was submitted to Coplace."""

    job: SlurmJob
    submitted: JobSubmitted


class Quotes:
    """Notes it once in each batch job, while there are commands for it: half of those of a minute
    are left to jobs that wait."""

    def __init__(
        self,
        region: AskedRegion,
        notes: JobNotes,
        reasons: Reasons,
        commands: NotesAMinute,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._region, self._notes, self._reasons = region, notes, reasons
        self._commands, self._clock_s = commands, clock_s
        self._new: deque[NewJob] = deque()

    def came(self, new: Sequence[NewJob]) -> None:
        """Take jobs that are new. Nobody waits any more for those of before."""
        self._new.extend(each for each in new if self._is_awaited(each.job))

    def note(self) -> None:
        """Note it in those that placement has decided on. Raises UnansweredError and
        SlurmError."""
        for _ in range(len(self._new)):
            new = self._new.popleft()
            if self._is_awaited(new.job) and not self._is_noted(new):
                self._new.append(new)

    def _is_awaited(self, job: SlurmJob) -> bool:
        is_late = self._clock_s() - job.submit_s > _WITHIN_S
        return not is_late and not job.is_interactive and self._notes.may_note(job)

    def _is_noted(self, new: NewJob) -> bool:
        """Note it; return False where it is not known yet what becomes of the job."""
        try:
            found = self._region.explained(new.submitted.job_id)
        except UnansweredError as error:
            if error.code is not grpc.StatusCode.NOT_FOUND:
                raise
            return False
        if not _reason(found):
            return False
        if self._commands.take(self._commands.per_minute / 2):
            price = _price(self._region.quoted(new.submitted), new.submitted)
            self._reasons.prices[new.submitted.job_id] = price
            self._notes.note([new.job], noted_start(_start_s(found), price, _reason(found)))
        return True


def _reason(found: ExplainResponse) -> str:
    """Why it waits, or where it starts; empty while neither is known."""
    if found.standing not in _STARTS:
        return found.reason
    if found.allocation.boots_until_us:
        return f"{','.join(found.allocation.booting) or 'its nodes'} boot first"
    return f"starts now on {found.allocation.cluster}"


def _start_s(found: ExplainResponse) -> float:
    forecast_us = found.forecast.start_at_us if found.forecast.cluster else 0
    return (found.allocation.boots_until_us or forecast_us) / 1e6


def _price(quoted: QuoteResponse, submitted: JobSubmitted) -> str:
    """What a job costs in the way in which it accepts nodes; empty where nobody can say."""
    for each in quoted.placements:
        if each.shareable == submitted.shareable and each.HasField("price_su"):
            of = each.price_su
            expected, low, high = (
                f"{float(level or 0):.3g}" for level in (of.expected, of.low, of.high)
            )
            return f"{expected} SU ({low} to {high})"
    return ""
