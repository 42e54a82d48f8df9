"""Which jobs may start, worked out anew at the end of each round from what was reported: without an
index, a queue of times, or a graph of what waits for what."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import singledispatchmethod
from typing import Any, Final

from coplace.v1.control_pb2 import ReservationDeclared, ReservationRemoved
from coplace.v1.jobs_pb2 import (
    DEPENDENCY_CONDITION_AFTER,
    DEPENDENCY_CONDITION_AFTER_ANY,
    DEPENDENCY_CONDITION_AFTER_NOT_OK,
    DEPENDENCY_CONDITION_AFTER_OK,
    DEPENDENCY_CONDITION_SINGLETON,
    JOB_OUTCOME_COMPLETED,
    Dependency,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)

_TEXTS_BEFORE_NUMBERS: Final = -1


class State(Enum):
    """What a job is."""

    WAITS = auto()
    GRANTED = auto()
    RUNS = auto()
    COMPLETED = auto()
    FAILED = auto()


ENDED: Final = (State.COMPLETED, State.FAILED)


@dataclass(slots=True)
class Awaited:
    """A dependency, and when it is met: None while what it waits for has not happened."""

    asked: Dependency
    due_us: int | None = None

    @property
    def is_singleton(self) -> bool:
        """Whether it waits for jobs of the same name."""
        return self.asked.condition == DEPENDENCY_CONDITION_SINGLETON


@dataclass(slots=True)
class Seen:
    """A job as it was reported: `arrival` is its place among all that queued up."""

    job: JobSubmitted
    arrival: int
    awaits: list[Awaited]
    state: State = State.WAITS
    is_held: bool = False
    started_us: int = 0
    ended_us: int = 0
    nodes: frozenset[int] = frozenset()

    @property
    def order(self) -> tuple[int, int]:
        """Its place among jobs of its name: sequences are numbers here."""
        return int(self.job.sequence or _TEXTS_BEFORE_NUMBERS), self.arrival

    @property
    def name(self) -> tuple[str, str, str]:
        """What a singleton looks at."""
        return self.job.account, self.job.user, self.job.job_name


@dataclass(slots=True)
class Oracle:
    """Reads what is reported, and answers at the end of a round, which `end_round` begins."""

    every_node: frozenset[int]
    jobs: dict[str, Seen] = field(default_factory=dict)
    reserved: dict[str, ReservationDeclared] = field(default_factory=dict)
    now_us: int = 0
    _arrivals: int = 0

    @singledispatchmethod
    def read(self, payload: Any) -> None:
        """Note what was reported."""
        raise NotImplementedError(payload)

    @read.register
    def _submitted(self, told: JobSubmitted) -> None:
        awaits = [Awaited(each) for each in told.depends_on]
        self.jobs[told.job_id] = Seen(told, self._next(), awaits, is_held=bool(told.held_because))

    @read.register
    def _started(self, told: JobStarted) -> None:
        job = self.jobs[told.job_id]
        job.state, job.started_us = State.RUNS, told.started_at_us
        job.awaits = [each for each in job.awaits if each.is_singleton]

    @read.register
    def _finished(self, told: JobFinished) -> None:
        job, is_ok = self.jobs[told.job_id], told.outcome == JOB_OUTCOME_COMPLETED
        job.state, job.ended_us = State.COMPLETED if is_ok else State.FAILED, told.ended_at_us
        job.started_us, job.nodes = told.started_at_us, frozenset()

    @read.register
    def _declined(self, told: JobDeclined) -> None:
        job = self.jobs[told.job_id]
        job.state, job.nodes = State.WAITS, frozenset()

    @read.register
    def _requeued(self, told: JobRequeued) -> None:
        job = self.jobs[told.job_id]
        job.state, job.arrival, job.started_us = State.WAITS, self._next(), 0
        job.nodes = frozenset()

    @read.register
    def _cancelled(self, told: JobCancelled) -> None:
        self.jobs[told.job_id].state = State.FAILED

    @read.register
    def _held(self, told: JobHeld) -> None:
        self.jobs[told.job_id].is_held = True

    @read.register
    def _released(self, told: JobReleased) -> None:
        self.jobs[told.job_id].is_held = False

    @read.register
    def _reserved(self, told: ReservationDeclared) -> None:
        self.reserved[told.name] = told

    @read.register
    def _unreserved(self, told: ReservationRemoved) -> None:
        del self.reserved[told.name]

    def end_round(self, now_us: int) -> None:
        """See which dependencies are met by now: what was met stays met."""
        self.now_us = now_us
        for job in self.jobs.values():
            if job.state in ENDED and not job.ended_us:
                job.ended_us = now_us  # nobody says when it was cancelled
        for job in self.waiting():
            for awaited in job.awaits:
                if awaited.due_us is None and not awaited.is_singleton:
                    happened_us = self._happened_us(job, awaited.asked)
                    if happened_us is not None:
                        delay_us = round(awaited.asked.delay_s * 1e6)
                        awaited.due_us = happened_us + delay_us if delay_us else 0
            # What was enough stays so, but for a singleton.
            is_over = [d.due_us is not None and d.due_us <= now_us for d in job.awaits]
            if job.job.depends_on_any and any(is_over):
                job.awaits = []

    def start(self, job_id: str, nodes: Iterable[int]) -> None:
        """Note that a start was decided."""
        job = self.jobs[job_id]
        job.state, job.nodes = State.GRANTED, frozenset(nodes)

    def open_to(self, job: Seen, start_us: int) -> frozenset[int]:
        """The nodes on which a job that starts then runs into nothing that is kept for others until
        its limit: those of its reservation, where it names one."""
        end_us = start_us + round(job.job.walltime_s * 1e6)
        left = set(self.every_node)
        for name, each in self.reserved.items():
            nodes = _nodes(each)
            if name == job.job.reservation:
                left &= nodes if _holds(each, start_us, end_us) else set()
            elif start_us < each.until_us and each.from_us < end_us:
                left -= nodes
        if job.job.reservation and job.job.reservation not in self.reserved:
            return frozenset()
        return frozenset(left)

    def free_for(self, job: Seen) -> frozenset[int]:
        """The nodes that a job could have now."""
        used = {node for other in self.jobs.values() for node in other.nodes}
        return self.open_to(job, self.now_us) - used

    def lacks_reservation(self, job: Seen) -> bool:
        """Whether a job asks for a reservation in which it can't run any more as it is."""
        if not job.job.reservation:
            return False
        own = self.reserved.get(job.job.reservation)
        if own is None:
            return True
        may = job.job.user in own.users or job.job.account in own.accounts
        start_us = max(self.now_us, own.from_us)
        is_within = _holds(own, start_us, start_us + round(job.job.walltime_s * 1e6))
        return not (is_within and may) or len(_nodes(own)) < job.job.nodes

    def why_not(self, job: Seen) -> str:
        """Return what keeps a job that waits from a start now, wherever there is room; empty where
        nothing does."""
        if job.is_held:
            return "it is held"
        if self.lacks_reservation(job):
            return "it is not of its reservation"
        if self.misses_deadline(job):
            return "it would run past its deadline"
        if job.job.begin_at_us > self.now_us:
            return "it begins later"
        return "" if self._is_met(job) else "its dependencies are not met"

    def misses_deadline(self, job: Seen) -> bool:
        """Whether no start from now on ends by its deadline."""
        if not job.job.deadline_at_us:
            return False
        begin_us = max(self.now_us, job.job.begin_at_us)
        turns_us = [us for each in self.reserved.values() for us in (each.from_us, each.until_us)]
        starts_us = [
            us
            for us in (begin_us, *turns_us)
            if us >= begin_us and len(self.open_to(job, us)) >= job.job.nodes
        ]
        limit_us = round(job.job.walltime_s * 1e6)
        return not starts_us or job.job.deadline_at_us < min(starts_us) + limit_us

    def is_hopeless(self, job: Seen) -> bool:
        """Whether it waits for what can not happen any more, but by a new attempt."""
        failed = [self._is_hopeless(job, each) for each in job.awaits]
        return (all if job.job.depends_on_any else any)(failed) if failed else False

    def startable(self) -> set[str]:
        """Return the jobs of which nothing but others that come free keeps them from a start some
        time: what is in a circle is not among them, nor what waits for it."""
        found: set[str] = set()
        before = -1
        while before < len(found):
            before = len(found)
            found |= {name for name, job in self.jobs.items() if self._comes_free(job, found)}
        return found

    def next_us(self) -> int | None:
        """Return when time alone lets a job start next, or keeps it from one."""
        times_us = [us for each in self.reserved.values() for us in (each.from_us, each.until_us)]
        for job in self.waiting():
            times_us.append(job.job.begin_at_us)
            if not self._is_met(job):
                times_us += [each.due_us for each in job.awaits if each.due_us is not None]
            if job.job.deadline_at_us:
                limit_us = round(job.job.walltime_s * 1e6)
                times_us.append(job.job.deadline_at_us - limit_us + 1)
                times_us += [each.from_us - limit_us + 1 for each in self.reserved.values()]
            if own := self.reserved.get(job.job.reservation):
                times_us.append(own.until_us - round(job.job.walltime_s * 1e6) + 1)
                times_us.append(own.from_us + _late_us(own) + 1)
        return min((at_us for at_us in times_us if at_us > self.now_us), default=None)

    def waiting(self) -> list[Seen]:
        """Return the jobs that wait, by arrival."""
        found = [job for job in self.jobs.values() if job.state is State.WAITS]
        return sorted(found, key=lambda job: job.arrival)

    def _next(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _happened_us(self, job: Seen, asked: Dependency) -> int | None:
        """When what a dependency waits for happened, us; None where it has not."""
        other = self.jobs.get(asked.job_id)
        if other is None or other.job.account != job.job.account:
            return None
        match asked.condition, other.state:
            case (_c, State.WAITS | State.GRANTED):
                return None
            case (c, State.RUNS):
                return other.started_us if c == DEPENDENCY_CONDITION_AFTER else None
        has_failed = other.state is State.FAILED
        is_met = {
            DEPENDENCY_CONDITION_AFTER: True,
            DEPENDENCY_CONDITION_AFTER_ANY: True,
            DEPENDENCY_CONDITION_AFTER_OK: not has_failed,
            DEPENDENCY_CONDITION_AFTER_NOT_OK: has_failed,
        }[asked.condition]
        since_us = other.ended_us
        if asked.condition == DEPENDENCY_CONDITION_AFTER:
            since_us = other.started_us or since_us
        return since_us if is_met else None

    def _is_met(self, job: Seen) -> bool:
        met = [self._has_been_met(job, each) for each in job.awaits]
        return (any if job.job.depends_on_any else all)(met) if met else True

    def _has_been_met(self, job: Seen, awaited: Awaited) -> bool:
        if awaited.is_singleton:
            return not any(self._before(job))
        return awaited.due_us is not None and awaited.due_us <= self.now_us

    def _before(self, job: Seen) -> Iterator[Seen]:
        """The jobs of its name that a singleton waits for."""
        for other in self.jobs.values():
            if other is job or other.name != job.name:
                continue
            has_started = other.state in (State.GRANTED, State.RUNS)
            if has_started or (other.state is State.WAITS and other.order < job.order):
                yield other

    def _is_hopeless(self, job: Seen, awaited: Awaited) -> bool:
        if awaited.is_singleton or awaited.due_us is not None:
            return False
        other = self.jobs.get(awaited.asked.job_id)
        if other is None or other.job.account != job.job.account:
            return True
        return other.state in ENDED

    def _comes_free(self, job: Seen, free: Iterable[str]) -> bool:
        if job.state is not State.WAITS:
            return True
        can = [self._can_be_met(job, each, free) for each in job.awaits]
        return (any if job.job.depends_on_any else all)(can) if can else True

    def _can_be_met(self, job: Seen, awaited: Awaited, free: Iterable[str]) -> bool:
        if awaited.is_singleton:
            return all(other.job.job_id in free for other in self._before(job))
        return awaited.due_us is not None or (
            not self._is_hopeless(job, awaited) and awaited.asked.job_id in free
        )


def _late_us(reservation: ReservationDeclared) -> int:
    """How long after the begin a job may start that lasts as long."""
    return min(120_000_000, (reservation.until_us - reservation.from_us) // 2)


def _holds(reservation: ReservationDeclared, start_us: int, end_us: int) -> bool:
    """Whether a job of a reservation may run then."""
    length_us = reservation.until_us - reservation.from_us
    is_late = start_us > reservation.from_us + _late_us(reservation)
    is_short = not is_late and end_us - start_us <= length_us
    return reservation.from_us <= start_us and (end_us <= reservation.until_us or is_short)


def _nodes(reservation: ReservationDeclared) -> set[int]:
    return {int(name.rpartition("-")[2]) for name in reservation.nodes}
