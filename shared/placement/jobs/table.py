"""The jobs that placement tracks: a fold over what happened to them and what was asked of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush, nlargest
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.prediction_pb2 import RunningPowerMeasured

from shared.domain.cluster import Cluster
from shared.domain.errors import RejectedError
from shared.domain.job import Dependency, Job, JobFact, JobState, next_state
from shared.domain.node import NodeNames
from shared.messaging.events.event import Event
from shared.messaging.payloads.domain_types import dependencies_of, job_of
from shared.messaging.stages.stage import AlreadyAppliedError, EarlyError
from shared.placement.candidates.candidate import Candidate, draw_mw
from shared.placement.candidates.misfits import Misfit
from shared.placement.jobs.actions import Action, ActionKind, Refused
from shared.placement.jobs.grants import Void, lower_grant
from shared.placement.jobs.holdings import Holdings
from shared.placement.jobs.past_runs import share_ran
from shared.placement.jobs.tracked import Placed, Tracked
from shared.scheduling.backfill import Start

_PREFIX: Final = "job/"
_DAY_S: Final = 86_400.0
# Characters of somebody's reason that are kept: each decision on the job repeats it.
_MOST_TEXT: Final = 256
# Starts of a job that were taken from their holders and not answered; the oldest make room.
_MOST_SEIZED: Final = 15


class JobTable:
    """Folds job events by the transition table.

    Ended jobs are remembered for a while after their end arrived, so that copies of their events
    are recognised. Folds raise RejectedError for what cannot be used, of which EarlyError is for
    what may be used later, and AlreadyAppliedError for copies and late facts.
    """

    def __init__(self, remember_days: float) -> None:
        self.by_arrival: dict[int, str] = {}
        self.holdings = Holdings()
        self._remember_s = remember_days * _DAY_S
        self._jobs: dict[str, Tracked] = {}
        self._ended: list[tuple[float, str]] = []
        self._ending: set[str] = set()
        self._unadmitted: set[str] = set()
        self.late_starts = 0
        self._next_arrival = 0
        self._touched: set[str] = set()
        self._changed: set[str] = set()

    def restore(self, state: Mapping[str, bytes], clusters: Iterable[Cluster]) -> None:
        """Track what `changes` returned in earlier lives."""
        for cluster in clusters:
            self.holdings.declare(cluster)
        for key, value in state.items():
            if key.startswith(_PREFIX):
                self._adopt(Tracked.from_bytes(value))

    def changes(self) -> dict[str, bytes | None]:
        """Jobs that changed since the last call; None for those that are forgotten."""
        changed, self._changed = self._changed, set()
        found = ((job_id, self._jobs.get(job_id)) for job_id in sorted(changed))
        return {f"{_PREFIX}{job_id}": job.to_bytes() if job else None for job_id, job in found}

    def take_touched(self) -> set[str]:
        """Ids of the jobs that something happened to since the last call; after a restart all."""
        touched, self._touched = self._touched, set()
        return touched

    def get(self, job_id: str) -> Tracked | None:
        """A job that is tracked, in its newest attempt."""
        return self._jobs.get(job_id)

    def with_void_starts(self) -> list[Tracked]:
        """Jobs of which somebody is to be told that a start must not take place, by arrival."""
        return [job for job in self.found(self._touched) if job.void]

    def found(self, job_ids: Iterable[str]) -> list[Tracked]:
        """Those of these jobs that are tracked, by arrival."""
        jobs = (self._jobs[job_id] for job_id in job_ids if job_id in self._jobs)
        return sorted(jobs, key=lambda job: job.arrival)

    def of_arrival(self, arrival: int) -> Tracked:
        """The job that has this arrival number."""
        return self._jobs[self.by_arrival[arrival]]

    @property
    def next_arrival(self) -> int:
        """The number of the next attempt that arrives."""
        return self._next_arrival

    def ended_last(self, most: int) -> list[Tracked]:
        """At most so many of the jobs that ended and are remembered, the newest."""
        found = (self._jobs.get(job_id) for _, job_id in nlargest(most, self._ended))
        return [job for job in found if job is not None and job.ended]

    def apps(self) -> set[str]:
        """Applications of the jobs that have not ended."""
        return {job.job.app_id for job in self._jobs.values() if not job.ended}

    def save(self, job: Tracked) -> None:
        """The job was changed from outside."""
        self._changed.add(job.job.job_id)

    def revisit(self, job: Tracked) -> None:
        """The same, and its situation may be another one now."""
        self._touch(job)

    def keep_for(self, job: Tracked, cluster: str) -> None:
        """A job was started on a cluster of which too little is known: it starts nowhere else."""
        self._note_run(job, cluster)

    def weigh(self, job: Tracked, candidates: tuple[Candidate, ...]) -> None:
        """Keep what a job's decisions weigh."""
        job.candidates = candidates
        self.save(job)

    def needs(self, cluster: str) -> bool:
        """Whether a job that has not ended has anything to do with a cluster."""
        return any(not job.ended and _knows(job, cluster) for job in self._jobs.values())

    def estimate(self, job: Tracked, draw_mw: int) -> None:
        """Keep what a job draws where it runs."""
        if job.placed is not None:
            placed = job.placed
            if placed.predicted_mw is None:
                placed.predicted_mw = draw_mw if placed.draw_mw is None else placed.draw_mw
            placed.draw_mw = draw_mw
            self.holdings.refresh(job)
            self.save(job)

    def count_nameplate(self, job: Tracked, silent_units: int, nameplate_mw: int) -> None:
        """What a job counts for at least since meters of so many of its units are silent."""
        placed = job.placed
        assert placed is not None
        if (placed.silent_units, placed.nameplate_mw) != (silent_units, nameplate_mw):
            placed.silent_units, placed.nameplate_mw = silent_units, nameplate_mw
            self.holdings.refresh(job)
            self.save(job)

    def correct_draw(
        self, event: Event, message: RunningPowerMeasured, clusters: Mapping[str, Cluster]
    ) -> None:
        """What meters show of a run counts from now on. Raises AlreadyAppliedError for a job that
        does not run there at that P-state any more, or is about to change."""
        job = self._jobs.get(message.job_id)
        if job is None or job.placed is None or not _still_draws(job, job.placed, message):
            raise AlreadyAppliedError(event.id)
        units = sum(job.placed.units) or len(job.placed.nodes)
        cluster = clusters[message.cluster]
        self.estimate(job, draw_mw(job.job, cluster, message.node_power_w, units))

    def submit(self, event: Event, message: JobSubmitted) -> None:
        """A job, or a new attempt of one, arrived."""
        job, awaits = job_of(message), dependencies_of(message)
        known = self._jobs.get(job.job_id)
        if known is not None and job.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        self._track(job, event.traceparent, awaits)

    def requeue(self, event: Event, message: JobRequeued) -> None:
        """The resource manager put a job back: its new attempt queues up at the end."""
        known = self._known(message.job_id)
        if message.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        self._begin_next(known, message.attempt)
        self._jobs[message.job_id].put_back = message.reason[:_MOST_TEXT]

    def ask_back(self, event: Event, message: JobRequeueAsked) -> None:
        """Somebody asked that an attempt be put back. One that runs is when its resource manager
        has ended it; one that waits goes to the end of the queue, one that is granted when that
        has declined. Raises RejectedError for one that has ended or is to end."""
        job = self._newest(event, message.job_id, message.attempt)
        asked = event.time_us, event.id
        if asked <= job.requeue_asked or job.requeue is not None:
            raise AlreadyAppliedError(event.id)
        if job.ended or job.cancelled is not None:
            state = job.state if job.ended else "to end: it was cancelled"
            raise RejectedError("attempt", f"{message.attempt} cannot be put back, it is {state}")
        job.requeue_asked = asked
        job.requeue = f"requeued by {event.source[:_MOST_TEXT]}: {message.reason[:_MOST_TEXT]}"
        self._touch(job)
        if job.waits:
            self._move_to_the_end(job)

    def _move_to_the_end(self, job: Tracked) -> None:
        """The same attempt, as if it had arrived now; what was accepted stays so."""
        self._begin_next(job, job.job.attempt)
        after = self._jobs[job.job.job_id]
        after.admitted, after.misfits = job.admitted, job.misfits

    def seize(self, event: Event, message: JobSeized) -> None:
        """An operator vouches that an attempt does not run where it was started or was to be: the
        next one queues up at the end."""
        job = self._newest(event, message.job_id, message.attempt)
        if job.placed is None and not job.runs_on:
            problem = f"{message.attempt} has no start that could be seized: it is {job.state}"
            raise RejectedError("attempt", problem)
        if message.grant not in (0, job.placed.grant if job.placed else job.grant):
            _require_given(job, message.grant)
            raise AlreadyAppliedError(event.id)
        reason = f"seized by {event.source[:_MOST_TEXT]}: {message.reason[:_MOST_TEXT]}"
        self._begin_next(job, message.attempt + 1, reason)

    def start(self, event: Event, message: JobStarted, names: Mapping[str, NodeNames]) -> None:
        """The resource manager says where an attempt runs, and since when: it is right, whatever
        was decided, unless the grant was taken from it. Of two that run an attempt the first is."""
        known = self._known(message.job_id)
        void = self._void_claim(known, message)
        if void is not None:
            _require_few_void(known)
            self._tell(known, void)
            self.late_starts += 1
            return
        job = self._newest(event, message.job_id, message.attempt)
        _require_given(job, message.grant)
        state, placed = next_state(job.state, JobFact.STARTED), job.placed
        elsewhere = placed is not None and placed.cluster != message.cluster
        if state is job.state and not (elsewhere and job.state is JobState.RUNNING):
            raise AlreadyAppliedError(event.id)
        if state is job.state:
            self._tell(job, _runs_on(placed, job.job.attempt, message.grant, message.cluster))
            return
        if message.cluster not in names:
            self._note_run(job, message.cluster)
            problem = f"{message.cluster[:80]!r} is not declared: declare it first"
            raise EarlyError("cluster", problem)
        started = _started(job, message, names[message.cluster])
        if placed is not None and elsewhere:
            self._tell(job, _runs_on(started, job.job.attempt, placed.grant, placed.cluster))
        job.state, job.announced, job.ended_s, job.asked_back = state, 0, None, ""
        job.actions, job.runs_on = (), ""
        self.holdings.hold_instead(job, started)
        self._touch(job)

    def _note_run(self, job: Tracked, cluster: str) -> None:
        """A job runs where nothing is known of nodes: it starts nowhere else."""
        if job.runs_on != cluster[:_MOST_TEXT]:
            job.runs_on = cluster[:_MOST_TEXT]
            self._touch(job)

    def decline(self, event: Event, message: JobDeclined) -> None:
        """The resource manager gives a start back: the job waits again at its old place, or ends
        if that was asked."""
        if self._is_answered(message):
            return
        job = self._newest(event, message.job_id, message.attempt)
        _require_given(job, message.grant)
        state = next_state(job.state, JobFact.DECLINED)
        if state is job.state or message.grant < job.grant:
            raise AlreadyAppliedError(event.id)
        self.holdings.release(job)
        job.missed_starts += job.missed or not job.asked_back
        job.state, job.asked_back = state, ""
        self._touch(job)
        if job.cancelled is not None:
            self._end(job, next_state(state, JobFact.CANCELLED))
        elif job.requeue is not None:
            self._move_to_the_end(job)

    def finish(self, event: Event, message: JobFinished) -> None:
        """An attempt ended, whatever we knew of its start: its nodes are free."""
        if self._is_answered(message):
            return
        job = self._newest(event, message.job_id, message.attempt)
        state = next_state(job.state, JobFact.FINISHED)
        if state is job.state or 0 < message.grant < job.grant:
            raise AlreadyAppliedError(event.id)
        job.ran = share_ran(job.placed, message)
        self.holdings.release(job)
        job.completed = message.outcome == JOB_OUTCOME_COMPLETED
        self._end(job, state)

    def cancel(self, event: Event, message: JobCancelled) -> None:
        """Somebody asked for the job's end, whatever its attempt: what waits ends at once, what
        runs by its finish, and what is granted when its resource manager has declined."""
        job = self._known(message.job_id)
        if job.cancelled is not None:
            raise AlreadyAppliedError(event.id)
        job.cancelled = message.reason[:_MOST_TEXT]
        self._touch(job)
        state = next_state(job.state, JobFact.CANCELLED)
        if state is not job.state:
            self._end(job, state)

    def hold(self, event: Event, message: JobHeld) -> None:
        """Somebody asked that the job not start; what runs is held when it is put back."""
        self._asked(event, message.job_id).held = message.reason[:_MOST_TEXT]

    def release(self, event: Event, message: JobReleased) -> None:
        """The job may start, also when it was held since its starts were declined."""
        job = self._asked(event, message.job_id)
        job.held, job.missed_starts, job.requeues, job.isolated = None, 0, 0, False

    def unadmitted(self) -> list[Tracked]:
        """Jobs of which it is to be found out whether they fit anywhere, by arrival."""
        found = [job for job in self.found(self._unadmitted) if job.waits and not job.admitted]
        self._unadmitted = {job.job.job_id for job in found}
        return [job for job in found if not job.isolated]

    def admit(self, job: Tracked) -> None:
        """The job fits on a declared cluster: from now on it is never rejected."""
        job.admitted, job.misfits = True, ()
        self._touch(job)

    def put_off(self, job: Tracked, misfits: tuple[Misfit, ...]) -> None:
        """The job fits on no declared cluster, and one may yet come."""
        if misfits != job.misfits:
            job.misfits = misfits
            self._touch(job)

    def reject(self, job: Tracked, misfits: tuple[Misfit, ...]) -> None:
        """The job fits on no declared cluster: it ends."""
        job.misfits = misfits
        self._end(job, next_state(job.state, JobFact.REJECTED))

    def suspend(self, event: Event, message: JobSuspended) -> None:
        """Somebody asked that a run be suspended; raises RejectedError where there is none."""
        job = self._known(message.job_id)
        if job.placed is None:
            raise RejectedError("job_id", f"has no run to suspend, it is {job.state}: hold it")
        by = f"{event.source[:_MOST_TEXT]}: {message.reason[:_MOST_TEXT]}"
        self._asked_to_suspend(event, job).suspend = f"suspended by {by}"

    def resume(self, event: Event, message: JobResumed) -> None:
        """A run that was suspended may go on."""
        self._asked_to_suspend(event, self._known(message.job_id)).suspend = None

    def ask(self, job: Tracked, action: Action) -> None:
        """Something is asked of the resource manager that runs a job."""
        job.actions, job.asked_actions = (*job.actions, action), action.number
        self.holdings.refresh(job)
        self.save(job)

    def action_done(self, event: Event, message: JobActionDone) -> None:
        """A resource manager did what was asked: this action speaks for those before it."""
        job = self._acted_on(event, message)
        done = next((each for each in job.actions if each.number == message.number), None)
        if done is None or job.placed is None or done.kind is ActionKind.REQUEUE:
            raise AlreadyAppliedError(event.id)  # a requeue is done when the job is back
        at_s, placed = message.done_at_us / 1e6, job.placed
        if not done.is_suspended:
            placed.run_on(at_s)
        elif placed.suspended_s is None:
            placed.suspended_s = max(at_s, placed.since_s)
        placed.change(done.freq_ghz, done.draw_mw, done.walltime_s, at_s)
        job.actions = tuple(each for each in job.actions if each.number > done.number)
        job.done_action = done.number
        self.holdings.refresh(job)
        self._touch(job)

    def action_refused(self, event: Event, message: JobActionRefused) -> None:
        """A resource manager will not do what was asked."""
        job = self._acted_on(event, message)
        refused = next((each for each in job.actions if each.number == message.number), None)
        if refused is None or job.placed is None:
            raise AlreadyAppliedError(event.id)
        job.actions = tuple(each for each in job.actions if each is not refused)
        others = (one for one in job.refusals if one.kind is not refused.kind)
        job.refusals = (*others, Refused(refused.kind, message.refused_at_us / 1e6))
        self.holdings.refresh(job)
        self._touch(job)

    def isolate(self, job: Tracked, reason: str) -> None:
        """Hold a job that the end of a round fails over."""
        job.held, job.isolated = reason[:_MOST_TEXT], True
        self._touch(job)

    def all(self) -> list[Tracked]:
        """The newest attempt of every job that is known, by arrival."""
        return self.found(self._jobs)

    def waiting(self) -> list[Tracked]:
        """Jobs that may be started, by arrival."""
        return [job for job in self.found(self._jobs) if job.waits and job.held is None]

    def place(
        self,
        job: Tracked,
        start: Start,
        now_s: float,
        mode: Candidate,
        wanted_ghz: float,
        plan_round: int | None,
    ) -> Placed:
        """Grant a job its nodes in a mode where another P-state is wanted if caps allow it;
        `plan_round` is that of the plan which chose it."""
        job.state, job.grant = next_state(job.state, JobFact.GRANTED), job.grant + 1
        job.missed = False
        limit_s = start.entry.limit_s
        nodes, units = self.allocated(start)
        draw_mw, ends_s = start.entry.draw_mw, now_s + limit_s
        on = start.cluster, nodes, limit_s, ends_s, job.grant, draw_mw, units
        placed = Placed(*on, mode.freq_ghz, plan_round, wanted_ghz, power_sd=mode.power_sd)
        self.holdings.hold(job, placed)
        self.save(job)
        return placed

    def allocated(self, start: Start) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Nodes and units, none where there is one on each; where the pass only counted nodes, the
        free ones that draw least."""
        found = start.allocation
        if found is None:
            return self.holdings.best_free(start.cluster, start.entry.nodes), ()
        return found.nodes, found.units if max(found.units) > 1 else ()

    def forget(self, now_s: float) -> None:
        """Drop jobs whose end arrived too long ago; what ended since the last call did now."""
        for ending in self.found(self._ending):
            if ending.ended:
                ending.ended_s, ending.candidates = now_s, ()
                heappush(self._ended, (now_s, ending.job.job_id))
                self.save(ending)
        self._ending.clear()
        while self._ended and self._ended[0][0] < now_s - self._remember_s:
            ended_s, job_id = heappop(self._ended)
            job = self._jobs.get(job_id)
            if job is not None and job.ended_s == ended_s:
                del self._jobs[job_id], self.by_arrival[job.arrival]
                self._touch(job)

    def _adopt(self, job: Tracked) -> None:
        job_id, placed = job.job.job_id, job.placed
        self._jobs[job_id] = job
        self.by_arrival[job.arrival] = job_id
        self._next_arrival = max(self._next_arrival, job.arrival + 1)
        if placed is not None:
            self.holdings.hold(job, placed)
        if job.ended_s is not None:
            heappush(self._ended, (job.ended_s, job_id))
        elif job.ended:
            self._ending.add(job_id)
        self._unadmitted.add(job_id)
        self._touched.add(job_id)

    def _begin_next(self, before: Tracked, attempt: int, seized: str = "") -> None:
        """Another attempt follows one that was put back or, for this reason, was seized."""
        self._track(replace(before.job, attempt=attempt), before.traceparent, before.awaits, seized)

    def _track(
        self, job: Job, traceparent: str, awaits: tuple[Dependency, ...], seized: str = ""
    ) -> None:
        """Put a new attempt in the place of the one before; what was asked of the job holds."""
        tracked = Tracked(job, self._next_arrival, traceparent, awaits=awaits)
        before = self._jobs.get(job.job_id)
        if before is not None:
            self._supersede(before, tracked, seized)
        self._jobs[job.job_id] = tracked
        self.by_arrival[tracked.arrival] = job.job_id
        self._next_arrival += 1
        self._unadmitted.add(job.job_id)
        self._touch(tracked)
        if tracked.cancelled is not None:
            self._end(tracked, next_state(tracked.state, JobFact.CANCELLED))

    def _supersede(self, before: Tracked, after: Tracked, seized: str) -> None:
        """An attempt takes over from another. What was granted of that one, or seized, is void."""
        after.held, after.asked, after.isolated = before.held, before.asked, before.isolated
        after.cancelled, after.requeue_asked = before.cancelled, before.requeue_asked
        is_failure = not seized and before.requeue is None
        after.requeues, after.suspend_asked = before.requeues + is_failure, before.suspend_asked
        after.grant, after.void, after.seized = before.grant, before.void, before.seized
        if after.job.attempt == before.job.attempt:
            after.runs_on = before.runs_on
        placed = before.placed
        if placed is not None and (seized or before.state is JobState.GRANTED):
            reason = seized or f"the job was put back as attempt {after.job.attempt}"
            void = Void(before.job.attempt, placed.grant, placed.cluster, reason)
            after.seized = (*after.seized[-_MOST_SEIZED:], void)
            self._tell(after, void)
        self.holdings.release(before)
        del self.by_arrival[before.arrival]

    def _end(self, job: Tracked, state: JobState) -> None:
        job.state, job.ended_s, job.actions, job.suspend = state, None, (), None
        self._ending.add(job.job.job_id)
        self._touch(job)

    def _tell(self, job: Tracked, void: Void) -> None:
        """Somebody is to be told once in this round that a start must not take place."""
        others = (one for one in job.void if one.start != void.start)
        job.void = (*others, void)
        self._touch(job)

    def _void_claim(self, job: Tracked, message: JobStarted) -> Void | None:
        """What a start claims that must not take place; None where it is right."""
        if message.attempt == job.job.attempt:
            return lower_grant(message, job.grant)
        claimed = (void for void in job.seized if void.is_of(message))
        return next((replace(void, cluster=message.cluster) for void in claimed), None)

    def _is_answered(self, message: JobDeclined | JobFinished) -> bool:
        """True when the message is the last word on a start that was seized."""
        job = self._known(message.job_id)
        answered = [void for void in job.seized if void.is_of(message)]
        if answered:
            job.seized = tuple(void for void in job.seized if void not in answered)
            self._touch(job)
        return bool(answered)

    def _touch(self, job: Tracked) -> None:
        self._touched.add(job.job.job_id)
        self._changed.add(job.job.job_id)

    def _known(self, job_id: str) -> Tracked:
        if job_id not in self._jobs:
            raise EarlyError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")
        return self._jobs[job_id]

    def _newest(self, event: Event, job_id: str, attempt: int) -> Tracked:
        """The job if this is its newest attempt: what happened to others is of no consequence."""
        job = self._known(job_id)
        if attempt > job.job.attempt:
            problem = f"{attempt} is not known, the newest is {job.job.attempt}: requeue first"
            raise EarlyError("attempt", problem)
        if attempt < job.job.attempt:
            raise AlreadyAppliedError(event.id)
        return job

    def _acted_on(self, event: Event, message: JobActionDone | JobActionRefused) -> Tracked:
        """The job whose run an action was on, if it is of this grant."""
        job = self._newest(event, message.job_id, message.attempt)
        _require_given(job, message.grant)
        if job.placed is None or message.grant not in (0, job.placed.grant):
            raise AlreadyAppliedError(event.id)
        if message.number > job.asked_actions:
            problem = f"{message.number} was never asked, the newest is {job.asked_actions}"
            raise RejectedError("number", problem)
        return job

    def _asked_to_suspend(self, event: Event, job: Tracked) -> Tracked:
        """The job, unless something newer was asked of its run."""
        asked = event.time_us, event.id
        if asked <= job.suspend_asked:
            raise AlreadyAppliedError(event.id)
        job.suspend_asked = asked
        self._touch(job)
        return job

    def _asked(self, event: Event, job_id: str) -> Tracked:
        """The job of which something is asked, unless something newer was. Of one that has ended
        it is asked for its next attempt."""
        job, asked = self._known(job_id), (event.time_us, event.id)
        if asked <= job.asked:
            raise AlreadyAppliedError(event.id)
        job.asked = asked
        self._touch(job)
        return job


def _knows(job: Tracked, cluster: str) -> bool:
    """Whether a job runs on a cluster, was weighed for it, or has its walltime relate to it."""
    if cluster == job.job.reference_cluster or (job.placed and job.placed.cluster == cluster):
        return True
    return any(candidate.cluster == cluster for candidate in job.candidates)


def _require_few_void(job: Tracked) -> None:
    """Those who are to be told are kept with the job until the round ends."""
    if len(job.void) > _MOST_SEIZED:
        problem = f"was told of {len(job.void)} void starts in this round: tell the rest again"
        raise RejectedError("job_id", problem)


def _require_given(job: Tracked, grant: int) -> None:
    if grant > job.grant:
        problem = f"{grant} was never given, the newest of the job is {job.grant}"
        raise RejectedError("grant", problem)


def _runs_on(placed: Placed | None, attempt: int, grant: int, cluster: str) -> Void:
    """The start on this cluster is void, since the job runs where it was placed."""
    where = placed.cluster if placed else "another cluster"
    reason = f"the job runs on {where}, as the resource manager there says"
    return Void(attempt, grant, cluster, reason)


def _started(job: Tracked, message: JobStarted, names: NodeNames) -> Placed:
    """Where a start says that the job runs; as decided when it names no nodes."""
    placed, since_s = job.placed, message.started_at_us / 1e6
    limit_s = placed.limit_s if placed else job.job.walltime_s
    here = placed if placed and placed.cluster == message.cluster else None
    if not message.nodes and here is None:
        raise RejectedError("nodes", "must be named: placement did not choose them")
    nodes, units = _told_nodes(message, names)
    if here is not None and nodes in ((), here.nodes) and units in ((), here.units):
        return replace(here, ends_s=since_s + limit_s)
    grant = message.grant or (here.grant if here else 0)
    count = sum(units) or len(nodes)
    on = (c for c in job.candidates if (c.cluster, c.nodes) == (message.cluster, count))
    draw_mw = next((candidate.draw_mw for candidate in on), None)
    return Placed(message.cluster, nodes, limit_s, since_s + limit_s, grant, draw_mw, units)


def _told_nodes(message: JobStarted, names: NodeNames) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The nodes that a start names, ascending, and the units on each, none where there is one."""
    units = tuple(message.node_units)
    if not units:
        return names.indices(message.nodes), ()
    nodes = names.in_order(message.nodes)
    if len(units) != len(nodes):
        raise RejectedError("node_units", f"must be {len(nodes)} as the nodes, got {len(units)}")
    pairs = sorted(zip(nodes, units, strict=True))
    counts = tuple(count for _, count in pairs)
    return tuple(node for node, _ in pairs), counts if max(counts) > 1 else ()


