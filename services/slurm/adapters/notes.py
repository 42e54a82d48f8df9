"""Notes in the jobs of a Slurm what their users see in `squeue`, or where they wait in salloc."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from coplace.v1.placement_pb2 import PlacementDecided

from services.slurm.adapters.commands import Slurm, SlurmRefusedError
from services.slurm.model.jobs import NOTED, SlurmJob, names_of_waiting
from shared.domain.printable import printable

_MOST_NOTED: Final = 256
_MINUTE_S: Final = 60.0

log = structlog.get_logger(__name__)


def noted(words: str) -> str:
    """Return words as they are noted: in one line, and naming no application."""
    return printable(f"{NOTED}{words}".replace("=", " "), _MOST_NOTED)


def noted_start(start_s: float, price: str, reason: str) -> str:
    """Return a note of a job that waits: when it is expected to start (0: nobody knows), what it
    will cost, and why it waits; empty texts are left out."""
    at = time.strftime("%Y-%m-%dT%H:%M", time.localtime(start_s)) if start_s else ""
    said = ", ".join(each for each in (at and f"start expected {at}", price) if each)
    return noted(": ".join(each for each in (said, reason) if each))


def boot_note(decided: PlacementDecided) -> str:
    """Return what is noted in a job that starts on nodes which boot first."""
    nodes = ",".join(decided.booting) or "its nodes"
    return noted_start(decided.decided_at_us / 1e6 + decided.boot_s, "", f"{nodes} boot first")


class NotesAMinute:
    """So many commands of Slurm a minute at most, for notes of any kind."""

    def __init__(self, per_minute: int, clock_s: Callable[[], float] = time.time) -> None:
        self.per_minute, self._clock_s = per_minute, clock_s
        self._left, self._filled_s = float(per_minute), clock_s()

    def take(self, least_left: float = 0.0) -> bool:
        """Take one of the commands of this minute, where so many are left then."""
        now_s = self._clock_s()
        refilled = (now_s - self._filled_s) / _MINUTE_S * self.per_minute
        self._left = min(self.per_minute, self._left + max(0.0, refilled))
        self._filled_s = now_s
        if self._left < 1 + least_left:
            return False
        self._left -= 1
        return True


class JobNotes:
    """In SystemComment, which is nobody's; releases of Slurm that do not set it get the note as
    Comment, in jobs whose user wrote none."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm, self._field = slurm, "SystemComment"

    def may_note(self, job: SlurmJob) -> bool:
        """Return whether there is a place for a note in a job."""
        return job.is_interactive or self._may_leave(job)

    def _may_leave(self, job: SlurmJob) -> bool:
        return self._field == "SystemComment" or not job.has_own_comment

    def note(self, jobs: Sequence[SlurmJob], note: str) -> None:
        """Leave a note in jobs that wait, unless Slurm refuses that; salloc and srun print it.
        Raises SlurmError."""
        self._leave(jobs, note)
        for job in jobs:
            if job.is_interactive:
                try:
                    self._slurm.notify(job.name_in_slurm, note)
                except SlurmRefusedError as error:
                    log.warning("not printed", job=job.name_in_slurm, problem=str(error))

    def _leave(self, jobs: Sequence[SlurmJob], note: str) -> None:
        for names in names_of_waiting(job for job in jobs if self._may_leave(job)):
            try:
                self._slurm.comment(names, self._field, note)
            except SlurmRefusedError as error:
                if self._field == "Comment" or "not supported" not in error.words:
                    log.warning("not noted", jobs=names, problem=str(error))
                    continue
                self._field = "Comment"
                return self._leave(jobs, note)
        return None
