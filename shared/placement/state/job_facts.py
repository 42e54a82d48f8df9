"""Facts on jobs: submissions, and what resource managers say of their runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobActionDone,
    JobActionRefused,
    JobDeclined,
    JobFinished,
    JobLimitChanged,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.prediction_pb2 import RunningPowerMeasured

from coplace_client.bounds import WALLTIME_S
from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.cluster import Cluster
from shared.domain.job import Job, JobFact, JobState, next_state
from shared.domain.node import NodeNames
from shared.placement.state.actions import ActionKind, Refused
from shared.placement.state.candidate import draw_mw
from shared.placement.state.declines import with_declined
from shared.placement.state.ended_run import ended_run
from shared.placement.state.grants import (
    MOST_SEIZED,
    VoidStart,
    WithdrawalKind,
    WithdrawalReason,
    declined_grant,
    lower_grant,
    require_given,
    require_holder,
)
from shared.placement.state.holds import Holder, HoldWord, together
from shared.placement.state.job_allocation import JobAllocation, share_ran
from shared.placement.state.job_partitions import started_in
from shared.placement.state.job_record import MOST_TEXT, JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.stamps import stamp_of
from shared.scheduling.eligibility import NOTHING_REFUSED
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError

_LEFT: Final = "it left the queue of its resource manager"
_OfRun = JobActionDone | JobActionRefused | JobLimitChanged


class JobFacts:
    """Folds facts on jobs into their table, by the transition table.

    Folds raise RejectedError for what cannot be used, of which EarlyError is for what may be used
    later, and AlreadyAppliedError for copies and late facts.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table

    def submit(self, event: Event, message: JobSubmitted) -> None:
        """Add a job, a new attempt of one, or what one that waits asks for instead: a submission
        ends no run, and whose the job is says the first one."""
        job, awaits = job_of(message), dependencies_of(message)
        known = self._table.get(job.job_id)
        if known is None and (job.attempt > 1 or job.changed_at_us):
            known = self._table.named(job.job_id)
        if known is None:
            self._table.require_free_ids(job)
            tracked = self._table.track(job, event.traceparent, awaits)
        elif _is_changed(job, known):
            tracked = self._table.change(known, _changed(known, job), awaits)
        elif job.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        else:
            tracked = self._table.track(_in_place_of(known, job), event.traceparent, awaits)
        if message.held_because:
            holder = Holder(message.held_by or Holder.MANAGER)
            word = HoldWord(holder, stamp_of(event), message.held_because[:MOST_TEXT])
            tracked.requests.holds = together(tracked.requests.holds, [word])

    def requeue(self, event: Event, message: JobRequeued) -> None:
        """Queue the next attempt of a job at the end, since its resource manager requeued it."""
        known = self._table.known_alone(message.job_id)
        if message.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        if known.run.held_on:
            on = known.run.allocation
            require_holder(message, known.run.held_on, on.grant if on else 0)
        job = self._table.begin_next(known, message.attempt)
        job.life.requeued_because = message.reason[:MOST_TEXT]

    def start(
        self,
        event: Event,
        message: JobStarted,
        names: Mapping[str, NodeNames],
        clusters: Mapping[str, Cluster],
    ) -> None:
        """Record where an attempt runs and since when, as its resource manager says.

        That is right, whatever was decided, if it has the live grant. A run without a grant is
        right too, but where the job is held by another cluster: it replaces nothing.
        """
        known = self._table.known_alone(message.job_id)
        void = self._void_claim(known, message)
        if void is not None:
            _require_few_void(known)
            self._table.tell(known, void)
            self._table.late_starts += 1
            return
        job = self._table.newest(event, message.job_id, message.attempt)
        require_given(message.grant, job.grants.newest)
        state = next_state(job.life.state, JobFact.STARTED)
        if job.run.held_on not in ("", message.cluster):
            self._table.tell(job, _held_on(job, message))
            self._table.late_starts += 1
            return
        if state is job.life.state:
            raise AlreadyAppliedError(event.id)
        if message.cluster not in names:
            self._table.keep_for(job, message.cluster)
            problem = f"{message.cluster[:80]!r} is not declared: declare it first"
            raise EarlyError("cluster", problem)
        started = _started(job, message, names[message.cluster], clusters[message.cluster])
        job.life.state, job.life.ended_s = state, None
        job.life.started_s = message.started_at_us / 1e6
        self._table.note_started(job)
        job.notice.verdict, job.grants.withdrawn = 0, None
        job.run.actions, job.run.runs_on = (), ""
        self._table.allocations.hold_instead(job, started)
        self._table.revisit(job)

    def decline(self, event: Event, message: JobDeclined, names: Mapping[str, NodeNames]) -> None:
        """Release the nodes of a start that its resource manager declined: the job waits again at
        its old place, or ends if that was asked. What was refused is not granted again."""
        if self._is_answered(message):
            return
        job = self._table.newest(event, message.job_id, message.attempt)
        require_given(message.grant, job.grants.newest)
        state = next_state(job.life.state, JobFact.DECLINED)
        if state is job.life.state or message.grant < job.grants.newest:
            raise AlreadyAppliedError(event.id)
        if (on := job.run.allocation) is not None and on.cluster in names:
            granted = on.cluster, on.nodes, names[on.cluster]
            self._table.refuse(job, with_declined(job.declined, message, *granted))
            self._table.count_decline(job, on.cluster, message)
        self._table.allocations.release(job)
        job.grants.missed_starts += job.grants.missed or not job.grants.withdrawn
        job.life.state, job.grants.withdrawn = state, None
        job.grants.declined = message.grant
        self._table.revisit(job)
        array = self._table.get(job.job.array_id)
        if array is not None and job.requests.cancelled is None:
            job.requests.cancelled = array.requests.cancelled
        if job.requests.cancelled is not None:
            self._table.end(job, next_state(state, JobFact.CANCELLED))
        elif job.requests.requeue is not None:
            self._table.move_to_the_end(job)
        else:
            self._table.change_as_array(job)

    def finish(self, event: Event, message: JobFinished, names: Mapping[str, NodeNames]) -> None:
        """End an attempt, as its holder says, whatever is known of its start: its nodes are
        free. An array that its resource manager says never started is cancelled."""
        array = self._table.get(message.job_id)
        if array is not None and array.progress is not None and not message.started_at_us:
            self._end_array(event, array)
            return
        if self._is_answered(message):
            return
        job = self._table.newest(event, message.job_id, message.attempt)
        state = next_state(job.life.state, JobFact.FINISHED)
        if state is job.life.state or 0 < message.grant < job.grants.newest:
            raise AlreadyAppliedError(event.id)
        on = job.run.allocation
        if not message.started_at_us and job.run.held_on not in ("", message.cluster):
            self._leave_queue(event, job)
            return
        if job.run.held_on:
            require_holder(message, job.run.held_on, on.grant if on else 0)
        elif 0 < message.grant == job.grants.declined:
            raise RejectedError("grant", f"{message.grant} was declined: it gives no right")
        job.life.ran = share_ran(on, message)
        job.life.started_s, job.life.stopped_s = (
            message.started_at_us / 1e6,
            message.ended_at_us / 1e6,
        )
        self._table.note_end(job, ended_run(message, on, names))
        self._table.allocations.release(job)
        job.life.completed = message.outcome == JOB_OUTCOME_COMPLETED
        self._table.end(job, state)

    def _end_array(self, event: Event, array: JobRecord) -> None:
        """Let no task of an array start: its resource manager has none that waits any more."""
        if array.requests.cancelled is not None:
            raise AlreadyAppliedError(event.id)
        array.requests.cancelled = _LEFT
        for task in self._table.tasks_of(array.job.job_id):
            if task.waits and task.requests.cancelled is None:
                task.requests.cancelled = _LEFT
                self._table.end(task, next_state(task.life.state, JobFact.CANCELLED))
        self._table.drop_left(array)

    def _leave_queue(self, event: Event, job: JobRecord) -> None:
        """Cancel a job that left the queue of its resource manager while another cluster holds it:
        who does not hold a run can ask that it end, no more."""
        if job.requests.cancelled is not None:
            raise AlreadyAppliedError(event.id)
        job.requests.cancelled = _LEFT
        self._table.revisit(job)

    def correct_draw(
        self, event: Event, message: RunningPowerMeasured, clusters: Mapping[str, Cluster]
    ) -> None:
        """Replace the draw of a run by what meters show of it. Raises AlreadyAppliedError for a job
        that does not run there at that P-state any more, or is about to change."""
        job = self._table.get(message.job_id)
        if (
            job is None
            or job.run.allocation is None
            or not _still_draws(job, job.run.allocation, message)
        ):
            raise AlreadyAppliedError(event.id)
        units = sum(job.run.allocation.units) or len(job.run.allocation.nodes)
        cluster = clusters[message.cluster]
        self._table.estimate(job, draw_mw(job.job, cluster, message.node_power_w, units))

    def action_done(self, event: Event, message: JobActionDone) -> None:
        """Record an action that a resource manager did: this answers those before it too."""
        job, placed = self._acted_on(event, message)
        done = next((each for each in job.run.actions if each.number == message.number), None)
        if done is None or done.kind is ActionKind.REQUEUE:
            raise AlreadyAppliedError(event.id)  # a requeue is done when the job is back
        at_s = message.done_at_us / 1e6
        if not done.is_suspended:
            placed.run_on(at_s)
        elif placed.suspended_s is None:
            placed.suspended_s = max(at_s, placed.since_s)
        before_mw = placed.draw_mw
        placed.change(done.freq_ghz, done.draw_mw, done.walltime_s, at_s)
        if placed.power_unknown:  # by what its nodes draw at most by now
            placed.draw_mw = placed.predicted_mw = before_mw
        job.run.actions = tuple(each for each in job.run.actions if each.number > done.number)
        job.run.done_action = done.number
        self._table.allocations.refresh(job)
        self._table.revisit(job)

    def action_refused(self, event: Event, message: JobActionRefused) -> None:
        """Record an action that a resource manager refused."""
        job, _ = self._acted_on(event, message)
        refused = next((each for each in job.run.actions if each.number == message.number), None)
        if refused is None:
            raise AlreadyAppliedError(event.id)
        job.run.actions = tuple(each for each in job.run.actions if each is not refused)
        others = (one for one in job.run.refusals if one.kind is not refused.kind)
        job.run.refusals = (*others, Refused(refused.kind, message.refused_at_us / 1e6))
        self._table.allocations.refresh(job)
        self._table.revisit(job)

    def change_limit(self, event: Event, message: JobLimitChanged) -> None:
        """Record that the limit of a run ends at another time. Raises EarlyError before its start,
        RejectedError for no limit that a job can have."""
        job, placed = self._run_of(event, message)
        if job.life.state is not JobState.RUNNING:
            raise EarlyError(
                "attempt", f"{message.attempt} has not started: report its start first"
            )
        ends_s = message.ends_by_us / 1e6
        limit_s = ends_s - placed.since_s
        if not 0 < limit_s <= WALLTIME_S.most:
            problem = f"must be 1 us to {WALLTIME_S.most:g} s behind the start, is {limit_s:g} s"
            raise RejectedError("ends_by_us", problem)
        if message.ends_by_us == round(placed.ends_s * 1e6):
            raise AlreadyAppliedError(event.id)
        placed.prolong(ends_s - placed.ends_s)
        self._table.allocations.refresh(job)
        self._table.revisit(job)

    def _run_of(self, event: Event, message: _OfRun) -> tuple[JobRecord, JobAllocation]:
        """Return the job that a fact on a run is of, if that is of this grant."""
        job = self._table.newest(event, message.job_id, message.attempt)
        require_given(message.grant, job.grants.newest)
        placed = job.run.allocation
        if placed is None or message.grant not in (0, placed.grant):
            raise AlreadyAppliedError(event.id)
        return job, placed

    def _acted_on(
        self, event: Event, message: JobActionDone | JobActionRefused
    ) -> tuple[JobRecord, JobAllocation]:
        """Return the job whose run an action was on, if it is of this grant."""
        job, placed = self._run_of(event, message)
        if message.number > job.run.asked_actions:
            problem = f"{message.number} was never asked, the newest is {job.run.asked_actions}"
            raise RejectedError("number", problem)
        return job, placed

    def _void_claim(self, job: JobRecord, message: JobStarted) -> VoidStart | None:
        """Return what a start claims that must not take place; None where it is right."""
        if message.attempt == job.job.attempt:
            if 0 < message.grant == job.grants.declined:
                return declined_grant(message)
            return lower_grant(message, job.grants.newest)
        claimed = (void for void in job.grants.seized if void.is_of(message))
        return next((replace(void, cluster=message.cluster) for void in claimed), None)

    def _is_answered(self, message: JobDeclined | JobFinished) -> bool:
        """Return whether the message is the last on a start that was seized."""
        job = self._table.known_alone(message.job_id)
        answered = [void for void in job.grants.seized if void.is_of(message)]
        if answered:
            job.grants.seized = tuple(void for void in job.grants.seized if void not in answered)
            self._table.revisit(job)
        return bool(answered)