def mended(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """The jobs that a wrong clock placed, ended or told of in the future, as of now."""
    changes: dict[str, bytes | None] = {}
    for key, value in restored.items():
        if key.startswith(_PREFIX):
            job = Tracked.from_bytes(value)
            if _bring_back(job, now_us / 1e6):
                changes[key] = job.to_bytes()
    return changes


def _bring_back(job: Tracked, now_s: float) -> bool:
    """Whether anything of the job lay in the future."""
    before = (job.placed, job.ended_s, job.settles_s, job.actions, job.refusals)
    if job.placed is not None and job.placed.since_s > now_s:
        job.placed = replace(job.placed, ends_s=now_s + job.placed.limit_s)
    if job.placed is not None and (job.placed.suspended_s or 0.0) > now_s:
        job.placed = replace(job.placed, suspended_s=now_s)
    job.actions = tuple(replace(a, asked_s=min(a.asked_s, now_s)) for a in job.actions)
    job.refusals = tuple(Refused(kind, min(since_s, now_s)) for kind, since_s in job.refusals)
    job.ended_s = None if job.ended_s is None else min(job.ended_s, now_s)
    job.settles_s = min(job.settles_s, now_s)
    return before != (job.placed, job.ended_s, job.settles_s, job.actions, job.refusals)


def _still_draws(job: Tracked, placed: Placed, message: RunningPowerMeasured) -> bool:
    """Whether an attempt runs as it did when it was measured; where a resource manager started it
    by itself, nobody knows its P-state."""
    if job.state is not JobState.RUNNING or job.actions or placed.suspended_s is not None:
        return False
    at_pstate = placed.freq_ghz in (0.0, message.freq_ghz)
    return at_pstate and (job.job.attempt, placed.cluster) == (message.attempt, message.cluster)
