"""Whether what a dependency waits for has happened, and for how long a job waits after that."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from shared.domain.array_tasks import (
    NO_ORDINALS,
    as_task,
    count_of,
    has_ordinal,
    in_both,
    parse_tasks,
    with_ordinal,
)
from shared.domain.job import Condition, Dependency, JobState
from shared.placement.decide.pending_reason import Unmet, WaitsForJob
from shared.placement.decide.same_names import SameNames
from shared.placement.decide.start_times import StartTimes
from shared.placement.state.array_progress import ArrayProgress
from shared.placement.state.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class AwaitedConditions:
    """Compares dependencies with what is known of the jobs that they name."""

    get: Callable[[str], JobRecord | None]
    times: StartTimes
    same_names: SameNames

    def unmet(self, job: JobRecord, dependency: Dependency) -> WaitsForJob | None:
        """Return why a dependency is not met; None where it is."""
        job_id, condition = dependency.job_id, dependency.condition
        if dependency.is_singleton:
            before = self.same_names.awaited(job)
            return WaitsForJob(before, condition, Unmet.BEFORE) if before else None
        if dependency.is_of_tasks and job.progress is not None:
            return self._unmet_by_tasks(job, job.progress, dependency)
        lacks = self._lacks(job, dependency)
        if lacks is not None:
            return WaitsForJob(job_id, condition, lacks)
        due_s = self._due_s(dependency)
        is_over = due_s <= self.times.now_s or not dependency.delay_s
        return None if is_over else WaitsForJob(job_id, condition, Unmet.DELAYED, due_s)

    def settled(self, job: JobRecord, dependency: Dependency) -> Dependency | None:
        """Return a dependency with the end of its delay, once that is known; None where it is met.
        A singleton stays: whether it is met changes with each start. So does that of tasks on
        tasks, until all of the other array has completed."""
        if dependency.is_singleton:
            return dependency
        if dependency.is_of_tasks and job.progress is not None:
            self._note_met(job, job.progress, dependency)
            return None if self._lacks(job, dependency) is None else dependency
        unmet = self.unmet(job, dependency)
        if unmet is not None and unmet.unmet is Unmet.DELAYED:
            return replace(dependency, due_s=unmet.until_s)
        return dependency if unmet else None

    def _unmet_by_tasks(
        self, job: JobRecord, progress: ArrayProgress, dependency: Dependency
    ) -> WaitsForJob | None:
        """Return why no task of an array may start of those that are left in it."""
        job_id, condition = dependency.job_id, dependency.condition
        if in_both(progress.left, progress.met.get(job_id, NO_ORDINALS)):
            return None
        lacks = self._lacks(job, dependency)
        return None if lacks is None else WaitsForJob(job_id, condition, lacks)

    def _note_met(self, job: JobRecord, progress: ArrayProgress, dependency: Dependency) -> None:
        """Note which tasks of an array may start since those of the same index completed."""
        awaited = self.get(dependency.job_id)
        if awaited is None or awaited.progress is None or not job.may_see(awaited):
            return
        own, other = parse_tasks(job.job.array), parse_tasks(awaited.job.array)
        met = awaited.progress.completed
        if own != other:
            met = NO_ORDINALS
            for first, behind in awaited.progress.completed:
                for ordinal in map(own.ordinal, map(other.index, range(first, behind))):
                    met = met if ordinal is None else with_ordinal(met, ordinal)
        if met != progress.met.get(dependency.job_id, NO_ORDINALS):
            progress.met[dependency.job_id] = met

    def _due_s(self, dependency: Dependency) -> float:
        """Return when the delay of a dependency ends, after what it waits for has happened: counted
        from when the resource manager says that was, to the microsecond."""
        awaited = self.get(dependency.job_id)
        if dependency.due_s is not None or awaited is None:
            return dependency.due_s or 0.0
        life, since_s = awaited.life, 0.0
        if dependency.condition is Condition.AFTER:
            since_s = life.started_s
        now_s = self.times.now_s
        # The clock of a resource manager may be ahead.
        since_s = min(since_s or life.stopped_s or life.ended_s or now_s, now_s)
        return (round(since_s * 1e6) + round(dependency.delay_s * 1e6)) / 1e6

    def _lacks(self, job: JobRecord, dependency: Dependency) -> Unmet | None:
        """Return why what a dependency waits for has not happened; None where it has."""
        if dependency.due_s is not None:
            return None
        awaited, condition = self.get(dependency.job_id), dependency.condition
        array, ordinal = self._task_of_array(job, dependency, awaited)
        if array is not None and job.may_see(array):
            return _lacks_of_task(array, ordinal, condition)
        if awaited is None or not job.may_see(awaited):
            return Unmet.NOT_ELIGIBLE
        if condition is Condition.AFTER:
            return None if _has_started(awaited) else Unmet.NOT_STARTED
        if not awaited.ended:
            return Unmet.NOT_ENDED
        is_rejected = awaited.life.state is JobState.REJECTED
        return _lacks_ended(condition, completed=awaited.life.completed, is_rejected=is_rejected)

    def _task_of_array(
        self, job: JobRecord, dependency: Dependency, awaited: JobRecord | None
    ) -> tuple[JobRecord | None, int]:
        """Return the array that has the task that a dependency names, and its ordinal there: where
        tasks wait for tasks, and for one that is no job of its own; without an array for any other
        job."""
        array, index = awaited, job.job.array_index
        if awaited is None and (named := as_task(dependency.job_id)) is not None:
            array, index = self.get(named[0]), named[1]
        elif not (dependency.is_of_tasks and job.job.array_id):
            return None, -1
        if array is None or array.progress is None:
            return None, -1
        ordinal = parse_tasks(array.job.array).ordinal(index)
        return (None, -1) if ordinal is None else (array, ordinal)


def _has_started(job: JobRecord) -> bool:
    """Return whether a job has started, or starts no more; of an array whether all its tasks
    have."""
    if job.progress is not None:
        return count_of(job.progress.begun) == len(parse_tasks(job.job.array))
    return job.ended or job.life.state is JobState.RUNNING


def _lacks_of_task(array: JobRecord, ordinal: int, condition: Condition) -> Unmet | None:
    """Return why a task of an array does not meet a condition; None where it does."""
    progress = array.progress
    assert progress is not None
    if condition is Condition.AFTER:
        return None if has_ordinal(progress.begun, ordinal) else Unmet.NOT_STARTED
    completed = has_ordinal(progress.completed, ordinal)
    if not completed and not has_ordinal(progress.failed, ordinal):
        return Unmet.NOT_ENDED
    return _lacks_ended(condition, completed=completed, is_rejected=False)


def _lacks_ended(condition: Condition, *, completed: bool, is_rejected: bool) -> Unmet | None:
    """Return why a job that ended does not meet a condition; None where it does."""
    if condition is Condition.AFTER_ANY or completed is (condition is not Condition.AFTER_NOT_OK):
        return None
    if completed:
        return Unmet.COMPLETED
    return Unmet.REJECTED if is_rejected else Unmet.FAILED
