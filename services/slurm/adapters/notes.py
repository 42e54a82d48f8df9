"""Notes in the jobs of a Slurm what their users see in `squeue`."""

from collections.abc import Iterable
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
        return self._field == "SystemComment" or not job.has_own_comment

    def note(self, jobs: Iterable[SlurmJob], note: str) -> None:
        """Leave a note in jobs that wait, unless Slurm refuses that. Raises SlurmError."""
        for names in names_of_waiting(job for job in jobs if self.may_note(job)):
            try:
                self._slurm.comment(names, self._field, note)
            except SlurmRefusedError as error:
                if self._field == "Comment" or "not supported" not in error.words:
                    log.warning("not noted", jobs=names, problem=str(error))
                    continue
                self._field = "Comment"
                return self.note(jobs, note)
        return None
