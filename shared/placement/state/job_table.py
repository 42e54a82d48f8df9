"""The jobs that placement tracks, in their newest attempts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, KeysView
from dataclasses import replace
from heapq import heappop, heappush, nlargest
from itertools import chain
from typing import Final

from coplace.v1.jobs_pb2 import JobDeclined

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.array_tasks import (
    NO_ORDINALS,
    TaskIndices,
    as_task,
    has_ordinal,
    parse_tasks,
    task_id,
    with_ordinal,
    without_ordinal,
)
from shared.domain.cluster import Cluster
from shared.domain.job import Dependency, Job, JobFact, JobState, next_state
from shared.placement.state.actions import Action
from shared.placement.state.allocations import Allocations
from shared.placement.state.array_progress import ARRAYS, ArrayProgress, ArrivalNumbers
from shared.placement.state.candidate import CANDIDATES, Candidate
from shared.placement.state.declines import Declined, declined_words
from shared.placement.state.ended_run import RunEnding
from shared.placement.state.grants import MOST_SEIZED, VoidStart, WithdrawalKind, WithdrawalReason
from shared.placement.state.holds import Holder, held_anew, together, word_of
from shared.placement.state.job_allocation import JobAllocation
from shared.placement.state.job_record import JOBS, MOST_TEXT, JobRecord, Life, Reordered
from shared.placement.state.misfit import Misfit
from shared.scheduling.backfill import Start
from shared.scheduling.user_runs import AS_REQUESTED, ExpectedRun
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError
from shared.streams.state.state import State

TABLE: Final = "job"
# Each is a time series of its own.
_MOST_COUNTED: Final = 500
_DAY_S: Final = 86_400.0


class JobTable:
    """All jobs in their newest attempts, and which of them changed.

    Ended jobs are remembered for a while after their end arrived, so that copies of their events
    are recognised. `JobFacts` and `JobRequests` fold events into it.
    """

    def __init__(self, state: State, remember_days: float, clusters: Iterable[Cluster]) -> None:
        self.by_arrival = ArrivalNumbers()
        self.allocations = Allocations()
        self._remember_s = remember_days * _DAY_S
        self._rows = state.table(TABLE, JOBS)
        self._candidates = state.table("candidates", CANDIDATES)
        self._expected = state.table("expected-runs", ExpectedRun)
        self._declined = state.table("declined", tuple[Declined, ...])
        self._progress = state.table("arrays", ARRAYS)
        self._reordered = state.table("reordered", Reordered)
        self._ended_runs = state.table("ended", RunEnding)
        self._jobs = self._rows.rows
        # By array, its tasks that are jobs of their own and have not ended.
        self._tasks: dict[str, set[str]] = defaultdict(set)
        self._ended: list[tuple[float, str]] = []
        self._ending: set[str] = set()
        self._unadmitted: set[str] = set()
        self.late_starts = 0
        # Starts that were declined, by cluster, kind and name of what was refused.
        self.declines = Counter[tuple[str, str, str]]()
        self._next_arrival = 0
        self._touched: set[str] = set()
        self._newly_reordered: set[str] = set()
        for cluster in clusters:
            self.allocations.declare(cluster)
        for job in self._rows.values():
            self._adopt(job)

    def take_touched(self) -> set[str]:
        """Return the ids of the jobs that changed since the last call; after a restart all."""
        touched, self._touched = self._touched, set()
        return touched

    def get(self, job_id: str) -> JobRecord | None:
        """Return a job in its newest attempt, None where it is unknown."""
        return self._jobs.get(job_id)

    def ids(self) -> KeysView[str]:
        """Return the ids of all jobs."""
        return self._jobs.keys()

    def known(self, job_id: str) -> JobRecord:
        """Return a job in its newest attempt. Raises EarlyError for an unknown one."""
        job = self.named(job_id)
        if job is None:
            raise EarlyError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")
        return job

    def known_alone(self, job_id: str) -> JobRecord:
        """Return a job in its newest attempt that is no array. Raises EarlyError for an unknown
        one, RejectedError for an array: such a fact is one on a task."""
        job = self.known(job_id)
        if job.progress is not None:
            first = task_id(job_id[:80], parse_tasks(job.job.array).index(0))
            raise RejectedError("job_id", f"is an array: name one of its tasks, such as {first!r}")
        return job

    def named(self, job_id: str) -> JobRecord | None:
        """Return a job that an event names, None where it is unknown. A task that was left in its
        array, or ended with it, is a job of its own from now on."""
        job = self._jobs.get(job_id)
        if job is None and (found := self._without_record(job_id)) is not None:
            array, ordinal = found
            assert array.progress is not None
            if has_ordinal(array.progress.left, ordinal):
                return self.split(array, ordinal)
            if has_ordinal(array.progress.dropped, ordinal):
                return self._split_dropped(array, ordinal)
        return job

    def left_in(self, job_id: str) -> tuple[JobRecord, int] | None:
        """Return the array that an id names a task of, with its ordinal there; None where there is
        no such array, or it is a job of its own."""
        array, ordinal = self._without_record(job_id) or (None, -1)
        if array is None or array.progress is None:
            return None
        return (array, ordinal) if has_ordinal(array.progress.left, ordinal) else None

    def _without_record(self, job_id: str) -> tuple[JobRecord, int] | None:
        """Return the array that an id names a task of, with its ordinal there."""
        named = as_task(job_id)
        array = self._jobs.get(named[0]) if named else None
        if named is None or array is None or array.progress is None:
            return None
        ordinal = parse_tasks(array.job.array).ordinal(named[1])
        return None if ordinal is None else (array, ordinal)

    def tasks_of(self, array_id: str) -> list[JobRecord]:
        """Return the tasks of an array that are jobs of their own and have not ended, by
        arrival."""
        return self.found(self._tasks.get(array_id, ()))

    def require_free_ids(self, job: Job) -> None:
        """Raise RejectedError where the id of a job is that of a task of an array, or those of its
        tasks are of other jobs."""
        named = as_task(job.job_id)
        array = self._jobs.get(named[0]) if named else None
        tasks = array.job.tasks if array else None
        if named and tasks and tasks.ordinal(named[1]) is not None:
            raise RejectedError("job_id", f"is a task of {named[0][:80]!r}: choose another")
        if job.array:
            self._require_free_task_ids(job, parse_tasks(job.array))

    def _require_free_task_ids(self, job: Job, tasks: TaskIndices) -> None:
        if len(self._jobs) < len(tasks):
            # Most ids are of no task of this array, which their beginning shows soonest.
            own = f"{job.job_id}_"
            named = (as_task(each) for each in self._jobs if each.startswith(own))
            others = (found for found in named if found is not None)
            taken = (index for name, index in others if name == job.job_id)
            used = next((index for index in taken if tasks.ordinal(index) is not None), None)
        else:
            indices = chain.from_iterable(tasks.ranges)
            used = next((n for n in indices if task_id(job.job_id, n) in self._jobs), None)
        if used is not None:
            task = task_id(job.job_id[:80], used)
            raise RejectedError("job_id", f"has a task {task!r}, which is another job")

    def newest(self, event: Event, job_id: str, attempt: int) -> JobRecord:
        """Return a job if this is its newest attempt.

        Raises EarlyError for an attempt that is not known yet, AlreadyAppliedError for an older
        one: what happens to it is of no consequence.
        """
        job = self.known_alone(job_id)
        if attempt > job.job.attempt:
            problem = f"{attempt} is not known, the newest is {job.job.attempt}: requeue first"
            raise EarlyError("attempt", problem)
        if attempt < job.job.attempt:
            raise AlreadyAppliedError(event.id)
        return job

    def with_void_starts(self) -> list[JobRecord]:
        """Return the jobs with void starts to notify resource managers of, by arrival."""
        return [job for job in self.found(self._touched) if job.grants.void]

    def found(self, job_ids: Iterable[str]) -> list[JobRecord]:
        """Return those of these jobs that are known, by arrival."""
        jobs = (self._jobs[job_id] for job_id in job_ids if job_id in self._jobs)
        return sorted(jobs, key=lambda job: job.arrival)

    def of_arrival(self, arrival: int) -> JobRecord:
        """Return the job that has this arrival number."""
        return self._jobs[self.by_arrival[arrival]]

    def at_arrival(self, arrival: int) -> JobRecord | None:
        """Return the job that has this arrival number, None where it is known no more."""
        job_id = self.by_arrival.get(arrival)
        return self._jobs.get(job_id) if job_id is not None else None

    @property
    def next_arrival(self) -> int:
        """Return the number of the next attempt that arrives."""
        return self._next_arrival

    def ended_last(self, most: int) -> list[JobRecord]:
        """Return at most so many of the ended jobs that are remembered, the newest first."""
        found = (self._jobs.get(job_id) for _, job_id in nlargest(most, self._ended))
        return [job for job in found if job is not None and job.ended]

    def apps(self) -> set[str]:
        """Return the applications of the jobs that have not ended."""
        return {job.job.app_id for job in self._jobs.values() if not job.ended}

    def save(self, job: JobRecord) -> None:
        """Store a job that was changed from outside."""
        self._rows.changed(job.job.job_id)

    def revisit(self, job: JobRecord) -> None:
        """Store a job that was changed from outside, and note that its situation changed."""
        self._touched.add(job.job.job_id)
        self._rows.changed(job.job.job_id)

    def note_end(self, job: JobRecord, ended: RunEnding) -> None:
        """Note how the run of a job ended, for as long as the job is known."""
        self._ended_runs.put(job.job.job_id, ended)

    def ended_run(self, job: JobRecord) -> RunEnding | None:
        """Return how the run of an attempt ended; None where it did not, or nobody said."""
        return self._ended_runs.get(job.job.job_id) if job.ended else None

    def change(self, before: JobRecord, job: Job, awaits: tuple[Dependency, ...]) -> JobRecord:
        """Let an attempt that waits ask for something else, at its place and priority. So do the
        tasks of an array that wait as jobs of their own; granted ones do once they are declined."""
        job = replace(job, priority=before.job.priority)
        changed = self.track(job, before.traceparent, awaits, arrival=before.arrival)
        if changed.progress is not None:
            for task in self.tasks_of(job.job_id):
                if task.waits:
                    self.change_as_array(task)
        return changed

    def change_as_array(self, task: JobRecord) -> None:
        """Let a task that waits ask for what its array asks for since somebody changed that."""
        array = self._jobs.get(task.job.array_id)
        if array is None or array.progress is None:
            return
        if array.job.changed_at_us > task.job.changed_at_us:
            awaits = _awaits_of_task(array, array.progress, task.job.array_ordinal)
            job = array.job.task(task.job.array_ordinal)
            self.change(task, replace(job, attempt=task.job.attempt), awaits)

    def track(
        self,
        job: Job,
        traceparent: str,
        awaits: tuple[Dependency, ...],
        seized: str = "",
        arrival: int | None = None,
    ) -> JobRecord:
        """Replace the newest attempt of a job, at its place where it has an arrival number; what
        was asked of the job stays in force."""
        number = self._next_arrival if arrival is None else arrival
        tracked = JobRecord(job, number, traceparent, Life(awaits=awaits))
        before = self._jobs.get(job.job_id)
        if before is not None:
            self._supersede(before, tracked, seized)
        self._rows.put(job.job_id, tracked)
        self.by_arrival[tracked.arrival] = job.job_id
        self._next_arrival += arrival is None
        if before is not None and before.progress is not None:
            self._go_on_with_array(before, tracked)
        elif job.array:
            self._begin_array(tracked)
        elif job.array_id:
            self._begin_task(tracked)
        self._unadmitted.add(job.job_id)
        self._declined.drop(job.job_id)
        self._ended_runs.drop(job.job_id)
        self.evaluate(tracked, ())
        self.revisit(tracked)
        if tracked.requests.cancelled is not None:
            self.end(tracked, next_state(tracked.life.state, JobFact.CANCELLED))
        return tracked

    def split(self, array: JobRecord, ordinal: int) -> JobRecord:
        """Make a job of its own of a task that is left in an array: it waits at its place there, as
        the array does."""
        assert array.progress is not None
        awaits = _awaits_of_task(array, array.progress, ordinal)
        task = self._record_task(array, ordinal, Life(awaits=awaits))
        job_id = task.job.job_id
        array.progress.take(ordinal)
        self._tasks[array.job.job_id].add(job_id)
        if not task.evaluated.admitted:
            self._unadmitted.add(job_id)
        if task.evaluated.candidates:
            self._candidates.put(job_id, task.evaluated.candidates)
        self.expect(task, array.expected_run)
        if array.reordered is not None:
            self.reorder(task, *array.reordered)
        self._follow_tasks(array)
        return task

    def _split_dropped(self, array: JobRecord, ordinal: int) -> JobRecord:
        """Make a job of its own of a task that ended with its array: its resource manager may have
        started it before it knew."""
        is_cancelled = array.requests.cancelled is not None
        state = JobState.CANCELLED if is_cancelled else JobState.REJECTED
        assert array.progress is not None
        array.progress.dropped = without_ordinal(array.progress.dropped, ordinal)
        self._progress.changed(array.job.job_id)
        task = self._record_task(array, ordinal, Life(state))
        task.evaluated.candidates = ()
        self._ending.add(task.job.job_id)
        return task

    def _record_task(self, array: JobRecord, ordinal: int, life: Life) -> JobRecord:
        """Add a record of a task of an array, with what is known and was asked of the array."""
        assert array.progress is not None
        job, arrival = array.job.task(ordinal), array.progress.first_arrival + ordinal
        task = JobRecord(job, arrival, array.traceparent, life)
        task.evaluated, task.requests = replace(array.evaluated), replace(array.requests)
        self._rows.put(job.job_id, task)
        self.by_arrival[task.arrival] = job.job_id
        self.revisit(task)
        return task

    def save_progress(self, array: JobRecord) -> None:
        """Store the progress of an array that was changed from outside."""
        self._progress.changed(array.job.job_id)

    def drop_left(self, array: JobRecord) -> None:
        """Let no task that is left in an array start; the others are jobs of their own."""
        assert array.progress is not None
        array.progress.drop_left()
        self._follow_tasks(array)

    def note_started(self, task: JobRecord) -> None:
        """Note that a task of an array started, and when the last of them did."""
        array = self._jobs.get(task.job.array_id) if task.job.array_id else None
        if array is None or array.progress is None:
            return
        array.progress.begun = with_ordinal(array.progress.begun, task.job.array_ordinal)
        array.life.started_s = max(array.life.started_s, task.life.started_s)
        self._follow_begun(array, task)

    def _begin_array(self, array: JobRecord) -> None:
        first, count = self._next_arrival, len(parse_tasks(array.job.array))
        array.progress = ArrayProgress(first, ((0, count),))
        self._progress.put(array.job.job_id, array.progress)
        self._reserve(array, array.progress, count)

    def _go_on_with_array(self, before: JobRecord, array: JobRecord) -> None:
        """Take over how far the tasks of an array are, which asks for something else now."""
        assert before.progress is not None
        array.progress, array.life.state = before.progress, before.life.state
        array.life.started_s, array.life.stopped_s = before.life.started_s, before.life.stopped_s
        self._progress.changed(array.job.job_id)

    def _reserve(self, array: JobRecord, progress: ArrayProgress, count: int) -> None:
        """Give the tasks of an array their arrival numbers."""
        behind = progress.first_arrival + count
        self.by_arrival.reserve(progress.first_arrival, behind, array.job.job_id)
        self._next_arrival = max(self._next_arrival, behind)

    def _begin_task(self, task: JobRecord) -> None:
        """Note that an attempt of a task begins."""
        array = self._jobs.get(task.job.array_id)
        if array is None or array.progress is None:
            return
        _ask_as_array(array, task)
        if array.reordered is not None and array.reordered[1:] > (task.reordered or (0, 0))[1:]:
            self.reorder(task, *array.reordered)
        self._follow_begun(array, task)

    def _follow_begun(self, array: JobRecord, task: JobRecord) -> None:
        """Note that a task has not ended, whatever was known of its end."""
        assert array.progress is not None
        self._tasks[array.job.job_id].add(task.job.job_id)
        array.progress.begin_anew(task.job.array_ordinal)
        self._follow_tasks(array)

    def _end_task(self, task: JobRecord) -> None:
        """Note that the newest attempt of a task ended."""
        array = self._jobs.get(task.job.array_id)
        if array is None or array.progress is None:
            return
        self._tasks[array.job.job_id].discard(task.job.job_id)
        array.progress.end(task.job.array_ordinal, completed=task.life.completed)
        array.life.stopped_s = max(array.life.stopped_s, task.life.stopped_s)
        self._progress.changed(array.job.job_id)
        # What ended as one, such as by its rejection, has ended.
        if not array.ended:
            self._follow_tasks(array)

    def _follow_tasks(self, array: JobRecord) -> None:
        """Bring the state of an array up to date with its tasks: it has ended when all have."""
        progress, state = array.progress, array.life.state
        assert progress is not None
        self._progress.changed(array.job.job_id)
        self.revisit(array)
        if progress.left:
            return
        array.life.state = next_state(state, JobFact.SPLIT)
        if not self._tasks.get(array.job.job_id):
            array.life.completed = not progress.failed
            has_run = progress.completed or array.life.stopped_s
            lacks_tasks = bool(progress.dropped) or not has_run
            is_cancelled = array.requests.cancelled is not None and lacks_tasks
            fact = JobFact.CANCELLED if is_cancelled else JobFact.FINISHED
            self.end(array, next_state(array.life.state, fact))
        elif array.life.state is not state:
            array.life.ended_s = None

    def begin_next(self, before: JobRecord, attempt: int, seized: str = "") -> JobRecord:
        """Begin another attempt after one that was requeued or, for this reason, seized."""
        job = replace(before.job, attempt=attempt)
        return self.track(job, before.traceparent, before.life.awaits, seized)

    def move_to_the_end(self, job: JobRecord) -> None:
        """Queue the same attempt as if it arrived now; if it was admitted, it stays so."""
        after = self.begin_next(job, job.job.attempt)
        after.evaluated.admitted, after.evaluated.misfits = (
            job.evaluated.admitted,
            job.evaluated.misfits,
        )

    def end(self, job: JobRecord, state: JobState) -> None:
        """End the newest attempt of a job in this state."""
        job.life.state, job.life.ended_s, job.run.actions, job.requests.suspend = (
            state,
            None,
            (),
            None,
        )
        self._ending.add(job.job.job_id)
        self.revisit(job)
        if job.job.array_id:
            self._end_task(job)
        elif job.progress is not None and job.progress.left:
            job.progress.drop_left()
            self._progress.changed(job.job.job_id)

    def tell(self, job: JobRecord, void: VoidStart) -> None:
        """Note a void start of which its resource manager is to be notified, once in a round."""
        others = (one for one in job.grants.void if one.start != void.start)
        job.grants.void = (*others, void)
        self.revisit(job)

    def keep_for(self, job: JobRecord, cluster: str) -> None:
        """Bind a job to the cluster on which it was started, of which too little is known yet."""
        if job.run.runs_on != cluster[:MOST_TEXT]:
            job.run.runs_on = cluster[:MOST_TEXT]
            self.revisit(job)

    def evaluate(self, job: JobRecord, candidates: tuple[Candidate, ...]) -> None:
        """Store the candidates of a job."""
        job.evaluated.candidates = candidates
        if candidates:
            self._candidates.put(job.job.job_id, candidates)
        else:
            self._candidates.drop(job.job.job_id)
        self.save(job)

    def expect(self, job: JobRecord, expected: ExpectedRun) -> None:
        """Store what is expected of a job's run."""
        job.expected_run = expected
        if expected == AS_REQUESTED:
            self._expected.drop(job.job.job_id)
        else:
            self._expected.put(job.job.job_id, expected)

    def reorder(self, job: JobRecord, priority: int, at_us: int) -> None:
        """Store the priority that the resource manager of a job gave it at this time."""
        job.reordered = Reordered(priority, at_us)
        self._reordered.put(job.job.job_id, job.reordered)
        self._newly_reordered.add(job.job.job_id)

    def take_reordered(self) -> set[str]:
        """Return the ids of the jobs that got such a priority since the last call."""
        taken, self._newly_reordered = self._newly_reordered, set()
        return taken

    def reordered(self) -> KeysView[str]:
        """Return the ids of the jobs whose managers gave them other priorities."""
        return self._reordered.rows.keys()

    def refuse(self, job: JobRecord, declined: tuple[Declined, ...]) -> None:
        """Store what resource managers refused a job."""
        if declined == job.declined:
            return
        job.declined = declined
        if declined:
            self._declined.put(job.job.job_id, declined)
        else:
            self._declined.drop(job.job.job_id)
        self.revisit(job)

    def count_decline(self, job: JobRecord, cluster: str, message: JobDeclined) -> None:
        """Count a declined start by what was refused; beyond so many names all others together."""
        what = cluster, *declined_words(job.job, message)
        known = what in self.declines or len(self.declines) < _MOST_COUNTED
        self.declines[what if known else (cluster, "other", "")] += 1

    def declined(self) -> list[JobRecord]:
        """Return the jobs that were refused something, by arrival."""
        return self.found(self._declined.rows)

    def needs(self, cluster: str) -> bool:
        """Return whether a job that has not ended refers to a cluster."""
        return any(not job.ended and _knows(job, cluster) for job in self._jobs.values())

    def estimate(self, job: JobRecord, draw_mw: int, *, power_unknown: bool = False) -> None:
        """Store what a job draws where it runs, or what its nodes draw at most."""
        if job.run.allocation is not None:
            placed = job.run.allocation
            if placed.predicted_mw is None:
                placed.predicted_mw = draw_mw if placed.draw_mw is None else placed.draw_mw
            placed.draw_mw, placed.power_unknown = draw_mw, power_unknown
            self.allocations.refresh(job)
            self.save(job)

    def estimate_anew(self, cluster: str) -> None:
        """Forget what jobs draw there of which nothing said so: its nodes draw another power at
        most."""
        for job, placed in self.allocations.all():
            if placed.cluster == cluster and placed.power_unknown:
                placed.draw_mw = placed.predicted_mw = None
                self.allocations.refresh(job)
                self.save(job)

    def count_nameplate(self, job: JobRecord, silent_units: int, nameplate_mw: int) -> None:
        """Set what a job counts for at least since meters of so many of its units are silent."""
        placed = job.run.allocation
        assert placed is not None
        if (placed.silent_units, placed.nameplate_mw) != (silent_units, nameplate_mw):
            placed.silent_units, placed.nameplate_mw = silent_units, nameplate_mw
            self.allocations.refresh(job)
            self.save(job)

    def unadmitted(self) -> list[JobRecord]:
        """Return the jobs that wait and are not known to fit anywhere, by arrival."""
        found = [
            job for job in self.found(self._unadmitted) if job.waits and not job.evaluated.admitted
        ]
        self._unadmitted = {job.job.job_id for job in found}
        return [job for job in found if not job.requests.isolated]

    def admit(self, job: JobRecord) -> None:
        """Note that a job fits on a declared cluster: from now on it is never rejected."""
        job.evaluated.admitted, job.evaluated.misfits = True, ()
        self._unadmitted.discard(job.job.job_id)
        self.revisit(job)

    def put_off(self, job: JobRecord, misfits: tuple[Misfit, ...]) -> None:
        """Note why a job fits on no declared cluster, where a fitting one may yet be declared."""
        if misfits != job.evaluated.misfits:
            job.evaluated.misfits = misfits
            self.revisit(job)

    def reject(self, job: JobRecord, misfits: tuple[Misfit, ...]) -> None:
        """End a job that fits on no declared cluster."""
        job.evaluated.misfits = misfits
        self.end(job, next_state(job.life.state, JobFact.REJECTED))

    def ask(self, job: JobRecord, action: Action) -> None:
        """Record an action that is asked of the resource manager of a job."""
        job.run.actions, job.run.asked_actions = (*job.run.actions, action), action.number
        self.allocations.refresh(job)
        self.save(job)

    def isolate(self, job: JobRecord, reason: str) -> None:
        """Hold a job that the end of a round fails over."""
        job.requests.holds = held_anew(job.requests.holds, Holder.PLACEMENT, reason[:MOST_TEXT])
        job.requests.isolated = True
        self.revisit(job)

    def all(self) -> list[JobRecord]:
        """Return the newest attempt of every job that is known, by arrival."""
        return self.found(self._jobs)

    def waiting(self) -> list[JobRecord]:
        """Return the jobs that may be started, by arrival."""
        return [job for job in self.found(self._jobs) if job.waits and job.requests.held is None]

    def place(
        self,
        job: JobRecord,
        start: Start,
        now_s: float,
        mode: Candidate,
        wanted_ghz: float,
        plan_round: int | None,
        partitions: tuple[str, ...],
    ) -> JobAllocation:
        """Grant a job its nodes, in these partitions, in a mode where another P-state is wanted if
        caps allow it; `plan_round` is that of the plan which chose it."""
        job.life.state, job.grants.newest = (
            next_state(job.life.state, JobFact.GRANTED),
            job.grants.newest + 1,
        )
        job.grants.missed = False
        limit_s = start.entry.limit_s
        nodes, units = self.allocated(start)
        draw_mw, ends_s = start.entry.draw_mw, now_s + limit_s
        on = start.cluster, nodes, limit_s, ends_s, job.grants.newest, draw_mw, units
        placed = JobAllocation(*on, mode.freq_ghz, plan_round, wanted_ghz, power_sd=mode.power_sd)
        placed.power_unknown, placed.partitions = mode.power_unknown, partitions
        placed.await_boot(self.allocations.power(start.cluster).boot_time_s(nodes))
        self.allocations.hold(job, placed)
        self.save(job)
        return placed

    def await_boots(self, cluster: str) -> None:
        """Let starts that are not confirmed wait for nodes of theirs that were switched off since
        they were decided, each once."""
        power = self.allocations.power(cluster)
        for job, placed in self.allocations.granted() if power.not_on else ():
            if placed.cluster == cluster and not placed.boot_s:
                placed.await_boot(power.boot_time_s(placed.nodes))
                self.allocations.refresh(job)
                self.save(job)

    def allocated(self, start: Start) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the nodes of a start and the units on each, none where there is one on each. Where
        the pass only counted nodes, these are the free ones that draw least."""
        found = start.allocation
        if found is None:
            return self.allocations.best_free(start.cluster, start.entry.nodes), ()
        return found.nodes, found.units if max(found.units) > 1 else ()

    def forget(self, now_s: float) -> None:
        """Drop jobs whose end arrived too long ago; what ended since the last call did now."""
        for ending in self.found(self._ending):
            if ending.ended:
                ending.life.ended_s = now_s
                heappush(self._ended, (now_s, ending.job.job_id))
                self.evaluate(ending, ())
                self.expect(ending, AS_REQUESTED)
                self.refuse(ending, ())
                self._forget_order(ending)
        self._ending.clear()
        while self._ended and self._ended[0][0] < now_s - self._remember_s:
            ended_s, job_id = heappop(self._ended)
            job = self._jobs.get(job_id)
            if job is not None and job.life.ended_s == ended_s:
                del self.by_arrival[job.arrival]
                self._rows.drop(job_id)
                self._ended_runs.drop(job_id)
                self._touched.add(job_id)
                if job.progress is not None:
                    self.by_arrival.give_back(job.progress.first_arrival)
                    self._progress.drop(job_id)
                    self._tasks.pop(job_id, None)

    def _forget_order(self, job: JobRecord) -> None:
        """Keep the priority of a job that has ended with the job itself."""
        if job.reordered is not None:
            job.job = replace(job.job, manager_priority=job.reordered.priority)
            job.reordered = None
            self.save(job)
            self._reordered.drop(job.job.job_id)

    def _adopt(self, job: JobRecord) -> None:
        job_id, placed = job.job.job_id, job.run.allocation
        job.evaluated.candidates = self._candidates.get(job_id) or ()
        job.expected_run = self._expected.get(job_id) or AS_REQUESTED
        job.declined = self._declined.get(job_id) or ()
        job.reordered = self._reordered.get(job_id)
        job.progress = self._progress.get(job_id)
        if job.progress is not None:
            self._reserve(job, job.progress, len(parse_tasks(job.job.array)))
        elif job.job.array_id and not job.ended:
            self._tasks[job.job.array_id].add(job_id)
        self.by_arrival[job.arrival] = job_id
        self._next_arrival = max(self._next_arrival, job.arrival + 1)
        if placed is not None:
            self.allocations.hold(job, placed)
        if job.life.ended_s is not None:
            heappush(self._ended, (job.life.ended_s, job_id))
        elif job.ended:
            self._ending.add(job_id)
        self._unadmitted.add(job_id)
        self._touched.add(job_id)

    def _supersede(self, before: JobRecord, after: JobRecord, seized: str) -> None:
        """Let an attempt replace another. What was granted of that one, or seized, is void."""
        after.requests.holds, after.requests.isolated = (
            before.requests.holds,
            before.requests.isolated,
        )
        after.requests.cancelled, after.requests.requeue_asked = (
            before.requests.cancelled,
            before.requests.requeue_asked,
        )
        after.requests.priority_asked = before.requests.priority_asked
        is_next = after.job.attempt > before.job.attempt
        is_failure = is_next and not seized and before.requests.requeue is None
        after.life.requeues, after.requests.suspend_asked = (
            before.life.requeues + is_failure,
            before.requests.suspend_asked,
        )
        after.grants.newest, after.grants.void, after.grants.seized = (
            before.grants.newest,
            before.grants.void,
            before.grants.seized,
        )
        after.grants.declined = before.grants.declined
        after.expected_run, after.reordered = before.expected_run, before.reordered
        if after.job.attempt == before.job.attempt:
            after.run.runs_on = before.run.runs_on
        placed = before.run.allocation
        if placed is not None and (seized or before.life.state is JobState.GRANTED):
            reason = WithdrawalReason(WithdrawalKind.REQUEUED, number=after.job.attempt)
            if seized:
                reason = WithdrawalReason(WithdrawalKind.SEIZED, text=seized)
            void = VoidStart(before.job.attempt, placed.grant, placed.cluster, reason)
            after.grants.seized = (*after.grants.seized[-MOST_SEIZED:], void)
            self.tell(after, void)
        self.allocations.release(before)
        del self.by_arrival[before.arrival]


def _ask_as_array(array: JobRecord, task: JobRecord) -> None:
    """Ask of a task what was asked of its array while no attempt of the task was there to ask."""
    asked, own = array.requests, task.requests
    if asked.cancelled is not None:
        own.cancelled = asked.cancelled
    before = word_of(own.holds, Holder.PLACEMENT)
    # A task is isolated by itself.
    own.holds = together(
        own.holds,
        (
            word
            for word in asked.holds
            if word.holder is not Holder.PLACEMENT or word.reason is None
        ),
    )
    lifted = word_of(own.holds, Holder.PLACEMENT)
    if lifted.asked > before.asked and lifted.reason is None:
        own.isolated, task.life.requeues = False, 0
    if asked.priority_asked > own.priority_asked:
        task.job = replace(task.job, priority=array.job.priority)
        own.priority_asked = asked.priority_asked


def _awaits_of_task(
    array: JobRecord, progress: ArrayProgress, ordinal: int
) -> tuple[Dependency, ...]:
    """Return what a task that is left in an array waits for, but for what is met for it."""
    left, awaits = array.life.awaits, list[Dependency]()
    for each in left:
        met = progress.met.get(each.job_id, NO_ORDINALS) if each.is_of_tasks else NO_ORDINALS
        if not has_ordinal(met, ordinal):
            awaits.append(each)
    return () if array.job.depends_on_any and len(awaits) < len(left) else tuple(awaits)


def _knows(job: JobRecord, cluster: str) -> bool:
    """Return whether a job runs on a cluster, was evaluated for it, or refers to it by walltime."""
    if cluster == job.job.reference_cluster or (
        job.run.allocation and job.run.allocation.cluster == cluster
    ):
        return True
    return any(candidate.cluster == cluster for candidate in job.evaluated.candidates)