def _changed(known: JobRecord, job: Job) -> Job:
    """Return what an attempt that waits asks for now. An array keeps its tasks. Raises as
    `_in_place_of`."""
    if known.progress is None:
        return _in_place_of(known, job)
    _require_same_user(known, job)
    if not job.array:
        raise RejectedError("array", f"is missing: it has the tasks {known.job.array[:80]}")
    return replace(job, array=known.job.array)


def _require_same_user(known: JobRecord, job: Job) -> None:
    if job.user != known.job.user:
        problem = f"{job.user[:80]!r} did not submit the job, {known.job.user!r} did"
        raise RejectedError("user", problem)


def _in_place_of(known: JobRecord, job: Job) -> Job:
    """Return a job as it takes the place of what is known. Raises RejectedError for one of somebody
    else and for arrays, EarlyError while that is held."""
    _require_same_user(known, job)
    if known.run.held_on:
        problem = f"{known.job.attempt} is held by {known.run.held_on!r}: requeue it first"
        raise EarlyError("attempt", problem)
    if known.progress is not None or job.array:
        raise RejectedError("array", "is of one submission: its tasks have attempts")
    return replace(
        job,
        array_at_most=known.job.array_at_most,
        array_id=known.job.array_id,
        array_index=known.job.array_index,
        array_ordinal=known.job.array_ordinal,
    )


