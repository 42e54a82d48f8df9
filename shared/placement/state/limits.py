"""What users, accounts, qualities of service and partitions may have at once."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple, Self

from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_PARTITION,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    LimitsDeclared,
    LimitSubject,
)

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE, millicores, whole_cores
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.domain.resources import Resources, resources_of
from shared.scheduling.problem import nodes_worth, unit_millicores

_HOUR_S: Final = 3600
JOBS: Final = "jobs"
NODES: Final = "nodes"
CORES: Final = "cores"
NODE_HOURS: Final = "node-hours"


class SubjectKind(StrEnum):
    """Whom a limit holds for."""

    USER = "user"
    ACCOUNT = "account"
    QOS = "qos"
    PARTITION = "partition"
    # Its tasks; how many may run at once is said with the submission.
    ARRAY = "array"


_KINDS: Final[Mapping[LimitSubject.ValueType, SubjectKind]] = {
    LIMIT_SUBJECT_USER: SubjectKind.USER,
    LIMIT_SUBJECT_ACCOUNT: SubjectKind.ACCOUNT,
    LIMIT_SUBJECT_QOS: SubjectKind.QOS,
    LIMIT_SUBJECT_PARTITION: SubjectKind.PARTITION,
}
# Who may have a limit for itself within what.
_WITHIN: Final[Mapping[SubjectKind, tuple[SubjectKind, ...]]] = {
    SubjectKind.USER: (),
    SubjectKind.ACCOUNT: (SubjectKind.USER,),
    SubjectKind.QOS: (SubjectKind.USER, SubjectKind.ACCOUNT),
    SubjectKind.PARTITION: (SubjectKind.USER, SubjectKind.ACCOUNT),
}


class Subject(NamedTuple):
    """A user, an account, a QOS, a partition or an array; or, within one of these, each user or
    account for itself: `who` is which one, empty for all that a limit is declared for. With a site
    it is about what runs on the clusters of that alone."""

    kind: SubjectKind
    name: str
    each: SubjectKind | None = None
    who: str = ""
    site: str = ""

    @property
    def declared(self) -> "Subject":
        """Return what a limit is declared for that holds for it."""
        return self if self.each is None else self._replace(who="")

    @property
    def words(self) -> str:
        """Return it as people say it."""
        of = f"{self.kind} {self.name}" + (f" at {self.site}" if self.site else "")
        return of if self.each is None else f"{self.each} {self.who or '*'} of {of}"

    @property
    def shown(self) -> str:
        """Return the name of whoever is at a limit."""
        return self.who or self.name


class Usage(NamedTuple):
    """Jobs that hold nodes, and what these hold: a pair on one node counts for both. `node_s` is
    nodes times the limits that the jobs asked for."""

    jobs: int = 0
    nodes: int = 0
    millicores: int = 0
    node_s: int = 0
    resources: Resources = ()

    def plus(self, other: Self) -> "Usage":
        """Return both together."""
        both = Held()
        both.count(self)
        both.count(other)
        return both.usage

    @property
    def amounts(self) -> dict[str, int]:
        """Return what is counted of nodes, by its unit; cores in thousandths and node-hours in
        seconds."""
        counts = {NODES: self.nodes, CORES: self.millicores, NODE_HOURS: self.node_s}
        return counts | dict(self.resources)


NOTHING: Final = Usage()


class Held:
    """What the jobs hold that count against a subject: it changes with each start and end."""

    def __init__(self) -> None:
        self.jobs = self._nodes = self._millicores = self._node_s = 0
        self._resources: dict[str, int] = {}

    def count(self, usage: Usage, sign: int = 1) -> None:
        """Add what a job holds, or take it off."""
        self.jobs += sign * usage.jobs
        self._nodes += sign * usage.nodes
        self._millicores += sign * usage.millicores
        self._node_s += sign * usage.node_s
        for name, count in usage.resources:
            self._resources[name] = self._resources.get(name, 0) + sign * count

    @property
    def usage(self) -> Usage:
        """Return it as limits count it."""
        counts = self.jobs, self._nodes, self._millicores, self._node_s
        return Usage(*counts, resources_of(self._resources) if self._resources else ())


# The most at once; what is 0 or absent is no limit.
Limit = Usage


class Beyond(NamedTuple):
    """What a job would take beyond a limit: of which unit, how much is allowed, held and needed."""

    unit: str
    most: float
    held: float
    needed: float


def allows_job(limit: Limit, held: Usage) -> bool:
    """Return whether one more job may run."""
    return not limit.jobs or held.jobs < limit.jobs


def beyond(limit: Limit, held: Usage, needed: Usage) -> Beyond | None:
    """Return the first amount by which a job would be over a limit; None where it is not."""
    have, need = held.amounts, needed.amounts
    for unit, most in limit.amounts.items():
        if most and have.get(unit, 0) + need.get(unit, 0) > most and need.get(unit, 0):
            of = most, have.get(unit, 0), need[unit]
            return Beyond(unit, *(_shown(unit, amount) for amount in of))
    return None


def _shown(unit: str, amount: int) -> float:
    if unit == NODE_HOURS:
        return round(amount / _HOUR_S, 2)
    return amount / PER_CORE if unit == CORES else amount


def usage_of(job: Job, cluster: Cluster, units: int) -> Usage:
    """Return what so many units of a job are on a cluster, as limits count them. Resources are
    those that it asked for."""
    nodes = nodes_worth(job, cluster, units)
    held = units * unit_millicores(job, cluster)
    return Usage(1, nodes, held, nodes * ceil(job.walltime_s), job.resources(units))


def usage_in_partitions(
    parts: Iterable[tuple[Iterable[str], Job, int]], cluster: Cluster
) -> dict[str, Usage]:
    """Return what parts of one job, each of so many units, hold in partitions of these names."""
    found: dict[str, Usage] = {}
    for names, part, units in parts:
        usage = usage_of(part, cluster, units)
        for name in names:
            both = found[name].plus(usage) if name in found else usage
            found[name] = both._replace(jobs=1)
    return found


def subjects_of(job: Job) -> tuple[Subject, ...]:
    """Return those whose limits a job counts against wherever it runs: of a task its array too,
    which may get one later."""
    return _subjects(job.user, job.account, job.qos, job.array_id)


@lru_cache(maxsize=4096)  # each is asked for at every start and end of a job of theirs
def _subjects(user: str, account: str, qos: str, array_id: str) -> tuple[Subject, ...]:
    found = [
        Subject(SubjectKind.USER, user),
        Subject(SubjectKind.ACCOUNT, account),
        Subject(SubjectKind.ACCOUNT, account, SubjectKind.USER, user),
    ]
    if qos:
        found += [
            Subject(SubjectKind.QOS, qos),
            Subject(SubjectKind.QOS, qos, SubjectKind.USER, user),
            Subject(SubjectKind.QOS, qos, SubjectKind.ACCOUNT, account),
        ]
    if array_id:
        found.append(Subject(SubjectKind.ARRAY, array_id))
    return tuple(found)


def subjects_at(site: str, job: Job) -> tuple[Subject, ...]:
    """Return those whose limits a job counts against on the clusters of a site."""
    return _at(site, _subjects(job.user, job.account, job.qos, ""))


@lru_cache(maxsize=4096)
def subjects_in(partition: str, user: str, account: str, site: str) -> tuple[Subject, ...]:
    """Return those whose limits a job counts against in a partition of a site's cluster."""
    anywhere = (
        Subject(SubjectKind.PARTITION, partition),
        Subject(SubjectKind.PARTITION, partition, SubjectKind.USER, user),
        Subject(SubjectKind.PARTITION, partition, SubjectKind.ACCOUNT, account),
    )
    return (*anywhere, *_at(site, anywhere))


