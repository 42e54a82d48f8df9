"""What users and accounts may have at once."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_USER,
    LimitsDeclared,
    LimitSubject,
)

from shared.domain.checks import require_text
from shared.domain.errors import RejectedError
from shared.domain.job import Job


class Kind(StrEnum):
    """Whom a limit holds for."""

    USER = "user"
    ACCOUNT = "account"


_KINDS: Final[Mapping[LimitSubject.ValueType, Kind]] = {
    LIMIT_SUBJECT_USER: Kind.USER,
    LIMIT_SUBJECT_ACCOUNT: Kind.ACCOUNT,
}


class Subject(NamedTuple):
    """A user or an account."""

    kind: Kind
    name: str


class Usage(NamedTuple):
    """Jobs that hold nodes, and how many: a pair on one node counts for both."""

    jobs: int = 0
    nodes: int = 0


class Limit(NamedTuple):
    """The most at once; 0 is no limit."""

    jobs: int = 0
    nodes: int = 0


def subjects_of(job: Job) -> tuple[Subject, Subject]:
    """Whose limits a job counts against."""
    return Subject(Kind.USER, job.user), Subject(Kind.ACCOUNT, job.account)


def limit_of(message: LimitsDeclared) -> tuple[Subject, Limit]:
    """A limit as declared. Raises RejectedError."""
    if message.subject not in _KINDS:
        raise RejectedError("subject", "must be a user or an account")
    require_text("name", message.name)
    subject = Subject(_KINDS[message.subject], message.name)
    return subject, Limit(message.most_running_jobs, message.most_nodes)


def jobs_exceeded(subject: Subject, limit: Limit, held: Usage) -> str:
    """Why one more job of the subject may not run, empty when it may."""
    if not limit.jobs or held.jobs < limit.jobs:
        return ""
    return f"{subject.kind} {subject.name} may run {limit.jobs} jobs at once and runs {held.jobs}"


def nodes_exceeded(subject: Subject, limit: Limit, held: Usage, nodes: int) -> str:
    """Why a job of the subject may not have so many nodes, empty when it may."""
    if not limit.nodes or held.nodes + nodes <= limit.nodes:
        return ""
    return (
        f"{subject.kind} {subject.name} may hold {limit.nodes} nodes at once, holds {held.nodes} "
        f"and needs {nodes} more"
    )
