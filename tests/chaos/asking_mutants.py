"""Planted bugs in what jobs can ask for: each replaces right code by a realistic mistake, which an
audit must find by what was published alone."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from shared.placement.decide import limits_reached, schedulers
from shared.placement.decide.interactive_jobs import InteractiveJobs
from shared.placement.decide.layer import DecideLayer
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.explain import pass_decisions
from shared.placement.state.job_table import JobTable
from shared.placement.state.limits import subjects_of
from shared.placement.state.manager_priorities import ManagerPriorities
from shared.placement.state.reservations import Reservations
from shared.placement.state.silent_managers import SilentManagers
from shared.scheduling.backfill import Dispatch
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.gangs import nodes_of_parts
from shared.scheduling.windows import NO_WINDOWS
from tests.chaos.mutants import unwritten
from tests.eligibility.array_mutants import (
    a_cancelled_array_drops_nobody_left,
    one_more_than_the_limit,
    tasks_wait_for_no_task_of_the_same_index,
)
from tests.eligibility.licence_mutants import (
    what_has_nodes_holds_no_licences,
    what_is_declared_anew_counts_after_a_restart,
)

Mutant = Callable[[], AbstractContextManager[Any]]


def nobody_is_held() -> AbstractContextManager[Any]:
    """Jobs that somebody holds start."""
    return patch.object(PendingReasons, "_hold", lambda *_: None)


@contextmanager
def parts_are_cut_from_the_nodes_in_order() -> Iterator[None]:
    """Each part of a gang gets the next nodes, whatever they have."""

    def in_order(job: Any, cluster: Any, nodes: Any, refused: Any) -> list[list[int]]:
        left = sorted(nodes)
        counts = [len(own) for own in nodes_of_parts(job, cluster, nodes, refused)]
        return [[left.pop(0) for _ in range(count)] for count in counts]

    with patch.object(pass_decisions, "nodes_of_parts", in_order):
        yield


def amounts_are_not_limited() -> AbstractContextManager[Any]:
    """Limits count jobs alone."""
    return patch.object(limits_reached, "beyond", lambda *_: None)


@contextmanager
def limits_are_of_users_and_accounts_alone() -> Iterator[None]:
    """Nobody looks at those of a QOS, or of each within one."""

    def of_others(job: Any) -> tuple[Any, ...]:
        return tuple(each for each in subjects_of(job) if each.kind != "qos")

    with patch.object(limits_reached, "subjects_of", of_others):
        yield


def nothing_is_kept_for_others() -> AbstractContextManager[Any]:
    """Reservations shut no node."""
    return patch.object(Reservations, "windows", lambda _reservations, _cluster: NO_WINDOWS)


def nobody_orders_anew() -> AbstractContextManager[Any]:
    """What managers say of the order after a submission is not heard."""
    return patch.object(ManagerPriorities, "reorder", lambda *_: True)


def nobody_answers_who_waits_for_it() -> AbstractContextManager[Any]:
    """Interactive jobs wait as all others do."""
    return patch.object(InteractiveJobs, "are_to_answer", lambda *_: [])


def what_is_refused_is_granted_again() -> AbstractContextManager[Any]:
    """What a decline names is not kept."""
    return patch.object(JobTable, "refuse", lambda *_: None)


def silence_is_forgotten_by_a_restart() -> AbstractContextManager[Any]:
    """Who is silent is kept in memory alone."""
    return unwritten({"managers"}, lambda: True)


@contextmanager
def silence_is_not_heard() -> Iterator[None]:
    """No manager is ever silent."""
    right = SilentManagers.begin_round

    def begin_round(managers: SilentManagers, now_s: float) -> bool:
        right(managers, now_s)
        managers.silent = {}
        return False

    with patch.object(SilentManagers, "begin_round", begin_round):
        yield


def the_home_of_a_job_is_not_asked() -> AbstractContextManager[Any]:
    """A job of a silent manager's queue starts elsewhere."""
    return patch.object(PendingReasons, "_silent", lambda *_: None)


@contextmanager
def nothing_passes_who_waits_first() -> Iterator[None]:
    """First come, first served: what would end before the reservation waits too."""
    by_nodes = partial(EasyScheduler, backfills=False)
    by_parts = partial(ConsumableScheduler, backfills=False)
    with (
        patch.object(schedulers, "EasyScheduler", by_nodes),
        patch.object(schedulers, "ConsumableScheduler", by_parts),
    ):
        yield


def the_first_start_of_a_pass_is_forgotten() -> AbstractContextManager[Any]:
    """It has left the queue, and never starts."""
    right = DecideLayer.pass_over_queue

    def pass_over_queue(layer: DecideLayer, now_s: float) -> Dispatch:
        plan = right(layer, now_s)
        return replace(plan, starts=plan.starts[1:])

    return patch.object(DecideLayer, "pass_over_queue", pass_over_queue)


# Each with the words of the audits that may find it.
ASKING_MUTANTS: Final[tuple[tuple[Mutant, str], ...]] = (
    (one_more_than_the_limit, "no more tasks run at once"),
    (a_cancelled_array_drops_nobody_left, "no job starts that somebody cancelled or holds"),
    (nobody_is_held, "no job starts that somebody cancelled or holds"),
    (tasks_wait_for_no_task_of_the_same_index, "no job starts before it may"),
    (what_has_nodes_holds_no_licences, "no licence is given twice"),
    (what_is_declared_anew_counts_after_a_restart, "no licence is given twice"),
    (amounts_are_not_limited, "nobody has more than he may"),
    (limits_are_of_users_and_accounts_alone, "nobody has more than he may"),
    (nothing_is_kept_for_others, "no start runs into reserved nodes"),
    (nobody_orders_anew, "no job passes one that needs no more"),
    (nobody_answers_who_waits_for_it, "every interactive job is answered"),
    (what_is_refused_is_granted_again, "no job gets again"),
    (silence_is_not_heard, "nothing starts where the manager is silent"),
    (silence_is_forgotten_by_a_restart, "nothing starts where the manager is silent"),
    (nothing_passes_who_waits_first, "no node is idle"),
    (the_first_start_of_a_pass_is_forgotten, "no node is idle"),
    (the_home_of_a_job_is_not_asked, "nothing starts where the manager is silent"),
)
