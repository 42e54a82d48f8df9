"""What was published of jobs of which nothing is new: they wait, or ended a while ago."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted

from services.slurm.model.jobs import SlurmJob


class PublishedJob(NamedTuple):
    """A job as it was shown, with what was published of it, by its ids alone."""

    job: SlurmJob
    events: Sequence[Envelope]
    array_id: str


class PublishedJobs:
    """Remembers what was published of jobs for as long as Slurm shows them as they were, so that no
    look makes it anew."""

    def __init__(self) -> None:
        self._known: dict[int, PublishedJob] = {}
        self._next: dict[int, PublishedJob] = {}

    def of(self, job: SlurmJob) -> PublishedJob | None:
        """Return what was published of a job that is shown as it was; None: it has to be made."""
        found = self._known.get(job.job_id)
        if found is None or found.job != job:
            return None
        self._next[job.job_id] = found
        return found

    def note(self, job: SlurmJob, events: Iterable[Envelope], array_id: str) -> None:
        """Note what is to be published of a job, of which nothing but its fields counts."""
        slim = [_slim(event) for event in events]
        self._next[job.job_id] = PublishedJob(job, slim, array_id)

    def confirm(self) -> None:
        """Remember what was noted: it is published. What is shown no more is forgotten."""
        self._known, self._next = self._next, {}

    def give_up(self) -> None:
        """Forget what was noted: it was not published."""
        self._next = {}

    def forget_waiting(self) -> None:
        """Forget jobs that wait: what is known beside their fields is something else now."""
        self._known = {name: each for name, each in self._known.items() if not each.job.is_pending}


def _slim(event: Envelope) -> Envelope:
    slim = Envelope(id=event.id)
    if event.HasField("job_submitted"):
        slim.job_submitted.CopyFrom(JobSubmitted(job_id=event.job_submitted.job_id))
    return slim
