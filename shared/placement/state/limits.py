"""What users and accounts may have at once."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_USER,
    LimitsDeclared,
    LimitSubject,
)

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.domain.job import Job


class SubjectKind(StrEnum):
    """Whom a limit holds for."""

    USER = "user"
    ACCOUNT = "account"
    # Its tasks; how many may run at once is said with the submission.
    ARRAY = "array"


_KINDS: Final[Mapping[LimitSubject.ValueType, SubjectKind]] = {
    LIMIT_SUBJECT_USER: SubjectKind.USER,
    LIMIT_SUBJECT_ACCOUNT: SubjectKind.ACCOUNT,
}


class Subject(NamedTuple):
    """A user, an account or an array."""

    kind: SubjectKind
    name: str


class Usage(NamedTuple):
    """Jobs that hold nodes, and how many: a pair on one node counts for both."""

    jobs: int = 0
    nodes: int = 0


class Limit(NamedTuple):
    """The most at once; 0 is no limit."""

    jobs: int = 0
    nodes: int = 0

    def allows_job(self, held: Usage) -> bool:
        """Return whether one more job may run."""
        return not self.jobs or held.jobs < self.jobs

    def allows_nodes(self, held: Usage, nodes: int) -> bool:
        """Return whether a job may have so many nodes."""
        return not self.nodes or held.nodes + nodes <= self.nodes


def subjects_of(job: Job) -> tuple[Subject, ...]:
    """Return the user and the account whose limits a job counts against; of a task its array, too,
    where that has a limit."""
    return _subjects(job.user, job.account, job.array_id if job.array_at_most else "")


@lru_cache(maxsize=4096)  # each is asked for at every start and end of a job of theirs
def _subjects(user: str, account: str, array_id: str) -> tuple[Subject, ...]:
    own = Subject(SubjectKind.USER, user), Subject(SubjectKind.ACCOUNT, account)
    return (*own, Subject(SubjectKind.ARRAY, array_id)) if array_id else own


def declared(subject: Subject, limit: Limit) -> LimitsDeclared:
    """Return a limit as the message that declares it."""
    [kind] = [message for message, kind in _KINDS.items() if kind is subject.kind]
    return LimitsDeclared(
        subject=kind, name=subject.name, most_running_jobs=limit.jobs, most_nodes=limit.nodes
    )


def limit_of(message: LimitsDeclared) -> tuple[Subject, Limit]:
    """Return the limit that a message declares, and whom it holds for. Raises RejectedError."""
    if message.subject not in _KINDS:
        raise RejectedError("subject", "must be a user or an account")
    require_text("name", message.name)
    subject = Subject(_KINDS[message.subject], message.name)
    return subject, Limit(message.most_running_jobs, message.most_nodes)
