"""Placement: folds what the region knows, and decides at the end of each round."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    LimitsDeclared,
)
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobDeclined,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.prediction_pb2 import NodePowerPublished

from services.placement.dependencies import Dependencies
from services.placement.explanation import Refusals
from services.placement.inquiry import Inquiry
from services.placement.jobs import Tracked
from services.placement.knowledge import Knowledge
from services.placement.lanes import lanes_of
from services.placement.ledger import Ledger
from services.placement.model import Candidate, Rules, draw_mw, evaluate
from services.placement.news import News
from services.placement.obstacles import Obstacles
from services.placement.outcomes import Beside, Decisions, Outcomes
from services.placement.room import Room
from services.placement.withdrawals import Withdrawals
from shared.domain.cluster import Cluster
from shared.messaging.event import Event, Publish
from shared.messaging.quarantine import Fault
from shared.messaging.stage import Round
from shared.scheduling.easy import AnyLane, schedule


class Placement:
    """Decides for one region. A job's first outcome, a start or why it waits, comes at the end of
    the round in which it arrived; the start of one that waits follows in a later round.

    Candidates are evaluated once, when an attempt arrives, as the EAMC paper does. What a round
    decides is a function of its events and of the state that `changes` writes.
    """

    def __init__(self, restored: Mapping[str, bytes], rules: Rules, remember_days: float) -> None:
        self._rules = rules
        self._knowledge = Knowledge(
            rules.max_slowdown, rules.most_applications, cap_counts_idle=rules.cap_counts_idle
        )
        self._knowledge.restore(restored)
        self._ledger = Ledger(remember_days)
        self._ledger.restore(restored, self._knowledge.clusters.values())
        self._ledger.holdings.prefer(self._knowledge.node_factors)
        self._dependencies = Dependencies(self._ledger.get)
        self._obstacles = Obstacles(
            self._knowledge, self._ledger.holdings, self._dependencies, rules.most_missed_starts
        )
        self._room = Room(self._obstacles, rules)
        self._news = News(self._obstacles, self._room)
        self._withdrawals = Withdrawals(self._ledger, self._knowledge, rules.start_timeout_s)
        self._all_stale, self._now_s = False, 0.0
        self.inquiry = Inquiry(
            self._ledger,
            self._room,
            self._obstacles,
            self._knowledge,
            self._lanes,
            rules.start_timeout_s,
        )

    def handle(self, event: Event) -> Iterable[Publish]:
        """Take an event in. Raises RejectedError and AlreadyAppliedError as the folds do."""
        match event.payload:
            case JobCancelled() | JobHeld() | JobReleased() | JobSeized():
                self._ask(event)
            case JobSubmitted() | JobRequeued() | JobStarted() | JobDeclined() | JobFinished():
                self._happen(event)
            case _:
                self._learn(event)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Ask back what did not come true, weigh the jobs that arrived, start what may start, and
        say of the others why they wait."""
        self.inquiry.begin_round()
        self._now_s = ended.now_s
        self._ledger.forget(ended.now_s)
        self._knowledge.forget(self._ledger.apps)
        self._ledger.holdings.forget_groups()
        self._all_stale |= self._room.forget_kinds()
        decisions = Decisions(ended, self._rules, self._knowledge.degradation_version)
        decided = list(self._withdrawals.of_round(decisions))
        touched = self._settle()
        new = [job for job in touched if job.waits and not job.candidates]
        self._weigh([job for job in new if not job.isolated])
        self._estimate(touched)
        self._room.refresh(touched)
        self._refresh_stale()
        outcomes = self._start(decisions, decided)
        decided += self._announce(outcomes)
        self.inquiry.note(outcomes)
        return decided

    def changes(self) -> Mapping[str, bytes | None]:
        """Publications and jobs that changed."""
        return self._knowledge.changes() | self._ledger.changes()

    def wake_us(self) -> int | None:
        """When the next start has to be confirmed, news that was put off is told, or a cap of power
        changes."""
        due = [*self._withdrawals.due_s(), *self._news.due_s()]
        next_s = min([*due, self._knowledge.next_cap_step_s(self._now_s)])
        return ceil(next_s * 1e6) if next_s < inf else None

    def suspects(self) -> Sequence[str]:
        """The jobs that the end of this round may start, by arrival."""
        found = self._ledger.waiting() + self._ledger.holdings.without_draw()
        return [job.job.job_id for job in found]

    def hold_back(self, subject: str, fault: Fault) -> None:
        """Hold a job that the end of the round fails over."""
        job = self._ledger.get(subject)
        if job is not None and job.waits and not job.isolated:
            repair = "report it, and release the job after the repair"
            reason = f"deciding on it failed, stack {fault.digest[:12]}: {repair}: {fault.what}"
            self._ledger.isolate(job, reason)
        elif job is not None and job.placed is not None and job.placed.draw_mw is None:
            self._ledger.estimate(job, 0)

    def _happen(self, event: Event) -> None:
        """What a resource manager says of a job."""
        match event.payload:
            case JobSubmitted() as submitted:
                self._ledger.submit(event, submitted, self._knowledge.clusters)
            case JobRequeued() as requeued:
                self._ledger.requeue(event, requeued)
            case JobStarted() as started:
                self._ledger.start(event, started, self._knowledge.node_names)
            case JobDeclined() as declined:
                self._ledger.decline(event, declined)
            case JobFinished() as finished:
                self._ledger.finish(event, finished)

    def _ask(self, event: Event) -> None:
        """What users and operators ask of a job."""
        match event.payload:
            case JobCancelled() as cancelled:
                self._ledger.cancel(event, cancelled)
            case JobHeld() as held:
                self._ledger.hold(event, held)
            case JobReleased() as released:
                self._ledger.release(event, released)
            case JobSeized() as seized:
                self._ledger.seize(event, seized)

    def _learn(self, event: Event) -> None:
        self._knowledge.fold(event)
        match event.payload:
            case ClusterDeclared() as declared:
                self._ledger.holdings.declare(self._knowledge.clusters[declared.cluster])
                self._ledger.holdings.prefer(self._knowledge.node_factors)
                self._all_stale = True  # units may be of other resources now
            case NodePowerPublished():
                self._ledger.holdings.prefer(self._knowledge.node_factors)
            case ClusterLost() | ClusterReturned() | LimitsDeclared():
                self._all_stale = True

    def _settle(self) -> list[Tracked]:
        """The jobs whose situation may have changed, by arrival; what they waited for and what came
        true is dropped."""
        ids = self._ledger.take_touched()
        ids |= self._dependencies.dependents(ids)
        for job in self._ledger.found(ids):
            if self._dependencies.settle(job):
                self._ledger.save(job)
        return self._ledger.found(ids | self._dependencies.find_stuck())

    def _weigh(self, jobs: list[Tracked]) -> None:
        weighed = evaluate(
            [job.job for job in jobs],
            self._knowledge.per_cluster(),
            self._knowledge.power_model,
            self._rules,
        )
        for job, candidates in zip(jobs, weighed, strict=True):
            self._ledger.weigh(job, candidates)

    def _estimate(self, touched: Iterable[Tracked]) -> None:
        """What jobs draw that resource managers started by themselves, and those that were kept
        without it."""
        clusters = self._knowledge.clusters
        for job in touched:
            if any(candidate.draw_mw is None for candidate in job.candidates):
                known = [c for c in job.candidates if c.cluster in clusters]
                self._ledger.weigh(job, tuple(_with_draw(job, c, clusters) for c in known))
        lacking = self._ledger.holdings.without_draw()
        weighed = evaluate(
            [job.job for job in lacking],
            self._knowledge.per_cluster(),
            self._knowledge.power_model,
            self._rules,
        )
        for job, candidates in zip(lacking, weighed, strict=True):
            assert job.placed is not None
            on = next(c for c in candidates if c.cluster == job.placed.cluster)
            self._ledger.estimate(job, (on.draw_mw or 0) * len(job.placed.nodes) // on.nodes)

    def _refresh_stale(self) -> bool:
        """Bring entries up to date with limits, usage and clusters; True when some were lost."""
        changed = self._ledger.holdings.take_changed()
        limited = changed & self._knowledge.limits.keys()
        if self._all_stale:
            self._all_stale = False
            return self._room.refresh_all()
        return self._room.refresh(self._room.limited_by(limited) if limited else [])

    def _start(self, decisions: Decisions, decided: list[Publish]) -> Outcomes:
        """Pass over the queue until no job in it is over a limit; what came of the last pass.

        Another one follows too where watts were given back that were promised to what started.
        A start can bring its user to a limit. The pass counts up to the first start that would be
        beyond it; then those who reached it leave the queue, with what was promised to them.
        """
        while True:
            outcomes = self._pass(decisions)
            decided += self._take(outcomes)
            if not (self._refresh_stale() or outcomes.refusals.plan.is_relieved):
                return outcomes

    def _pass(self, decisions: Decisions) -> Outcomes:
        plan = schedule(decisions.ended.now_s, self._lanes(decisions.ended.now_s))
        return Outcomes(
            decisions=decisions,
            clusters=self._knowledge.clusters,
            node_names=self._knowledge.node_names,
            obstacles=self._obstacles,
            room=self._room,
            refusals=Refusals(plan, self._ledger.by_arrival),
        )

    def _lanes(self, now_s: float, *, apart: bool = False) -> dict[str, AnyLane]:
        """Every cluster with what runs and waits: see lanes_of."""
        held, neighbours = self._ledger.holdings.occupancy, self._knowledge.neighbours()
        return lanes_of(held, self._room, neighbours, self._knowledge.budgets(now_s), apart=apart)

    def _take(self, outcomes: Outcomes) -> Iterator[Publish]:
        plan = outcomes.refusals.plan
        for number, start in enumerate(plan.starts):
            job = self._ledger.of_arrival(start.entry.arrival)
            candidate = job.candidate(start.cluster)
            if self._obstacles.of_job(job) or self._obstacles.of_entry(job, candidate):
                rest = [self._ledger.of_arrival(s.entry.arrival) for s in plan.starts[number:]]
                self._room.put_back(rest)
                return
            weighed = outcomes.weighed(job, outcomes.reasons(job, start))
            placed = self._ledger.place(job, start, plan.now_s)
            self._room.leave(job.job.job_id)
            yield outcomes.started(job, placed, start, weighed, self._beside(job))

    def _beside(self, job: Tracked) -> Beside:
        """Whom a job that was just placed has beside it."""
        assert job.placed is not None
        others = self._ledger.holdings.others(job)
        if not others:
            return Beside()
        rule = self._knowledge.neighbours()[job.placed.cluster]
        slowdown = self._ledger.holdings.slowdown(job, rule)
        return Beside(tuple(other.job.job_id for other in others), slowdown)

    def _announce(self, outcomes: Outcomes) -> Iterator[Publish]:
        now_s = outcomes.decisions.ended.now_s
        changed = self._room.take_refreshed() | self._news.take_due(now_s)
        for job in self._ledger.found(changed):
            situation = self._news.of(job, now_s)
            if situation is not None:
                self._ledger.save(job)
                yield outcomes.of_waiting(job, situation)


def _with_draw(job: Tracked, candidate: Candidate, clusters: Mapping[str, Cluster]) -> Candidate:
    cluster = clusters[candidate.cluster]
    known_mw = draw_mw(job.job, cluster, candidate.power_w, candidate.nodes)
    return replace(candidate, draw_mw=known_mw)
