"""Which jobs wait for what, and which of them start."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LicencesDeclared,
    LimitsDeclared,
    NodePowerDeclared,
    PolicyDeclared,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.jobs_pb2 import JobDeclined, JobFinished
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.placement.budgets.layer import BudgetLayer
from shared.placement.decide.choices import Choice
from shared.placement.decide.dependencies import Dependencies
from shared.placement.decide.interactive_jobs import InteractiveJobs
from shared.placement.decide.looks import Looks
from shared.placement.decide.manager_order import ManagerOrder
from shared.placement.decide.outcomes import CoRunners, Started
from shared.placement.decide.passing import Passing, predicted_s
from shared.placement.decide.pending_reasons import PendingReasons
from shared.placement.decide.planning import Planning
from shared.placement.decide.published_decisions import PublishedDecisions
from shared.placement.decide.schedulers import Arriving, schedulers_of
from shared.placement.decide.start_times import StartTimes
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.decide.withdrawals import Withdrawals
from shared.placement.evaluate.layer import EvaluateLayer
from shared.placement.evaluate.modes import modes_of
from shared.placement.state.array_progress import ArrayProgress
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_partitions import offered_in, started_in
from shared.placement.state.job_record import JobRecord
from shared.placement.state.layer import Folds, StateLayer
from shared.placement.state.limits import Subject, SubjectKind
from shared.placement.state.plans import jobs_of, wanted_ghz
from shared.placement.state.user_runs import ran_s
from shared.scheduling.backfill import ClusterScheduler, Dispatch, Start, schedule
from shared.scheduling.eligibility import is_restricted
from shared.streams.stages.stage import Round
from shared.streams.state.state import State


@dataclass(frozen=True, slots=True)
class Starting:
    """A job that starts next, by a choice of its own, in which mode of it, and in which partitions,
    one for each part of a gang."""

    job: JobRecord
    start: Start
    choice: Choice
    mode: Candidate
    partitions: tuple[str, ...]
    # For how long it is predicted to run, where it passed by that.
    predicted_s: float | None


class DecideLayer:
    """The queue, what keeps jobs out of it, and passes over it."""

    def __init__(
        self,
        kept: State,
        state: StateLayer,
        evaluation: EvaluateLayer,
        budgets: BudgetLayer,
    ) -> None:
        self._state, self._evaluation, self._budgets = state, evaluation, budgets
        self._jobs, models = state.jobs, state.models
        self.times = StartTimes()
        self.dependencies = Dependencies(self._jobs.get, self.times)
        self.pending_reasons = PendingReasons(
            *(models, state.managers, self._jobs.allocations, self.dependencies),
            *(budgets.unrated, self.times, state.reservations, state.licences),
        )
        self.manager_order = ManagerOrder(models.rules, self._jobs.take_reordered)
        self.waiting_jobs = WaitingJobs(
            self.pending_reasons, models.rules, state.plans, self.manager_order
        )
        self.withdrawals = Withdrawals(self._jobs, models)
        self.passing = Passing(kept, models.rules, self._jobs)
        self.published = PublishedDecisions(kept, self._jobs, models, self.passing)
        self.interactive_jobs = InteractiveJobs(kept, self._jobs, self.waiting_jobs)
        self.planning = Planning(
            self._jobs, self.waiting_jobs, models, evaluation.clusters, budgets.margin
        )
        self.looks = Looks(kept, models.rules)
        self._all_stale, self._has_sent_back = False, False
        # Arrays whose tasks started since their entries were made, and whether a pass may have left
        # out what the next one starts.
        self._split, self._has_skipped = set[str](), False
        # Jobs whose time came, and singletons that may wait for another job since one started.
        self._due, self._behind = set[str](), set[str]()
        self.folds: Folds = {
            JobDeclined: self._count_no_more,
            JobFinished: self._count_what_ran,
            # A cluster that is declared may have units of other resources than before.
            ClusterDeclared: self._refresh_all,
            ClusterUndeclared: self._refresh_all,
            ClusterLost: self._refresh_all,
            ClusterReturned: self._refresh_all,
            LimitsDeclared: self._refresh_all,
            AccountStanding: self._refresh_all,
            PolicyDeclared: self._refresh_all,
            LicencesDeclared: self._refresh_all,
            ReservationDeclared: self._refresh_all,
            ReservationRemoved: self._refresh_all,
            NodePowerDeclared: self._refresh_all,
        }

    def begin_round(self, now_s: float) -> None:
        """Give job kinds new numbers where there are many more numbers than jobs, and see which
        clusters caps hold closed to some."""
        self._all_stale |= self.waiting_jobs.forget_kinds()
        self._all_stale |= self._budgets.unrated.begin_round(now_s)
        self._all_stale |= self._state.managers.begin_round(now_s)
        self._all_stale |= self._state.reservations.has_forgotten
        self._due |= self.times.begin_round(now_s)

    def refresh_all(self) -> None:
        """Let the next refresh bring all entries up to date."""
        self._all_stale = True

    def settle(self) -> list[JobRecord]:
        """Return the jobs whose situation may have changed, by arrival; what they waited for and
        what came true is dropped."""
        ids = self._jobs.take_touched()
        ids |= self.dependencies.dependents(ids) | self.dependencies.note(ids) | self._due
        self._due.clear()
        return self._settled(ids)

    def follow_plan(self, ended: Round) -> list[JobRecord]:
        """Put the plan in force that came in this round, and let time pass for it; returns the jobs
        whose entries may change."""
        plans = self._state.plans
        affected = plans.pass_time(ended.now_s)
        proposed = plans.take_proposed(ended)
        if proposed is not None:
            jobs = self._jobs.found(jobs_of(proposed))
            clusters, policy = self._evaluation.clusters(), self._state.models.rules.now
            modes = modes_of(jobs, clusters, policy, wanted=wanted_ghz(proposed))
            affected |= plans.follow(proposed, {job.job.job_id: job for job in jobs}, modes)
        return self._jobs.found(affected)

    def refresh(self, jobs: Iterable[JobRecord]) -> None:
        """Bring the entries of these jobs up to date, and then those of all that limits, usage and
        clusters concern."""
        self.waiting_jobs.refresh(jobs)
        self._refresh_stale()

    def schedulers(
        self, now_s: float, *, apart: Arriving | None = None
    ) -> dict[str, ClusterScheduler]:
        """Return every cluster with what runs and waits: see schedulers_of."""
        occupancy, neighbours = self._jobs.allocations.occupancy, self._evaluation.neighbours()
        budgets = self._budgets.of_a_pass(now_s)
        rules = self.waiting_jobs, neighbours, budgets, self.looks, self.passing
        windows = {name: self._state.reservations.windows(name) for name in occupancy}
        needed = self.waiting_jobs.licences
        if apart is not None:
            needed = needed | apart.licences
        licences = self._budgets.licences_of_a_pass(needed)
        return schedulers_of(occupancy, *rules, windows, licences, apart=apart)

    def pass_over_queue(self, now_s: float) -> Dispatch:
        """Schedule what waits, once."""
        return schedule(now_s, self.schedulers(now_s))

    def starting(self, plan: Dispatch) -> Iterator[Starting]:
        """Yield what a pass starts, up to the first start that would be beyond a limit or a margin:
        each is to be taken before the next is asked for."""
        self._has_sent_back, self._has_skipped = False, False
        for start in plan.starts:
            self._note_array(start)
        for number, start in enumerate(plan.starts):
            job = self._jobs.of_arrival(start.entry.arrival)
            choice = self.waiting_jobs.choice(job, start.cluster)
            mode = choice.candidate.drawing(start.entry.draw_mw)
            margin = self._budgets.margin
            self._has_sent_back = not margin.allows_start(job, start, mode, plan.now_s)
            partitions = self._partitions(job, start)
            # What starts first was compared with partitions as the pass began.
            is_in_none = number > 0 and self._is_in_none(job, start.cluster, partitions)
            if self._has_sent_back or is_in_none or self._is_kept_out(job, choice.candidate):
                rest = [self._jobs.of_arrival(s.entry.arrival) for s in plan.starts[number:]]
                self.waiting_jobs.restore(rest)
                self._has_skipped = True
                return
            if job.progress is not None:
                job = self._task(job, job.progress, start)
            yield Starting(job, start, choice, mode, partitions, predicted_s(plan, start))

    def _partitions(self, job: JobRecord, start: Start) -> tuple[str, ...]:
        """Return in which partitions of its cluster a job starts, those without its name for what
        is beyond a limit."""
        on = self._state.models.clusters[start.cluster]
        if not is_restricted(job.job, on):
            return ()
        nodes, _ = self._jobs.allocated(start)
        is_alone = self._jobs.allocations.occupancy[on.name].idle(nodes) == len(nodes)
        closed = self.pending_reasons.closed_on(job, on.name, start.entry.nodes)
        return started_in(job.job, on, nodes, closed, is_alone=is_alone)

    def _note_array(self, start: Start) -> None:
        """Note that a task of an array starts, whose next one is in the queues now."""
        array = self._jobs.of_arrival(start.entry.arrival)
        if array.progress is not None:
            self.waiting_jobs.note_started(array, start.entry)
            self._split.add(array.job.job_id)
            later = start.entry.later
            self._has_skipped |= later is None or later.arrival > start.entry.arrival + 1

    def _task(self, array: JobRecord, progress: ArrayProgress, start: Start) -> JobRecord:
        """Return the task of an array that starts, as a job of its own."""
        task = self._jobs.split(array, start.entry.arrival - progress.first_arrival)
        self.waiting_jobs.split(array, task)
        return task

    def take(self, starting: Starting, now_s: float) -> Started:
        """Grant a job its nodes, and take it out of the queue."""
        job, start, choice = starting.job, starting.start, starting.choice
        plan_round = self._state.plans.in_force.round if choice.is_planned else None
        own_ghz = choice.candidate.freq_ghz
        placed = self._jobs.place(
            job, start, now_s, starting.mode, own_ghz, plan_round, starting.partitions
        )
        self._jobs.count_nameplate(job, *self._budgets.meters.counted(job, placed))
        self._state.guarantees.make(job, self._evaluation.neighbours()[placed.cluster])
        self.waiting_jobs.leave(job.job.job_id)
        self.dependencies.settle(job)
        self._behind |= self.dependencies.note([job.job.job_id])
        if starting.predicted_s is not None:
            self.passing.take(placed, job.arrival, now_s, starting.predicted_s)
        co_runners = self._co_runners(job, placed.cluster)
        booting = self._jobs.allocations.power(placed.cluster).boots(placed.nodes)
        return Started(job, placed, start, co_runners, starting.predicted_s, booting)

    def needs_another_pass(self, plan: Dispatch) -> bool:
        """Return whether entries were lost to a limit, a job was sent back, or watts were given
        back that were reserved for what started.

        A start can bring its user to a limit. A pass counts up to the first start that would be
        beyond it; then the jobs at the limit leave the queue, with what was reserved for them.
        """
        has_more = self._has_sent_back or self._has_skipped
        return self._refresh_stale() or plan.is_relieved or has_more

    def end_passes(self, plan: Dispatch) -> None:
        """Note what the last pass of a round leaves to the next."""
        self.looks.note(plan)
        self.passing.note(plan)

    def due_s(self) -> Iterator[float]:
        """Return when the next start has to be confirmed, backfill looks again, and time changes
        what a job may do."""
        yield from self.withdrawals.due_s()
        yield from self.looks.due_s()
        yield from self.times.due_s()

    def _settled(self, job_ids: set[str]) -> list[JobRecord]:
        """Settle what these jobs wait for; return them and those that are in a circle now, or in
        none any more, by arrival."""
        for job in self._jobs.found(job_ids):
            if self.dependencies.settle(job):
                self._jobs.save(job)
                if job.progress is not None:
                    self._jobs.save_progress(job)
        return self._jobs.found(job_ids | self.dependencies.find_stuck())

    def _refresh_stale(self) -> bool:
        """Bring entries up to date with limits, usage and clusters; True when some were lost."""
        changed = self._jobs.allocations.take_changed()
        limits = self._state.models.limits
        limited = {subject for subject in changed if subject.declared in limits}
        behind, self._behind = self._settled(self._behind), set()
        has_lost = self.waiting_jobs.refresh(self._arrays_changed(changed))
        if self._all_stale:
            self._all_stale = False
            return self.waiting_jobs.refresh_all()
        jobs: Sequence[JobRecord] = self.waiting_jobs.limited_by(limited) if limited else []
        return self.waiting_jobs.refresh([*jobs, *behind]) or has_lost

    def _arrays_changed(self, changed: Iterable[Subject]) -> list[JobRecord]:
        """Return the arrays of which tasks started or others have nodes now than before, with their
        tasks that wait, by arrival."""
        arrays, self._split = self._split, set()
        arrays |= {each.name for each in changed if each.kind is SubjectKind.ARRAY}
        tasks = (self._jobs.tasks_of(array_id) for array_id in arrays)
        waiting = [task for task in chain.from_iterable(tasks) if task.waits]
        return [*self._jobs.found(arrays), *waiting]

    def _is_kept_out(self, job: JobRecord, candidate: Candidate) -> bool:
        """Return whether something keeps the job, or its entry for this cluster, since the pass
        began."""
        reasons = self.pending_reasons
        return bool(reasons.of_job(job) or reasons.of_entry(job, candidate))

    def _is_in_none(self, job: JobRecord, cluster: str, partitions: Sequence[str]) -> bool:
        """Return whether a part of a job has nodes of no partition that it asks for and that is at
        no limit since what started before it."""
        if not self._state.models.limited_partitions:
            return False
        on = self._state.models.clusters[cluster]
        offered = zip(partitions, offered_in(job.job, on), strict=True) if partitions else ()
        return any(names and not name for name, (names, _) in offered)

    def _co_runners(self, job: JobRecord, cluster: str) -> CoRunners:
        """Return the jobs that have part of the nodes of a job that was just placed."""
        others = self._jobs.allocations.others(job)
        if not others:
            return CoRunners()
        rule = self._evaluation.neighbours()[cluster]
        slowdown = self._jobs.allocations.slowdown(job, rule)
        return CoRunners(tuple(other.job.job_id for other in others), slowdown)

    def _count_no_more(self, _event: Event, message: JobDeclined) -> None:
        """Count a job that did not start no more among those that passed."""
        job = self._jobs.get(message.job_id)
        if job is not None and job.run.allocation is None:
            self.passing.drop(job.arrival)

    def _count_what_ran(self, _event: Event, message: JobFinished) -> None:
        """Count what a job took that passed."""
        job = self._jobs.get(message.job_id)
        if job is not None and job.job.attempt == message.attempt:
            self.passing.correct(job.arrival, ran_s(message) if message.started_at_us else 0.0)

    def _refresh_all(self, _event: Event, _message: Message) -> None:
        self.refresh_all()
