"""Placement: folds what the region knows, and decides at the end of each round."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf
from typing import Final

from coplace.v1.accounts_pb2 import AccountStanding
from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    LimitsDeclared,
    NodesDrained,
    NodesResumed,
    PairsAllowed,
    PolicyDeclared,
    PowerCapDeclared,
)
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobActionRefused,
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobRequeued,
    JobResumed,
    JobSeized,
    JobStarted,
    JobSubmitted,
    JobSuspended,
)
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.prediction_pb2 import NodeMetersRead, NodePowerPublished, RunningPowerMeasured
from coplace.v1.telemetry_pb2 import ShuttersMeasured
from google.protobuf.message import Message

from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.placement import plans
from shared.placement.candidates.candidate import Candidate, draw_mw, evaluate
from shared.placement.candidates.misfits import misfits, without_reference
from shared.placement.candidates.modes import modes_of, with_slower_modes
from shared.placement.jobs import mending
from shared.placement.jobs.dependencies import Dependencies
from shared.placement.jobs.facts import JobFacts
from shared.placement.jobs.requests import JobRequests
from shared.placement.jobs.slowdown_guarantees import SlowdownGuarantees
from shared.placement.jobs.table import JobTable
from shared.placement.jobs.tracked import Tracked
from shared.placement.jobs.withdrawals import Withdrawals
from shared.placement.model_store import ModelStore
from shared.placement.nodes.states import Failure, NodeStates
from shared.placement.outcomes import OUTPUT, SOURCE, Beside, Decisions, Outcomes
from shared.placement.planning import Planning
from shared.placement.plans import Plans, jobs_of, wanted_ghz
from shared.placement.power import meters, overshoots, sharing
from shared.placement.power.joint_margin import JointMargin
from shared.placement.power.measures import Measures
from shared.placement.power.meters import Meters
from shared.placement.power.overshoots import Overshoots
from shared.placement.reasons.explanation import Refusals
from shared.placement.reasons.notices import Notices
from shared.placement.reasons.pending_reasons import PendingReasons
from shared.placement.reasons.queries import Queries
from shared.placement.schedulers import Arriving, schedulers_of
from shared.placement.told import ToldDecisions
from shared.placement.waiting import WaitingJobs
from shared.scheduling.backfill import ClusterScheduler, schedule
from shared.streams.stages.quarantine import Fault
from shared.streams.stages.stage import Round

# Jobs that are weighed again in one round: more take the rounds that follow, which come soon.
_MOST_WEIGHED_AGAIN: Final = 1_000
_SOON_S: Final = 1e-3


class Placement:
    """Decides for one region. A job's first outcome, a start or why it waits, comes at the end of
    the round in which it arrived; the start of one that waits follows in a later round.

    Candidates are evaluated when an attempt arrives, as the EAMC paper does, and again where there
    is news. What a round decides is a function of its events and of the state that `changes`
    writes.
    """

    def __init__(
        self, restored: Mapping[str, bytes], rules: PolicySettings, remember_days: float
    ) -> None:
        self._models = ModelStore(rules)
        self._models.restore(restored)
        self._job_table = JobTable(remember_days)
        self._job_table.restore(restored, self._models.clusters.values())
        self._facts, self._requests = JobFacts(self._job_table), JobRequests(self._job_table)
        self._nodes = NodeStates(
            lambda: self._models.declared,
            lambda: self._models.node_names,
            self._models.rules,
        )
        self._nodes.restore(restored)
        self._dependencies = Dependencies(self._job_table.get)
        self._pending_reasons = PendingReasons(
            self._models,
            self._job_table.holdings,
            self._dependencies,
            self._nodes,
        )
        self._plans = Plans()
        self._plans.restore(restored)
        self._waiting_jobs = WaitingJobs(self._pending_reasons, self._models.rules, self._plans)
        self._notices = Notices(self._pending_reasons, self._waiting_jobs)
        self._withdrawals = Withdrawals(self._job_table, self._models)
        self._meters = Meters(restored, self._job_table, self._models)
        self._told = ToldDecisions(restored, self._job_table, self._models)
        self._overshoots = Overshoots(restored, self._job_table.holdings, self._models)
        self._guarantees = SlowdownGuarantees(restored, self._job_table)
        self._models.keep_apart(self._guarantees.apart())
        self._prefer()
        self._margin = JointMargin(self._job_table, self._models, self._meters)
        self._measures = Measures(
            restored, self._job_table, self._models, self._margin, self._meters
        )
        self.planning = Planning(self._job_table, self._waiting_jobs, self._models, self._margin)
        self._all_stale, self._lack_modes, self._now_s = False, False, 0.0
        # Whether the last pass would have started more than a cap has a margin for.
        self._has_sent_back = False
        # Jobs that wait to be weighed again, and the update that they were looked for last.
        self._stale, self._seen_updates = set[str](), self._models.updates.number
        self.queries = Queries(
            self._job_table,
            self._waiting_jobs,
            self._pending_reasons,
            self._models,
            self._nodes,
            self._margin,
            self._meters,
            self._overshoots,
            self._guarantees,
            self._schedulers,
        )

    def handle(self, event: Event) -> Iterable[Publish]:
        """Take an event in. Raises RejectedError and AlreadyAppliedError as the folds do."""
        match event.payload:
            case (
                JobCancelled()
                | JobHeld()
                | JobReleased()
                | JobPrioritized()
                | JobSeized()
                | JobRequeueAsked()
            ):
                self._ask(event)
            case JobSubmitted() | JobRequeued() | JobStarted() | JobDeclined() | JobFinished():
                self._happen(event)
            case RunningPowerMeasured() as measured:
                self._facts.correct_draw(event, measured, self._models.clusters)
            case NodeMetersRead() as read:
                self._meters.read(event, read)
                self._overshoots.read(read)
            case ShuttersMeasured() | PairsAllowed() as message:
                self._hold_to_guarantees(event, message)
            case JobSuspended() | JobResumed() | JobActionDone() | JobActionRefused():
                self._act(event)
            case _:
                self._learn(event)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Ask back what did not come true, weigh the jobs that arrived, start what may start, and
        say of the others why they wait."""
        self.queries.begin_round()
        self._now_s = ended.now_s
        self._margin.begin_round()
        self._job_table.forget(ended.now_s)
        self._models.forget(self._job_table.apps)
        self._job_table.holdings.forget_groups()
        self._all_stale |= self._waiting_jobs.forget_kinds()
        decisions = Decisions(ended, self._models.rules, self._models.degradation_version)
        self._told.play(ended)
        was_decided = self._told.covers(ended)
        decided = [one for one in self._withdrawals.of_round(decisions) if not self._is_told(one)]
        decided += self._nodes.of_round(ended, SOURCE, OUTPUT)
        silent = self._meters.of_round(ended, SOURCE, OUTPUT)
        decided += silent
        decided += self._guarantees.of_round(ended, SOURCE, OUTPUT)
        if silent:
            self._prefer()
        decided += self._overshoots.of_round(ended, SOURCE, OUTPUT)
        self._close_nodes()
        self._judge(may_reject=not was_decided)
        touched = self._settle()
        weighed = self._weigh_updated(touched)
        self._forget_undeclared()
        self._estimate(touched)
        offered = self._offer_slower_modes([*touched, *weighed])
        affected = self._plans.pass_time(ended.now_s) | self._follow_plan(ended)
        self._waiting_jobs.refresh([*touched, *weighed, *offered, *self._job_table.found(affected)])
        self._refresh_stale()
        if was_decided:
            self.queries.end_round()
            return decided
        decided += self._measures.before_pass(decisions)
        outcomes = self._start(decisions, decided)
        decided += self._announce(outcomes)
        decided += self._measures.after_pass(outcomes)
        self.queries.note(outcomes)
        return decided

    def changes(self) -> Mapping[str, bytes | None]:
        """Publications, jobs and what is planned of them that changed."""
        return {
            **self._models.changes(),
            **self._nodes.changes(),
            **self._job_table.changes(),
            **self._plans.changes(),
            **self._measures.changes(),
            **self._meters.changes(),
            **self._told.changes(),
            **self._overshoots.changes(),
            **self._guarantees.changes(),
        }

    def wake_us(self) -> int | None:
        """When the next start has to be confirmed, news that was put off is told, a planned start
        is held back no longer, a plan ends, drained nodes are back, a measure is taken since
        another one was not answered, a cap of power changes, a meter may fall silent, or a time
        above a cap is over."""
        due = [*self._withdrawals.due_s(), *self._notices.due_s(), *self._plans.due_s()]
        due += [self._now_s + _SOON_S] if self._stale or self._told.is_played else []
        due += [*self._nodes.due_s(), *self._measures.due_s(), *self._meters.due_s()]
        due += self._overshoots.due_s()
        next_s = min([*due, self._models.next_cap_step_s(self._now_s)])
        return ceil(next_s * 1e6) if next_s < inf else None

    def suspects(self) -> Sequence[str]:
        """The jobs that the end of this round may start, by arrival."""
        found = self._job_table.waiting() + self._job_table.holdings.without_draw()
        return [job.job.job_id for job in found]

    def hold_back(self, subject: str, fault: Fault, _ended: Round) -> None:
        """Hold a job that the end of the round fails over."""
        job = self._job_table.get(subject)
        if job is not None and job.waits and not job.isolated:
            repair = "report it, and release the job after the repair"
            reason = f"deciding on it failed, stack {fault.digest[:12]}: {repair}: {fault.what}"
            self._job_table.isolate(job, reason)
        elif job is not None and job.placed is not None and job.placed.draw_mw is None:
            self._job_table.estimate(job, 0)

    def _is_told(self, publish: Publish) -> bool:
        payload = publish.event.payload
        return isinstance(payload, PlacementDecided) and self._told.has(payload)

    def _happen(self, event: Event) -> None:
        """What a resource manager says of a job, and of the nodes that failed under it."""
        self._told.play_before(event.payload)
        self._note_failures(event.payload)
        match event.payload:
            case JobSubmitted() as submitted:
                self._facts.submit(event, submitted)
            case JobRequeued() as requeued:
                self._facts.requeue(event, requeued)
            case JobStarted() as started:
                self._facts.start(event, started, self._models.node_names)
            case JobDeclined() as declined:
                self._facts.decline(event, declined)
            case JobFinished() as finished:
                self._facts.finish(event, finished)

    def _note_failures(self, message: Message) -> None:
        """Also of a fact that is late for its job."""
        match message:
            case JobRequeued() if message.failed_nodes:
                failure = Failure(message.requeued_at_us, message.job_id, message.attempt - 1)
                self._nodes.fail(message.cluster, message.failed_nodes, failure)
            case JobFinished() if message.failed_nodes:
                failure = Failure(message.ended_at_us, message.job_id, message.attempt)
                self._nodes.fail(message.cluster, message.failed_nodes, failure)

    def _ask(self, event: Event) -> None:
        """What users and operators ask of a job."""
        match event.payload:
            case JobCancelled() as cancelled:
                self._requests.cancel(event, cancelled)
            case JobHeld() as held:
                self._requests.hold(event, held)
            case JobReleased() as released:
                self._requests.release(event, released)
            case JobPrioritized() as prioritized:
                self._requests.prioritize(event, prioritized)
            case JobSeized() as seized:
                self._requests.seize(event, seized)
            case JobRequeueAsked() as asked:
                self._requests.ask_back(event, asked)

    def _hold_to_guarantees(self, event: Event, message: ShuttersMeasured | PairsAllowed) -> None:
        """What was measured of jobs that share nodes, and which pairs may share them again."""
        if isinstance(message, PairsAllowed):
            self._guarantees.allow(message)
        elif not self._guarantees.measure(event, message):
            return
        self._models.keep_apart(self._guarantees.apart())

    def _act(self, event: Event) -> None:
        """What is asked of a run, and what came of it."""
        self._told.play_before(event.payload)
        match event.payload:
            case JobSuspended() as suspended:
                self._requests.suspend(event, suspended)
            case JobResumed() as resumed:
                self._requests.resume(event, resumed)
            case JobActionDone() as done:
                self._facts.action_done(event, done)
            case JobActionRefused() as refused:
                self._facts.action_refused(event, refused)

    def _learn(self, event: Event) -> None:
        match event.payload:
            case PlanProposed() as plan:
                self._plans.propose(event, plan)
            case NodesDrained() as drained:
                self._nodes.drain(event, drained)
            case NodesResumed() as resumed:
                self._nodes.resume(event, resumed)
            case _:
                self._learn_model(event)

    def _learn_model(self, event: Event) -> None:
        self._models.fold(event)
        match event.payload:
            case ClusterDeclared() as declared:
                self._job_table.holdings.declare(self._models.clusters[declared.cluster])
                self._nodes.touch(declared.cluster)
                self._all_stale = True  # units may be of other resources now
            case NodePowerPublished():
                self._prefer()
            case ClusterUndeclared() as undeclared:
                if undeclared.cluster in self._models.undeclared:
                    self._nodes.forget(undeclared.cluster)
                    self._job_table.holdings.close(undeclared.cluster, {})
                self._all_stale = True
            case ClusterLost() | ClusterReturned() | LimitsDeclared() | AccountStanding():
                self._all_stale = True
            case PowerCapDeclared():
                self._lack_modes = True  # those who came before the first cap
            case PolicyDeclared():
                self._all_stale = self._lack_modes = True
                self._nodes.touch_all()

    @property
    def _rules(self) -> PolicySettings:
        """Those that hold now."""
        return self._models.rules.now

    def _close_nodes(self) -> None:
        """Take drained nodes from what jobs may have, and give those that failed of late last."""
        touched = self._nodes.take_touched() & self._models.declared.keys()
        for cluster in sorted(touched):
            self._job_table.holdings.close(cluster, self._nodes.unavailable(cluster))
        if touched:
            self._prefer()
            self._all_stale = True

    def _prefer(self) -> None:
        """Nodes that draw less go first, and those last that failed of late or whose meters are
        silent."""
        factors = {name: dict(each) for name, each in self._models.node_factors.items()}
        for cluster in self._models.clusters:
            for node in [*self._nodes.failing(cluster), *self._meters.silent(cluster).tolist()]:
                factors.setdefault(cluster, {})[node] = inf
        self._job_table.holdings.prefer(factors)

    def _judge(self, *, may_reject: bool) -> None:
        """Accept or reject what arrived. What fits on no declared cluster may yet fit where one is
        lost, and where none was declared: it waits until that is known."""
        clusters = self._models.declared
        lost = self._models.lost.keys() & clusters.keys()
        for job in self._job_table.unadmitted():
            unknown = without_reference(job.job, clusters)
            found = unknown or misfits(job.job, clusters.values())
            if not found:
                self._job_table.admit(job)
            elif not may_reject or not clusters or (lost and not unknown):
                self._job_table.put_off(job, found)
            else:
                self._job_table.reject(job, found)

    def _settle(self) -> list[Tracked]:
        """The jobs whose situation may have changed, by arrival; what they waited for and what came
        true is dropped."""
        ids = self._job_table.take_touched()
        ids |= self._dependencies.dependents(ids)
        for job in self._job_table.found(ids):
            if self._dependencies.settle(job):
                self._job_table.save(job)
        return self._job_table.found(ids | self._dependencies.find_stuck())

    def _weigh_updated(self, touched: Iterable[Tracked]) -> list[Tracked]:
        """Weigh the jobs that arrived, and of those before them that an update concerns as many as
        are weighed again in a round, by arrival. Returns the latter."""
        jobs, updates = list(touched), self._models.updates
        self._weigh([job for job in jobs if self._may_weigh(job) and _is_new(job)])
        if updates.number != self._seen_updates:
            self._seen_updates = updates.number
            jobs += self._waiting_jobs.jobs()
        self._stale.update(job.job.job_id for job in jobs)
        stale = [job for job in self._job_table.found(self._stale) if self._is_stale(job)]
        again, later = stale[:_MOST_WEIGHED_AGAIN], stale[_MOST_WEIGHED_AGAIN:]
        self._weigh(again)
        self._stale = {job.job.job_id for job in later}
        self._forget_earlier_rules()
        return again

    def _forget_earlier_rules(self) -> None:
        if self._models.rules.has_earlier:
            waiting = (job.weighed for job in self._job_table.waiting() if job.candidates)
            self._models.rules.forget_earlier(min(waiting, default=self._models.updates.number))

    def _may_weigh(self, job: Tracked) -> bool:
        return job.waits and job.admitted and not job.isolated

    def _is_stale(self, job: Tracked) -> bool:
        return self._may_weigh(job) and self._models.updates.are_for(job.job.app_id, job.weighed)

    def _weigh(self, jobs: list[Tracked]) -> None:
        weighed: Sequence[tuple[Candidate, ...]] = [()] * len(jobs)
        if self._models.declared:
            weighed = evaluate(
                [job.job for job in jobs],
                self._models.per_cluster(),
                self._models.power_model,
                self._rules,
                self._models.undeclared,
            )
        for job, candidates in zip(jobs, weighed, strict=True):
            job.weighed = self._models.updates.number
            job.misfits = misfits(job.job, self._models.declared.values())
            self._job_table.weigh(job, candidates)

    def _forget_undeclared(self) -> None:
        """Let go of clusters that were undeclared and that no job has anything to do with."""
        for name in list(self._models.undeclared):
            if not self._job_table.needs(name):
                self._models.forget_cluster(name)
                self._job_table.holdings.forget(name)

    def _offer_slower_modes(self, touched: Iterable[Tracked]) -> list[Tracked]:
        """Let jobs that wait start at lower P-states where a cap refuses their own: those that came
        and, once there is a cap, those before them. Returns them."""
        if self._rules.cap_slowdown <= 1 or not self._models.caps:
            return []
        jobs = self._job_table.waiting() if self._lack_modes else touched
        may_start = (job for job in jobs if job.waits and job.held is None)
        lacking = [job for job in may_start if job.lacks_slower_modes]
        self._lack_modes = False
        found = with_slower_modes(lacking, self._models.per_cluster(), self._rules)
        for job, candidates in zip(lacking, found, strict=True):
            self._job_table.weigh(job, candidates)
        return lacking

    def _follow_plan(self, ended: Round) -> set[str]:
        """Let the plan stand that came in this round; ids of the jobs whose entries may change."""
        proposed = self._plans.take_proposed(ended)
        if proposed is None:
            return set()
        jobs = self._job_table.found(jobs_of(proposed))
        per_cluster, wanted = self._models.per_cluster(), wanted_ghz(proposed)
        weighed = modes_of(jobs, per_cluster, self._rules, wanted=wanted)
        return self._plans.follow(proposed, {job.job.job_id: job for job in jobs}, weighed)

    def _estimate(self, touched: Iterable[Tracked]) -> None:
        """What jobs draw that resource managers started by themselves, and those that were kept
        without it."""
        clusters = self._models.clusters
        for job in touched:
            if any(candidate.draw_mw is None for candidate in job.candidates):
                known = [c for c in job.candidates if c.cluster in clusters]
                self._job_table.weigh(job, tuple(_with_draw(job, c, clusters) for c in known))
        lacking = self._job_table.holdings.without_draw()
        weighed = evaluate(
            [_where_it_runs(job, clusters) for job in lacking],
            self._models.per_cluster(),
            self._models.power_model,
            self._rules,
        )
        for job, candidates in zip(lacking, weighed, strict=True):
            assert job.placed is not None
            on = next(c for c in candidates if c.cluster == job.placed.cluster)
            self._job_table.estimate(job, (on.draw_mw or 0) * len(job.placed.nodes) // on.nodes)

    def _refresh_stale(self) -> bool:
        """Bring entries up to date with limits, usage and clusters; True when some were lost."""
        changed = self._job_table.holdings.take_changed()
        limited = changed & self._models.limits.keys()
        if self._all_stale:
            self._all_stale = False
            return self._waiting_jobs.refresh_all()
        return self._waiting_jobs.refresh(self._waiting_jobs.limited_by(limited) if limited else [])

    def _start(self, decisions: Decisions, decided: list[Publish]) -> Outcomes:
        """Pass over the queue until no job in it is over a limit; what came of the last pass.

        Another one follows too where watts were given back that were promised to what started.
        A start can bring its user to a limit. The pass counts up to the first start that would be
        beyond it; then those who reached it leave the queue, with what was promised to them.
        """
        while True:
            outcomes = self._pass(decisions)
            decided += self._take(outcomes)
            again = self._refresh_stale() or outcomes.refusals.plan.is_relieved
            if not (again or self._has_sent_back):
                return outcomes

    def _pass(self, decisions: Decisions) -> Outcomes:
        plan = schedule(decisions.ended.now_s, self._schedulers(decisions.ended.now_s))
        return Outcomes(
            decisions=decisions,
            clusters=self._models.clusters,
            node_names=self._models.node_names,
            pending_reasons=self._pending_reasons,
            waiting_jobs=self._waiting_jobs,
            refusals=Refusals(plan, self._job_table.by_arrival),
        )

    def _schedulers(
        self, now_s: float, *, apart: Arriving | None = None
    ) -> dict[str, ClusterScheduler]:
        """Every cluster with what runs and waits: see schedulers_of."""
        held, neighbours = self._job_table.holdings.occupancy, self._models.neighbours()
        budgets = self._margin.budgets(now_s)
        self._measures.keep(budgets)
        return schedulers_of(held, self._waiting_jobs, neighbours, budgets, apart=apart)

    def _take(self, outcomes: Outcomes) -> Iterator[Publish]:
        plan = outcomes.refusals.plan
        self._has_sent_back = False
        for number, start in enumerate(plan.starts):
            job = self._job_table.of_arrival(start.entry.arrival)
            chosen = self._waiting_jobs.choice(job, start.cluster)
            mode = chosen.candidate.drawing(start.entry.draw_mw)
            self._has_sent_back = not self._margin.allows_start(job, start, mode, plan.now_s)
            if self._has_sent_back or self._is_kept(job, chosen.candidate):
                rest = [self._job_table.of_arrival(s.entry.arrival) for s in plan.starts[number:]]
                self._waiting_jobs.put_back(rest)
                return
            weighed = outcomes.weighed(job, outcomes.reasons(job, start), start)
            instead = outcomes.instead_of(job, chosen.candidate, start)
            plan_round = self._plans.in_force.round if chosen.is_planned else None
            own_ghz = chosen.candidate.freq_ghz
            placed = self._job_table.place(job, start, plan.now_s, mode, own_ghz, plan_round)
            self._job_table.count_nameplate(job, *self._meters.counted(job, placed))
            self._guarantees.make(job, self._models.neighbours()[placed.cluster])
            self._waiting_jobs.leave(job.job.job_id)
            yield outcomes.started(job, placed, start, weighed, instead, self._beside(job))

    def _is_kept(self, job: Tracked, candidate: Candidate) -> bool:
        """Whether something keeps the job, or its entry for this cluster, since the pass began."""
        of_entry = self._pending_reasons.of_entry(job, candidate)
        return bool(self._pending_reasons.of_job(job) or of_entry)

    def _beside(self, job: Tracked) -> Beside:
        """Whom a job that was just placed has beside it."""
        assert job.placed is not None
        others = self._job_table.holdings.others(job)
        if not others:
            return Beside()
        rule = self._models.neighbours()[job.placed.cluster]
        slowdown = self._job_table.holdings.slowdown(job, rule)
        return Beside(tuple(other.job.job_id for other in others), slowdown)

    def _announce(self, outcomes: Outcomes) -> Iterator[Publish]:
        now_s = outcomes.decisions.ended.now_s
        changed = self._waiting_jobs.take_refreshed() | self._notices.take_due(now_s)
        for job in self._job_table.found(changed):
            situation = self._notices.of(job, now_s)
            if situation is not None:
                self._job_table.save(job)
                yield outcomes.of_waiting(job, situation)


def mended(restored: Mapping[str, bytes], now_us: int) -> Mapping[str, bytes | None]:
    """What to change in a state of a wrong clock, so that nothing in it lies ahead of now."""
    of_jobs, of_plans = mending.mended(restored, now_us), plans.mended(restored, now_us)
    of_meters = {**meters.mended(restored, now_us), **overshoots.mended(restored, now_us)}
    return {**of_jobs, **of_plans, **of_meters, **sharing.mended(restored, now_us)}


def _is_new(job: Tracked) -> bool:
    """True of a job that was never weighed."""
    return not (job.candidates or job.misfits)


def _where_it_runs(job: Tracked, clusters: Mapping[str, Cluster]) -> Job:
    """The job of which a resource manager says that it runs: where its reference cluster is not
    declared, its walltime relates to where it is."""
    assert job.placed is not None
    known = job.job.reference_cluster in clusters
    return job.job if known else replace(job.job, reference_cluster=job.placed.cluster)


def _with_draw(job: Tracked, candidate: Candidate, clusters: Mapping[str, Cluster]) -> Candidate:
    cluster = clusters[candidate.cluster]
    known_mw = draw_mw(job.job, cluster, candidate.power_w, candidate.nodes)
    return replace(candidate, draw_mw=known_mw)
