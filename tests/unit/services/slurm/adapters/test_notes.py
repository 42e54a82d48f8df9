"""What is noted in a job is seen by its user, and takes no comment of his away."""

from typing import Any

import pytest

from services.slurm.adapters.commands import SlurmBusyError, SlurmRefusedError
from services.slurm.adapters.notes import JobNotes, noted
from services.slurm.model.jobs import SlurmJob
from tests.unit.services.slurm.fields import JOB


class NotingSlurm:
    """Takes comments in the fields that its release lets be set."""

    def __init__(self, *fields: str) -> None:
        self.fields, self.made = fields, list[tuple[str, str, str]]()
        self.failure: Exception | None = None

    def comment(self, jobs: str, field: str, note: str) -> None:
        """Take it."""
        if self.failure is not None:
            raise self.failure
        if field not in self.fields:
            words = f"Update of this parameter is not supported: {field}={note}"
            raise SlurmRefusedError(f"scontrol: {words}", words)
        self.made.append((jobs, field, note))

    def notify(self, job: str, words: str) -> None:
        """Write it."""
        self.made.append((job, "", words))


def job(number: int, **changes: Any) -> SlurmJob:
    return SlurmJob({**JOB, "job_id": number, "comment": "", **changes})


def notes(slurm: NotingSlurm) -> JobNotes:
    return JobNotes(slurm)  # type: ignore[arg-type]


def test_it_is_a_system_comment_whatever_the_user_wrote() -> None:
    slurm = NotingSlurm("SystemComment", "Comment")
    notes(slurm).note([job(1), job(2, comment="app_id=lu.C")], "coplace: no nodes")
    assert slurm.made == [("1,2", "SystemComment", "coplace: no nodes")]


def test_where_slurm_sets_none_it_is_the_comment_of_jobs_without_one() -> None:
    slurm = NotingSlurm("Comment")
    made = notes(slurm)
    made.note([job(1), job(2, comment="app_id=lu.C")], "coplace: no nodes")
    made.note([job(2, comment="mine"), job(3, comment="coplace: before")], "coplace: later")
    assert slurm.made == [
        ("1", "Comment", "coplace: no nodes"),
        ("3", "Comment", "coplace: later"),
    ]


def test_whoever_waits_in_salloc_reads_it_there_whatever_his_comment_is() -> None:
    slurm = NotingSlurm("Comment")
    made, sits = notes(slurm), job(1, batch_flag=False, comment="mine")
    made.note([job(9)], "coplace: no nodes")
    assert made.may_note(sits)
    made.note([sits], "coplace: no nodes")
    assert slurm.made[1:] == [("1", "", "coplace: no nodes")]


def test_what_slurm_refuses_of_a_job_holds_up_nothing_and_a_busy_one_is_asked_again() -> None:
    slurm = NotingSlurm("SystemComment")
    slurm.failure = SlurmRefusedError("scontrol: no", "no")
    notes(slurm).note([job(1)], "coplace: no nodes")
    slurm.failure = SlurmBusyError("scontrol: later", "later")
    with pytest.raises(SlurmBusyError):
        notes(slurm).note([job(1)], "coplace: no nodes")


def test_a_note_is_one_short_line_that_names_no_application() -> None:
    found = noted(f"app_id=x\n{'y' * 500}")
    assert found.startswith("coplace: app_id x_y")
    assert len(found) == 256
