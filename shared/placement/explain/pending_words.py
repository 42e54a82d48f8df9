"""What keeps a job out of the queue, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_ACCOUNT,
    CONSTRAINT_KIND_BEGIN,
    CONSTRAINT_KIND_DEADLINE,
    CONSTRAINT_KIND_DECLINED,
    CONSTRAINT_KIND_DEPENDENCY,
    CONSTRAINT_KIND_DRAINED_NODES,
    CONSTRAINT_KIND_HOLD,
    CONSTRAINT_KIND_LIMIT,
    CONSTRAINT_KIND_LOST_CLUSTER,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_OWN_RESERVATION,
    CONSTRAINT_KIND_PARTITION_DOWN,
    CONSTRAINT_KIND_POWER_UNDECLARED,
    CONSTRAINT_KIND_RUNS,
    CONSTRAINT_KIND_SILENT_MANAGER,
    MISFIT_KIND_NOT_DECLARED,
    MISFIT_KIND_STARTS_TOO_LATE,
)

from shared.domain.power import unrated_words
from shared.domain.times import in_utc
from shared.placement.decide.pending_reason import (
    AccountEmpty,
    AmountLimitReached,
    AwaitsLostCluster,
    BeginsLater,
    ClusterClosed,
    FitsNoMore,
    HeldJob,
    JobLimitReached,
    LicencesLacking,
    MissesDeadline,
    NoCluster,
    NodesDrained,
    OwnReservation,
    PartitionDown,
    PendingReason,
    PowerUndeclared,
    RefusedThere,
    RequeuedTooOften,
    ReservationLacks,
    RunsUndeclared,
    StartsFailed,
    TasksLimitReached,
    Unmet,
    WaitsForJob,
    WaitsInCircle,
)
from shared.placement.explain.constraints import JOBS, SECONDS, Constraint
from shared.placement.explain.licence_words import licences_lacking
from shared.placement.explain.state_words import DrainWords, closure_words, runs_words
from shared.placement.state.closure import Closure
from shared.placement.state.misfit import Misfit

# What to do about a reservation in which a job may not run.
_AGAIN: Final = "cancel the job, or declare the reservation again"
_REPAIRS: Final = {
    ReservationLacks.TOO_FEW_NODES: "cancel the job, or declare the reservation with more",
    ReservationLacks.TOO_SHORT: "cancel the job, or declare the reservation for longer",
    ReservationLacks.NOT_FOR_JOB: "cancel the job, or declare the reservation for it too",
    ReservationLacks.ENDED: _AGAIN,
    ReservationLacks.UNKNOWN: "cancel the job, or declare the reservation",
}
# Clusters that a reason in words names.
_MOST_NAMED: Final = 3


class PendingWords(NamedTuple):
    """A reason in words. `figures` end the words of one that passes: they change with every start,
    and are no reason to publish anew."""

    constraint: Constraint
    figures: str = ""

    @property
    def stable(self) -> str:
        """Return the words without figures."""
        return self.constraint.words.removesuffix(self.figures)


@dataclass(frozen=True, slots=True)
class PendingReasonWords:
    """Words pending reasons."""

    drains: DrainWords

    def __call__(self, reason: PendingReason) -> PendingWords:
        """Return a reason in words."""
        match reason:
            case JobLimitReached(subject, most, running):
                words = f"{subject.words} may run {most} jobs at once"
                counted = 1, most - running, JOBS
                return _at_limit(words, f" and runs {running}", counted, subject.shown)
            case AmountLimitReached(subject, (unit, most, held, needed)):
                words = f"{subject.words} may hold {most:g} {unit} at once"
                figures = f", holds {held:g} and needs {needed:g} more"
                return _at_limit(words, figures, (needed, most - held, unit), subject.shown)
            case TasksLimitReached(array_id, most, running):
                words = f"{most} tasks of {array_id} may have nodes at once"
                counted = 1, most - running, JOBS
                return _at_limit(words, f" and {running} have", counted, array_id)
            case PartitionDown() | RefusedThere():
                return PendingWords(_place(reason))
            case OwnReservation():
                return PendingWords(_own_reservation(reason))
            case LicencesLacking():
                return PendingWords(licences_lacking(reason))
            case _:
                return PendingWords(self._constraint(reason))

    def _constraint(self, reason: PendingReason) -> Constraint:
        match reason:
            case HeldJob() | RequeuedTooOften() | StartsFailed():
                return Constraint(CONSTRAINT_KIND_HOLD, _hold_words(reason))
            case RunsUndeclared() | NoCluster() | FitsNoMore() | AwaitsLostCluster():
                return _fit(reason)
            case AccountEmpty(account, allocated_su):
                words = f"account {account} has used up its {allocated_su} SU"
                return Constraint(CONSTRAINT_KIND_ACCOUNT, words, by=account)
            case ClusterClosed(cluster, closure):
                return closed_constraint(cluster, closure)
            case NodesDrained(cluster):
                return Constraint(CONSTRAINT_KIND_DRAINED_NODES, self.drains(cluster))
            case PowerUndeclared():
                return _unrated(reason)
            case WaitsForJob() | WaitsInCircle() | BeginsLater() | MissesDeadline():
                return _eligibility(reason)
        raise TypeError(f"{reason!r} has no words")


def closed_constraint(cluster: str, closure: Closure) -> Constraint:
    """Return the constraint that nothing new starts on a cluster."""
    words = closure_words(closure)
    if closure.silent_manager:
        return Constraint(CONSTRAINT_KIND_SILENT_MANAGER, words, by=cluster)
    return Constraint(CONSTRAINT_KIND_LOST_CLUSTER, words)


def _unrated(reason: PowerUndeclared) -> Constraint:
    words = f"nothing says what it draws, and {unrated_words(reason.cluster)}"
    words = f"{words}: the power cap of {reason.cap.subject} lets it start once it does"
    return Constraint(CONSTRAINT_KIND_POWER_UNDECLARED, words, by=reason.cap.name)


def _place(reason: PartitionDown | RefusedThere) -> Constraint:
    match reason:
        case PartitionDown(_, partitions):
            named = ", ".join(partitions[:_MOST_NAMED])
            words = f"partition {named} is down" if len(partitions) == 1 else f"{named} are down"
            return Constraint(CONSTRAINT_KIND_PARTITION_DOWN, words, by=partitions[0])
        case RefusedThere(cluster, refused):
            words = f"{cluster} refused it {refused} when a start was declined"
            words = f"{words}: release it when that is repaired"
            return Constraint(CONSTRAINT_KIND_DECLINED, words, by=refused)


def _own_reservation(reason: OwnReservation) -> Constraint:
    on = f" of {reason.cluster}" if reason.cluster else ""
    words = f"its reservation {reason.name}{on}: {reason.lacks}"
    if reason.at_s:
        words = f"{words} {in_utc(reason.at_s)}"
    words = f"{words}: {_REPAIRS[reason.lacks]}"
    return Constraint(CONSTRAINT_KIND_OWN_RESERVATION, words, by=reason.name)


def _eligibility(
    reason: WaitsForJob | WaitsInCircle | BeginsLater | MissesDeadline,
) -> Constraint:
    """Return the constraint that the job may not start now, wherever there is room."""
    match reason:
        case WaitsForJob(job_id, condition, Unmet.DELAYED, until_s):
            words = f"{condition} {job_id}: {Unmet.DELAYED} {in_utc(until_s)}"
            return Constraint(CONSTRAINT_KIND_DEPENDENCY, words, until_s=until_s, by=job_id)
        case WaitsForJob(job_id, condition, unmet):
            words = f"{condition} {job_id}: {unmet}"
            return Constraint(CONSTRAINT_KIND_DEPENDENCY, words, by=job_id)
        case WaitsInCircle(job_id):
            words = f"waits for {job_id}, which waits in a circle"
            return Constraint(CONSTRAINT_KIND_DEPENDENCY, words, by=job_id)
        case BeginsLater(begin_s):
            words = f"it was submitted to begin not before {in_utc(begin_s)}"
            return Constraint(CONSTRAINT_KIND_BEGIN, words, until_s=begin_s)
        case MissesDeadline(deadline_s, _, limit_s, earliest_s):
            had_s = max(deadline_s - earliest_s + limit_s, 0.0)
            words = _deadline_words(reason)
            return Constraint(CONSTRAINT_KIND_DEADLINE, words, limit_s, had_s, SECONDS)


def _deadline_words(reason: MissesDeadline) -> str:
    """Return why a deadline is missed, and what to do. The words name no present time: they are
    published once."""
    within = f"at its limit of {reason.limit_s:.0f} s on {reason.cluster}"
    if reason.earliest_s > reason.deadline_s:
        why = f"{within} the earliest end was {in_utc(reason.earliest_s)}"
    elif reason.kept_by:
        why = f"{within} {reason.kept_by} keeps it from a start until {in_utc(reason.kept_until_s)}"
    else:
        why = f"{within} it had to start by {in_utc(reason.deadline_s - reason.limit_s)}"
    repair = "cancel it, or submit it with a later deadline or a shorter limit"
    return f"it cannot end by its deadline, {in_utc(reason.deadline_s)}: {why}; {repair}"


def _fit(reason: RunsUndeclared | NoCluster | FitsNoMore | AwaitsLostCluster) -> Constraint:
    """Return the constraint that no declared cluster is known to hold the job."""
    match reason:
        case RunsUndeclared(cluster):
            repair = "declare it, or seize the job if it does not run there"
            words = f"{runs_words(cluster)}, which is not declared: {repair}"
            return Constraint(CONSTRAINT_KIND_RUNS, words, by=cluster)
        case NoCluster():
            return Constraint(CONSTRAINT_KIND_MISFIT, "no cluster is declared")
        case FitsNoMore(misfits):
            words = f"{misfit_words(misfits)}, as declared now"
            return Constraint(CONSTRAINT_KIND_MISFIT, words)
        case AwaitsLostCluster(misfits, cluster):
            unless = f"rejected unless {cluster or 'a cluster'}, which is lost, returns"
            words = f"{misfit_words(misfits)}: {unless} with more"
            return Constraint(CONSTRAINT_KIND_LOST_CLUSTER, words, by=cluster)


def misfit_words(found: Sequence[Misfit]) -> str:
    """Return why a job fits nowhere, of the first clusters."""
    if found[0].kind in (MISFIT_KIND_NOT_DECLARED, MISFIT_KIND_STARTS_TOO_LATE):
        return found[0].reason
    named = [f"{each.cluster}: {each.reason}" for each in found[:_MOST_NAMED]]
    left = len(found) - len(named)
    return f"fits on no cluster: {'; '.join(named)}{f'; and {left} more' if left else ''}"


def _hold_words(reason: HeldJob | RequeuedTooOften | StartsFailed) -> str:
    match reason:
        case HeldJob(text):
            return f"held: {text}" if text else "held"
        case RequeuedTooOften(times, last):
            why = f", last: {last}" if last else ""
            return f"was requeued {times} times{why}: release it when that is repaired"
        case StartsFailed(starts):
            missed = f"{starts} starts of it were declined or not confirmed in time"
            return f"{missed}: release it when its resource manager starts jobs"


def _at_limit(
    words: str, figures: str, counted: tuple[float, float, str], subject: str
) -> PendingWords:
    """Return what a subject may have at most, and of that what is needed and left, in a unit."""
    limit = Constraint(CONSTRAINT_KIND_LIMIT, words + figures, *counted, by=subject)
    return PendingWords(limit, figures)
