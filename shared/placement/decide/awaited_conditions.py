"""Whether what a dependency waits for has happened, and for how long a job waits after that."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from shared.domain.job import Condition, Dependency, JobState
from shared.placement.decide.pending_reason import Unmet, WaitsForJob
from shared.placement.decide.same_names import SameNames
from shared.placement.decide.start_times import StartTimes
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
        lacks = self._lacks(job, dependency)
        if lacks is not None:
            return WaitsForJob(job_id, condition, lacks)
        due_s = self._due_s(dependency)
        is_over = due_s <= self.times.now_s or not dependency.delay_s
        return None if is_over else WaitsForJob(job_id, condition, Unmet.DELAYED, due_s)

    def settled(self, job: JobRecord, dependency: Dependency) -> Dependency | None:
        """Return a dependency with the end of its delay, once that is known; None where it is met.
        A singleton stays: whether it is met changes with each start."""
        if dependency.is_singleton:
            return dependency
        unmet = self.unmet(job, dependency)
        if unmet is not None and unmet.unmet is Unmet.DELAYED:
            return replace(dependency, due_s=unmet.until_s)
        return dependency if unmet else None

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
        if awaited is None or not job.may_see(awaited):
            return Unmet.NOT_ELIGIBLE
        if condition is Condition.AFTER:
            has_started = awaited.ended or awaited.life.state is JobState.RUNNING
            return None if has_started else Unmet.NOT_STARTED
        if not awaited.ended:
            return Unmet.NOT_ENDED
        is_met = condition is Condition.AFTER_ANY or (
            awaited.life.completed is (condition is Condition.AFTER_OK)
        )
        if is_met:
            return None
        if awaited.life.completed:
            return Unmet.COMPLETED
        is_rejected = awaited.life.state is JobState.REJECTED
        return Unmet.REJECTED if is_rejected else Unmet.FAILED
