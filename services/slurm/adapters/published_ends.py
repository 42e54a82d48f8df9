"""Which jobs of Slurm's ended and were published: they are shown for a day."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobSubmitted

from services.slurm.model.jobs import SlurmJob


class _End(NamedTuple):
    number: int
    submit_s: int
    state: str
    ended_s: int


class _PublishedEnd(NamedTuple):
    events: Sequence[Envelope]
    array_id: str


class PublishedEnds:
    """Remembers what was published of jobs that ended, by its ids alone, so that no look makes it
    anew."""

    def __init__(self) -> None:
        self._known: dict[_End, _PublishedEnd] = {}
        self._next: dict[_End, _PublishedEnd] = {}

    def of(self, job: SlurmJob) -> _PublishedEnd | None:
        """Return what was published of a job that is shown as it was; None: it has to be made."""
        end = _end_of(job)
        found = self._known.get(end)
        if found is not None:
            self._next[end] = found
        return found

    def note(self, job: SlurmJob, events: Iterable[Envelope], array_id: str) -> None:
        """Note what is to be published of a job, which may have ended."""
        if not (job.is_pending or job.has_nodes):
            self._next[_end_of(job)] = _PublishedEnd([_slim(event) for event in events], array_id)

    def confirm(self) -> None:
        """Remember what was noted: it is published. What is shown no more is forgotten."""
        self._known, self._next = self._next, {}

    def give_up(self) -> None:
        """Forget what was noted: it was not published."""
        self._next = {}


def _end_of(job: SlurmJob) -> _End:
    return _End(job.job_id, job.submit_s, job.state, job.asked("end_time"))


def _slim(event: Envelope) -> Envelope:
    slim = Envelope(id=event.id)
    if event.HasField("job_submitted"):
        slim.job_submitted.CopyFrom(JobSubmitted(job_id=event.job_submitted.job_id))
    return slim
