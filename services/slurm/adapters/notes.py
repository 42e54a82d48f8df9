"""Notes in the jobs of a Slurm what their users see in `squeue`, or where they wait in salloc."""

from collections.abc import Sequence
from typing import Final

import structlog

from services.slurm.adapters.commands import Slurm, SlurmRefusedError
from services.slurm.model.jobs import NOTED, SlurmJob, names_of_waiting
from shared.domain.printable import printable

_MOST_NOTED: Final = 256

log = structlog.get_logger(__name__)


def noted(words: str) -> str:
    """Return words as they are noted: in one line, and naming no application."""
    return printable(f"{NOTED}{words}".replace("=", " "), _MOST_NOTED)


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
