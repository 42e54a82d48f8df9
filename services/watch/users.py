"""Whose the jobs are, as long as something may be decided on them. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_REJECTED

from services.watch.model import LoggedDecision
from shared.catalogue.event import Event
from shared.domain.array_tasks import as_task, parse_tasks

TOPIC: Final = "jobs.events"
FOLDED: Final = (
    "coplace.v1.JobSubmitted",
    "coplace.v1.JobFinished",
    "coplace.v1.JobRequeued",
)
_FINAL: Final = (VERDICT_CANCELLED, VERDICT_REJECTED)


class JobUsers(Mapping[str, str]):
    """The user of each job, empty where nobody is known to have submitted it. Jobs that are over
    leave after `kept_us`, and where there are more than `most` those that are over first.

    The user of a task of an array is that of the array.

    Of what was decided before `forgotten_until_us` it is not known any more whose it was.
    """

    def __init__(
        self, kept_us: int, most: int, now_us: Callable[[], int], known_since_us: int = 0
    ) -> None:
        self.forgotten_until_us = known_since_us
        self.forgotten_unended = 0
        self._kept_us, self._most, self._now_us = kept_us, most, now_us
        # The longest unheard of first.
        self._users: OrderedDict[str, str] = OrderedDict()
        # The indices of the tasks of each array.
        self._arrays: dict[str, str] = {}
        # When each was over; the longest ago first.
        self._ended_us: OrderedDict[str, int] = OrderedDict()

    def __getitem__(self, job_id: str) -> str:
        if job_id in self._users or (named := as_task(job_id)) is None:
            return self._users[job_id]
        array_id, index = named
        if parse_tasks(self._arrays[array_id]).ordinal(index) is None:
            raise KeyError(job_id)
        return self._users[array_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def fold(self, event: Event) -> None:
        """Fold what happened to a job."""
        match event.payload:
            case JobSubmitted(job_id=job_id, user=user, array=indices):
                # A later submission is of an attempt; its owner is that of the first.
                self._hear_of(job_id, self._users.get(job_id) or user)
                if indices:
                    self._arrays[job_id] = indices
                self._ended_us.pop(job_id, None)
            case JobRequeued(job_id=job_id) if job_id in self._users:
                self._hear_of(job_id, self._users[job_id])
                self._ended_us.pop(job_id, None)
            case JobFinished(job_id=job_id) if job_id in self._users:
                self._end(job_id)
            case _:
                pass

    def decide(self, decision: LoggedDecision) -> None:
        """Note what is decided on a job."""
        if decision.job_id in self._users and decision.verdict in _FINAL:
            self._end(decision.job_id)

    def note_unknown(self, job_ids: Iterable[str]) -> None:
        """Note that nobody is known to have submitted these: they are not asked about again."""
        for job_id in job_ids:
            if job_id not in self._users:
                self._hear_of(job_id, "")
                self._end(job_id)

    def _end(self, job_id: str) -> None:
        self._ended_us.setdefault(job_id, self._now_us())
        self._forget()

    def _hear_of(self, job_id: str, user: str) -> None:
        self._users[job_id] = user
        self._users.move_to_end(job_id)
        self._forget()

    def _forget(self) -> None:
        before_us = self._now_us() - self._kept_us
        while self._ended_us:
            job_id, ended_us = next(iter(self._ended_us.items()))
            if ended_us >= before_us and len(self._users) <= self._most:
                return
            self._drop(job_id, ended_us)
        while len(self._users) > self._most:
            self.forgotten_unended += 1
            self._drop(next(iter(self._users)), self._now_us())

    def _drop(self, job_id: str, ended_us: int) -> None:
        self._ended_us.pop(job_id, None)
        self._arrays.pop(job_id, None)
        if self._users.pop(job_id):
            self.forgotten_until_us = max(self.forgotten_until_us, ended_us)
