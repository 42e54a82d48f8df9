"""Planted bugs in arrays: each replaces right code by a realistic mistake, which the plays of
arrays must find."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from shared.domain.array_tasks import Ordinals
from shared.placement.decide.pending_reason import PendingReason
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.state.array_progress import ArrayProgress
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_requests import JobRequests
from shared.placement.state.job_table import JobTable
from tests.eligibility.mutants import Mutant, _patched


@contextmanager
def a_cancelled_array_drops_nobody_left() -> Iterator[None]:
    """Tasks that are left in a cancelled array start all the same."""
    with _patched(JobTable, "drop_left", lambda _table, _array: None):
        yield


@contextmanager
def a_limit_counts_only_what_is_left() -> Iterator[None]:
    """A task that was declined starts beyond the limit of its array."""

    def too_many(reasons: PendingReasons, job: JobRecord) -> PendingReason | None:
        return right(reasons, job) if job.progress is not None else None

    right = PendingReasons._too_many_tasks
    with _patched(PendingReasons, "_too_many_tasks", too_many):
        yield


@contextmanager
def one_more_than_the_limit() -> Iterator[None]:
    """The last task that may have nodes is not counted."""
    right = PendingReasons._running_tasks
    wrong: Any = lambda reasons, job: max(0, right(reasons, job) - 1)  # noqa: E731
    with _patched(PendingReasons, "_running_tasks", wrong):
        yield


@contextmanager
def what_ended_is_forgotten_by_a_kill() -> Iterator[None]:
    """The end of a task is not stored with its array."""

    def end_task(table: JobTable, task: JobRecord) -> None:
        with patch.object(table._progress, "changed"):
            right(table, task)

    right = JobTable._end_task
    with _patched(JobTable, "_end_task", end_task):
        yield


@contextmanager
def a_requeued_task_counts_as_ended() -> Iterator[None]:
    """A task that begins anew stays among those that ended."""
    with _patched(ArrayProgress, "begin_anew", lambda _progress, _place: None):
        yield


@contextmanager
def a_hold_is_on_what_is_left_alone() -> Iterator[None]:
    """A word on an array is not on its tasks that are jobs of their own."""

    with _patched(JobRequests, "_with_tasks", lambda _, job: [job]):
        yield


@contextmanager
def tasks_wait_for_no_task_of_the_same_index() -> Iterator[None]:
    """The first task that completes lets all others of the other array start."""

    def tasks_left(_reasons: PendingReasons, array: JobRecord) -> Ordinals:
        assert array.progress is not None
        return array.progress.left

    with _patched(PendingReasons, "tasks_left", tasks_left):
        yield


@contextmanager
def the_queue_keeps_the_task_that_started() -> Iterator[None]:
    """The entries of an array are not brought up to date when its tasks start."""
    with _patched(WaitingJobs, "note_started", lambda _jobs, _array, _started: None):
        yield


ARRAY_MUTANTS: Final[tuple[Mutant, ...]] = (
    a_cancelled_array_drops_nobody_left,
    a_limit_counts_only_what_is_left,
    one_more_than_the_limit,
    what_ended_is_forgotten_by_a_kill,
    a_requeued_task_counts_as_ended,
    a_hold_is_on_what_is_left_alone,
    tasks_wait_for_no_task_of_the_same_index,
    the_queue_keeps_the_task_that_started,
)
