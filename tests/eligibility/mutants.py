"""Planted bugs: each replaces right code by a realistic mistake, which the oracle must find. To add
one, write a context manager and list it in MUTANTS."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from math import inf
from typing import Any, Final
from unittest.mock import patch

from shared.domain.job import Condition, Dependency, Job
from shared.placement.decide.awaited_conditions import AwaitedConditions
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.pending_reason import (
    OwnReservation,
    PendingReason,
    ReservationLacks,
)
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.same_names import SameNames
from shared.placement.decide.start_times import StartTimes
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_record import JobRecord
from shared.placement.state.reservations import NodeReservation, Reservations
from shared.scheduling.windows import NO_WINDOWS

Mutant = Callable[[], AbstractContextManager[Any]]


def _patched(owner: type, name: str, wrong: Callable[..., Any]) -> AbstractContextManager[Any]:
    return patch.object(owner, name, wrong)


@contextmanager
def begins_are_ignored() -> Iterator[None]:
    """A job starts as if it had no begin."""

    def waits(reasons: PendingReasons, job: JobRecord) -> PendingReason | None:
        return reasons.dependencies.pending_reason(job)

    with _patched(PendingReasons, "_waits", waits):
        yield


@contextmanager
def nobody_looks_when_a_time_comes() -> Iterator[None]:
    """What waits for a time is looked at only when something else happens to it."""
    right = StartTimes.begin_round

    def begin_round(times: StartTimes, now_s: float) -> set[str]:
        right(times, now_s)
        return set()

    with _patched(StartTimes, "begin_round", begin_round):
        yield


@contextmanager
def no_round_is_wanted() -> Iterator[None]:
    """Nobody says when a job may begin."""
    with _patched(StartTimes, "due_s", lambda _times: ()):
        yield


@contextmanager
def deadlines_are_of_starts() -> Iterator[None]:
    """A job has until its deadline to start."""

    def time_left_s(job: Job, now_s: float) -> float:
        return inf if now_s <= job.deadline_s or not job.deadline_s else -1.0

    with _patched(Job, "time_left_s", time_left_s):
        yield


@contextmanager
def delays_are_ignored() -> Iterator[None]:
    """What waits for another job starts when that has happened."""
    right = AwaitedConditions.unmet

    def unmet(kept: AwaitedConditions, job: JobRecord, dependency: Dependency) -> Any:
        return right(kept, job, replace(dependency, delay_s=0.0))

    with _patched(AwaitedConditions, "unmet", unmet):
        yield


@contextmanager
def delays_count_from_the_round() -> Iterator[None]:
    """A delay begins when placement hears of what it is after."""

    def due_s(kept: AwaitedConditions, _job: JobRecord, dependency: Dependency) -> float:
        known = dependency.due_s
        return kept.times.now_s + dependency.delay_s if known is None else known

    with _patched(AwaitedConditions, "_due_s", due_s):
        yield


@contextmanager
def a_grant_is_a_start() -> Iterator[None]:
    """What waits for a start does so until that is decided."""
    right = AwaitedConditions._lacks

    def lacks(kept: AwaitedConditions, job: JobRecord, dependency: Dependency) -> Any:
        other = kept.get(dependency.job_id)
        is_after = dependency.condition is Condition.AFTER
        if is_after and other is not None and job.may_see(other) and not other.waits:
            return None
        return right(kept, job, dependency)

    with _patched(AwaitedConditions, "_lacks", lacks):
        yield


@contextmanager
def a_failure_is_as_good_as_a_completion() -> Iterator[None]:
    """Whatever ends meets a dependency on a completion."""
    right = AwaitedConditions._lacks

    def lacks(kept: AwaitedConditions, job: JobRecord, dependency: Dependency) -> Any:
        if dependency.condition is Condition.AFTER_OK:
            dependency = replace(dependency, condition=Condition.AFTER_ANY)
        return right(kept, job, dependency)

    with _patched(AwaitedConditions, "_lacks", lacks):
        yield


@contextmanager
def one_is_never_enough() -> Iterator[None]:
    """A job for which one dependency is enough waits for all."""
    right = PendingReasons._waits

    def waits(reasons: PendingReasons, job: JobRecord) -> PendingReason | None:
        return right(reasons, replace(job, job=replace(job.job, depends_on_any=False)))

    with _patched(PendingReasons, "_waits", waits):
        yield


@contextmanager
def singletons_see_only_what_runs() -> Iterator[None]:
    """A singleton passes those of its name that wait before it."""

    def awaited(names: SameNames, job: JobRecord) -> str | None:
        known = names._known.items()
        mine = (job.job.account, job.job.user, job.job.job_name)
        started = (
            j for j, of in known if of.name == mine and of.place is None and not of.waits_again
        )
        return min((each for each in started if each != job.job.job_id), default=None)

    with _patched(SameNames, "awaited", awaited):
        yield


@contextmanager
def singletons_see_only_what_waits() -> Iterator[None]:
    """A singleton starts beside one of its name that runs."""
    right = SameNames.awaited

    def awaited(names: SameNames, job: JobRecord) -> str | None:
        found = right(names, job)
        return found if found and names._known[found][1] is not None else None

    with _patched(SameNames, "awaited", awaited):
        yield


@contextmanager
def a_start_frees_nobody_behind_it() -> Iterator[None]:
    """What a start changes for singletons is noticed when it is confirmed."""
    right = DecideLayer.take

    def take(layer: DecideLayer, starting: Any, now_s: float) -> Any:
        started = right(layer, starting, now_s)
        layer._behind.clear()
        return started

    with _patched(DecideLayer, "take", take):
        yield


@contextmanager
def reservations_are_for_everybody() -> Iterator[None]:
    """A job starts in a reservation of others."""
    with _patched(NodeReservation, "admits", lambda _reservation, _job: True):
        yield


@contextmanager
def nobody_wakes_for_reservations() -> Iterator[None]:
    """No round is wanted when a reservation begins or ends."""
    with _patched(Reservations, "due_s", lambda _reservations: ()):
        yield


@contextmanager
def limits_outlast_reservations() -> Iterator[None]:
    """A job waits for a reservation that ends before its limit."""
    right = PendingReasons._in_reservation

    def within(reasons: PendingReasons, job: JobRecord, on: Candidate) -> OwnReservation | None:
        found = right(reasons, job, on)
        is_short = found is not None and found.lacks is ReservationLacks.TOO_SHORT
        return None if is_short else found

    with _patched(PendingReasons, "_in_reservation", within):
        yield


@contextmanager
def deadlines_see_no_maintenance() -> Iterator[None]:
    """A deadline counts as if nothing were kept for others."""
    with _patched(PendingReasons, "_opens_s", lambda _reasons, _job, _on, from_s: from_s):
        yield


@contextmanager
def nothing_is_kept_for_others() -> Iterator[None]:
    """Jobs start on nodes that are reserved or maintained."""
    with _patched(Reservations, "windows", lambda _reservations, _cluster: NO_WINDOWS):
        yield


@contextmanager
def removed_reservations_stay() -> Iterator[None]:
    """What is removed keeps its nodes."""
    with _patched(Reservations, "remove", lambda _reservations, _event, _message: None):
        yield


MUTANTS: Final[tuple[Mutant, ...]] = (
    begins_are_ignored,
    nobody_looks_when_a_time_comes,
    no_round_is_wanted,
    deadlines_are_of_starts,
    delays_are_ignored,
    delays_count_from_the_round,
    a_grant_is_a_start,
    a_failure_is_as_good_as_a_completion,
    one_is_never_enough,
    singletons_see_only_what_runs,
    singletons_see_only_what_waits,
    a_start_frees_nobody_behind_it,
    reservations_are_for_everybody,
    nobody_wakes_for_reservations,
    limits_outlast_reservations,
    deadlines_see_no_maintenance,
    nothing_is_kept_for_others,
    removed_reservations_stay,
)