@lru_cache(maxsize=4096)
def _at(site: str, subjects: tuple[Subject, ...]) -> tuple[Subject, ...]:
    return tuple(each._replace(site=site) for each in subjects)


def declared(subject: Subject, limit: Limit) -> LimitsDeclared:
    """Return a limit as the message that declares it."""
    kinds = {kind: message for message, kind in _KINDS.items()}
    each = kinds[subject.each] if subject.each else LIMIT_SUBJECT_UNSPECIFIED
    return LimitsDeclared(
        subject=kinds[subject.kind],
        name=subject.name,
        each=each,
        most_running_jobs=limit.jobs,
        most_nodes=limit.nodes,
        most_cores=whole_cores(limit.millicores),
        most_resources=dict(limit.resources),
        most_node_hours=limit.node_s / _HOUR_S,
        site=subject.site,
    )


def limit_of(message: LimitsDeclared) -> tuple[Subject, Limit]:
    """Return the limit that a message declares, and whom it holds for. Raises RejectedError."""
    if message.subject not in _KINDS:
        raise RejectedError("subject", "must be a user, an account, a QOS or a partition")
    require_text("name", message.name)
    kind = _KINDS[message.subject]
    each = _KINDS.get(message.each)
    if each is not None and each not in _WITHIN[kind]:
        raise RejectedError("each", f"must not be {each} within {kind}")
    subject = Subject(kind, message.name, each, site=message.site)
    node_s = ceil(message.most_node_hours * _HOUR_S)
    cores = millicores(message.most_cores)
    most = message.most_running_jobs, message.most_nodes, cores, node_s
    return subject, Limit(*most, resources_of(message.most_resources))


def held_under(subject: Subject, held: Mapping[Subject, Held]) -> tuple[str, Usage]:
    """Return what is held under a declared limit: where each has it for itself, by the one that has
    the most nodes, with its name."""
    if subject.each is None:
        return "", held[subject].usage if subject in held else NOTHING
    most = max(_within(subject, held), default=(0, 0, "", NOTHING))
    return most[2], most[3]


def _within(
    subject: Subject, held: Mapping[Subject, Held]
) -> Iterator[tuple[int, int, str, Usage]]:
    for of, each in held.items():
        if of.declared == subject:
            usage = each.usage
            yield usage.nodes, usage.jobs, of.who, usage
