"""A job as placement keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from shared.domain.job import Dependency, Job, JobState
from shared.placement.state.actions import Action, ActionKind, Refused
from shared.placement.state.array_progress import ArrayProgress
from shared.placement.state.candidate import Candidate
from shared.placement.state.declines import Declined
from shared.placement.state.grants import VoidStart, WithdrawalReason
from shared.placement.state.holds import Holder, Holds, HoldWord, reasons
from shared.placement.state.job_allocation import JobAllocation, nodes_of, runs_of
from shared.placement.state.misfit import Misfit
from shared.scheduling.user_runs import AS_REQUESTED, ExpectedRun
from shared.streams.state.rows import Form, RowCodec, by_position

# Characters of somebody's reason that are kept: each decision on the job repeats it.
MOST_TEXT: Final = 256


class GuaranteeState(StrEnum):
    """What shutters said of a promised slowdown."""

    UNMEASURED = "unmeasured"
    KEPT = "kept"
    BROKEN = "broken"


@dataclass(slots=True)
class Life:
    """What has become of an attempt: `ended_s` is the end of the round that brought its end, and
    `ran` for what share of its limit it ran, None where it did not, or nobody says. `awaits` are
    the dependencies that were not met yet. `requeues` counts how often the job was requeued since
    it was released last, and `requeued_because` is why it was. `started_s` and `stopped_s` are when
    it started and ended, as its resource manager says, 0 where it did not."""

    state: JobState = JobState.SUBMITTED
    ended_s: float | None = None
    completed: bool = False
    ran: float | None = None
    awaits: tuple[Dependency, ...] = ()
    requeues: int = 0
    requeued_because: str = ""
    started_s: float = 0.0
    stopped_s: float = 0.0


@dataclass(slots=True)
class Evaluated:
    """Where the job could run, as of an update of the models: without candidates nobody has looked
    yet. `misfits` are why it fits on no declared cluster; once it was `admitted`, since it did, it
    is never rejected."""

    candidates: tuple[Candidate, ...] = ()
    update: int = 0
    admitted: bool = False
    misfits: tuple[Misfit, ...] = ()

    def candidate(self, cluster: str) -> Candidate:
        """Return the candidate for a cluster."""
        return next(c for c in self.candidates if c.cluster == cluster)

    @property
    def lacks_slower_modes(self) -> bool:
        """Return whether nobody looked at lower P-states yet."""
        return any(candidate.slower is None for candidate in self.candidates)


@dataclass(slots=True)
class Grants:
    """The starts of a job, numbered over all its attempts. `withdrawn` is why the newest was, and
    `missed` says that it was since nobody answered in time; `missed_starts` counts those that were
    then declined. Holders of `void` starts are to be notified; those of `seized` ones have not
    answered. `declined` is the number of the last one that was given back."""

    newest: int = 0
    withdrawn: WithdrawalReason | None = None
    missed: bool = False
    missed_starts: int = 0
    void: tuple[VoidStart, ...] = ()
    seized: tuple[VoidStart, ...] = ()
    declined: int = 0


@dataclass(slots=True)
class Requests:
    """What users and operators asked of a job. `holds` are the newest words on whether it is held,
    by holder. `cancelled`, `suspend` and `requeue` are their reasons, None where nobody asks;
    each `_asked` is the time and id of the newest such event. An `isolated` job is held, and not
    even evaluated, since deciding on it failed."""

    holds: Holds = ()
    cancelled: str | None = None
    isolated: bool = False
    suspend: str | None = None
    suspend_asked: tuple[int, str] = (0, "")
    requeue: str | None = None
    requeue_asked: tuple[int, str] = (0, "")
    priority_asked: tuple[int, str] = (0, "")

    @property
    def held(self) -> str | None:
        """Return why the job is held, by all its holders; None where nobody does."""
        found = reasons(self.holds) if self.holds else None
        return "; ".join(filter(None, found))[:MOST_TEXT] if found else None


@dataclass(slots=True)
class PlacedRun:
    """Where an attempt was put, and what was asked of it there. `actions` are those that were not
    answered, `asked_actions` counts them, `done_action` is the newest that was done, `refusals` are
    what was refused. `runs_on` is the cluster on which the attempt runs as the resource manager
    there says, while that cluster is not declared."""

    allocation: JobAllocation | None = None
    runs_on: str = ""
    actions: tuple[Action, ...] = ()
    asked_actions: int = 0
    done_action: int = 0
    refusals: tuple[Refused, ...] = ()

    @property
    def held_on(self) -> str:
        """Return the cluster whose resource manager holds the attempt; empty where none does."""
        return self.allocation.cluster if self.allocation else self.runs_on

    @property
    def is_suspended(self) -> bool:
        """Return whether the job is suspended."""
        return self.allocation is not None and self.allocation.suspended_s is not None

    @property
    def pending(self) -> Action | None:
        """Return what was asked last, until it is answered. Of those before it none is answered any
        more: resource managers obey the newest alone. So whether they were done is not known where
        that was refused."""
        last = self.actions[-1] if self.actions else None
        return last if last and last.number == self.asked_actions else None

    @property
    def will_be_suspended(self) -> bool:
        """Return whether the job is suspended once what was asked last is done."""
        return self.pending.is_suspended if self.pending else self.is_suspended

    @property
    def drawn_mw(self) -> int:
        """Return what the job draws beyond idle on its nodes, mW: the most of how it is and may be
        by now."""
        assert self.allocation is not None
        now_mw = 0 if self.is_suspended else self.allocation.counted_mw
        return max([now_mw, *map(self.drawn_after_mw, self.actions)])

    def drawn_after_mw(self, action: Action) -> int:
        """Return what the job draws beyond idle once an action is done, mW: no P-state lowers what
        counts by nameplate."""
        assert self.allocation is not None
        placed = self.allocation
        least_mw = placed.counted_mw if placed.power_unknown else placed.nameplate_mw
        return 0 if action.stops else max(action.draw_mw, least_mw)

    @property
    def releases_s(self) -> float:
        """Return when the job releases its nodes at the latest: the latest of how it is and may be
        by now."""
        on = self.allocation
        assert on is not None
        ends_s = [on.ends_s]
        for action in self.actions:
            if action.is_suspended:
                continue
            later_s = on.stretched_s(action.walltime_s, action.asked_s)
            from_s = action.asked_s if on.suspended_s is None else on.suspended_s
            ends_s.append(on.ends_s + later_s + action.asked_s - from_s)
        return max(ends_s)

    def is_refused(self, kind: ActionKind, since_s: float) -> bool:
        """Return whether the resource manager refused such an action since then."""
        return any(one.kind is kind and one.since_s > since_s for one in self.refusals)


@dataclass(slots=True)
class Guarantee:
    """The slowdown T_co / T_solo that no neighbour may make a job exceed, 0 where none is
    guaranteed, and what shutters said of it so far."""

    slowdown_ratio: float = 0.0
    state: GuaranteeState = GuaranteeState.UNMEASURED


@dataclass(slots=True)
class Notice:
    """The last verdict that was published on a job, and its reason. Until `settles_s` a reason that
    changes with what runs is not published anew."""

    verdict: int = 0
    reason: str = ""
    settles_s: float = 0.0


class Reordered(NamedTuple):
    """The priority that a resource manager gave a job after its submission, and when it did."""

    priority: int
    at_us: int


@dataclass(slots=True)
class JobRecord:
    """The newest attempt of a job. `expected_run` is what the last runs of its user said of it when
    it was submitted, `declined` what resource managers refused it, a cluster each. An array has
    the `progress` of its tasks. Where its manager gave it another priority it was `reordered`."""

    job: Job
    arrival: int
    traceparent: str
    life: Life = field(default_factory=Life)
    evaluated: Evaluated = field(default_factory=Evaluated)
    grants: Grants = field(default_factory=Grants)
    requests: Requests = field(default_factory=Requests)
    run: PlacedRun = field(default_factory=PlacedRun)
    guarantee: Guarantee = field(default_factory=Guarantee)
    notice: Notice = field(default_factory=Notice)
    expected_run: ExpectedRun = AS_REQUESTED
    declined: tuple[Declined, ...] = ()
    progress: ArrayProgress | None = None
    reordered: Reordered | None = None

    @property
    def manager_priority(self) -> int:
        """Return the priority that its resource manager gives it; 0 where it gives none."""
        return self.reordered.priority if self.reordered else self.job.manager_priority

    def declined_on(self, cluster: str) -> Declined | None:
        """Return what the resource manager of a cluster refused it; None where that is nothing."""
        if not self.declined:
            return None
        return next((each for each in self.declined if each.cluster == cluster), None)

    def may_see(self, other: "JobRecord") -> bool:
        """Return whether the job may wait for another: one of its account. A dependency must
        disclose nothing of other jobs, neither that there is one nor how it ended; and users are
        named by resource managers that have only accounts of their own."""
        return self.job.account == other.job.account

    @property
    def waits(self) -> bool:
        """Return whether the job may be started."""
        return self.life.state is JobState.SUBMITTED

    @property
    def ended(self) -> bool:
        """Return whether no start of the job is expected any more."""
        return self.life.state in (JobState.FINISHED, JobState.CANCELLED, JobState.REJECTED)


# Without the candidates, which are three quarters of a job and seldom change with it, nor what is
# expected of its run and what was refused.
_RECORDS: Final[Mapping[str, Form[Any]]] = {
    "life": by_position(Life),
    "evaluated": by_position(Evaluated, without=("candidates",)),
    "grants": by_position(Grants),
    "requests": by_position(Requests),
    "run": by_position(PlacedRun),
    "guarantee": by_position(Guarantee),
    "notice": by_position(Notice),
}


class _RequestsBefore(NamedTuple):
    """The version before had no holders of jobs."""

    held: str | None
    cancelled: str | None
    asked: tuple[int, str]
    isolated: bool
    suspend: str | None
    suspend_asked: tuple[int, str]
    requeue: str | None
    requeue_asked: tuple[int, str]
    priority_asked: tuple[int, str]


def _to_requests(before: _RequestsBefore) -> Requests:
    """Whatever was held then its user may release, as it was then."""
    holder = Holder.PLACEMENT if before.isolated else Holder.USER
    word = HoldWord(Holder.ALL if before.held is None else holder, before.asked, before.held)
    has_said = before.held is not None or before.asked != (0, "")
    return Requests((word,) if has_said else (), before.cancelled, *before[3:])


_RECORDS_BEFORE: Final = {
    **_RECORDS,
    "requests": Form(_RequestsBefore, lambda _: None, _to_requests),
}
_named_tuple: Any = NamedTuple


def _of_job(job: JobRecord) -> Any:
    """The nodes of a job are kept as runs: a job on all nodes of a cluster takes a few bytes."""
    run = _RECORDS["run"].of_row(job.run)
    if job.run.allocation is not None:
        held = job.run.allocation.copy()
        held.nodes = tuple(runs_of(held.nodes))
        _, *rest = run
        run = held, *rest
    return (
        job.job,
        job.arrival,
        job.traceparent,
        _RECORDS["life"].of_row(job.life),
        _RECORDS["evaluated"].of_row(job.evaluated),
        _RECORDS["grants"].of_row(job.grants),
        _RECORDS["requests"].of_row(job.requests),
        run,
        _RECORDS["guarantee"].of_row(job.guarantee),
        _RECORDS["notice"].of_row(job.notice),
    )


def _form(records: Mapping[str, Form[Any]]) -> Form[JobRecord]:
    """Return the form of jobs whose records have these forms."""
    named = (("job", Job), ("arrival", int), ("traceparent", str))
    kept = _named_tuple(
        "JobRecord", [*named, *((name, form.kept) for name, form in records.items())]
    )
    return Form(kept, _of_job, partial(_to_job, records))


def _to_job(records: Mapping[str, Form[Any]], kept: Any) -> JobRecord:
    job, arrival, traceparent, *found = kept
    forms = zip(records.values(), found, strict=True)
    restored = JobRecord(job, arrival, traceparent, *(form.to_row(row) for form, row in forms))
    if (on := restored.run.allocation) is not None:
        restored.run.allocation = replace(on, nodes=tuple(nodes_of(on.nodes)))
    return restored


# Nor when its job may start and must end, nor where it may run: at any time, anywhere.
JOBS: Final = RowCodec(
    JobRecord,
    version=4,
    previous=RowCodec(JobRecord, version=3, form=_form(_RECORDS_BEFORE)).decode,
    form=_form(_RECORDS),
)