def _is_changed(job: Job, known: JobRecord) -> bool:
    """Return whether a submission says what an attempt asks for instead, which may yet wait."""
    may_wait = known.life.state in (JobState.SUBMITTED, JobState.GRANTED, JobState.SPLIT)
    is_newer = job.changed_at_us > known.job.changed_at_us
    return job.attempt == known.job.attempt and is_newer and may_wait


def _require_few_void(job: JobRecord) -> None:
    """Raise RejectedError for too many void starts: a job keeps them until the round ends."""
    if len(job.grants.void) > MOST_SEIZED:
        problem = f"has {len(job.grants.void)} void starts in this round: report the rest again"
        raise RejectedError("job_id", problem)


def _held_on(job: JobRecord, message: JobStarted) -> VoidStart:
    """Return the void start that a message claims: another cluster holds the attempt, which runs
    there or may start at any moment."""
    runs = job.life.state is not JobState.GRANTED
    kind = WithdrawalKind.RUNS_ELSEWHERE if runs else WithdrawalKind.GRANTED_ELSEWHERE
    reason = WithdrawalReason(kind, job.run.held_on)
    return VoidStart(job.job.attempt, message.grant, message.cluster, reason)


def _started(job: JobRecord, message: JobStarted, names: NodeNames, on: Cluster) -> JobAllocation:
    """Return where a start says that the job runs; as decided when it names no nodes."""
    placed, since_s = job.run.allocation, message.started_at_us / 1e6
    limit_s = placed.limit_s if placed else job.job.walltime_s
    here = placed if placed and placed.cluster == message.cluster else None
    if not message.nodes and here is None:
        raise RejectedError("nodes", "must be named: placement did not choose them")
    nodes, units = _told_nodes(message, names)
    if here is not None and nodes in ((), here.nodes) and units in ((), here.units):
        runs = here.copy()
        runs.ends_s, runs.boot_s = since_s + limit_s, 0.0
        return runs
    grant = message.grant or (here.grant if here else 0)
    count = sum(units) or len(nodes)
    like = (c for c in job.evaluated.candidates if (c.cluster, c.nodes) == (on.name, count))
    # What nobody knows is estimated anew: its nodes may draw more by now than when it came.
    draw_mw = next((each.draw_mw for each in like if not each.power_unknown), None)
    started = JobAllocation(on.name, nodes, limit_s, since_s + limit_s, grant, draw_mw, units)
    started.partitions = started_in(job.job, on, nodes, NOTHING_REFUSED, is_alone=True)
    return started


def _told_nodes(message: JobStarted, names: NodeNames) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the nodes that a start names, ascending, and the units on each, none where there is
    one."""
    units = tuple(message.node_units)
    if not units:
        return names.indices(message.nodes), ()
    nodes = names.in_order(message.nodes)
    if len(units) != len(nodes):
        raise RejectedError("node_units", f"must be {len(nodes)} as the nodes, got {len(units)}")
    pairs = sorted(zip(nodes, units, strict=True))
    counts = tuple(count for _, count in pairs)
    return tuple(node for node, _ in pairs), counts if max(counts) > 1 else ()


def _still_draws(job: JobRecord, placed: JobAllocation, message: RunningPowerMeasured) -> bool:
    """Return whether an attempt runs as it did when it was measured; where a resource manager
    started it by itself, nobody knows its P-state."""
    if job.life.state is not JobState.RUNNING or job.run.actions or placed.suspended_s is not None:
        return False
    at_pstate = placed.freq_ghz in (0.0, message.freq_ghz)
    return at_pstate and (job.job.attempt, placed.cluster) == (message.attempt, message.cluster)
