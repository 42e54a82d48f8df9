"""Placement: folds what the region knows, and decides at the end of each round."""

from collections.abc import Iterable, Iterator, Mapping

from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted

from services.placement.explanation import Refusals
from services.placement.jobs import Tracked
from services.placement.knowledge import Knowledge
from services.placement.ledger import Ledger
from services.placement.model import Rules, evaluate
from services.placement.outcomes import Outcomes
from shared.messaging.event import Event, Publish
from shared.messaging.stage import Round
from shared.policies.easy import Plan, schedule
from shared.policies.queue import Entry, Queue


class Placement:
    """Decides for one region. A job's first outcome, a start or a queueing with its reason, comes
    at the end of the round in which it arrived; a queued one's start follows in a later round.

    Candidates are evaluated once, when an attempt arrives, as the EAMC paper does.
    """

    def __init__(self, restored: Mapping[str, bytes], rules: Rules, remember_days: float) -> None:
        self._rules = rules
        self._knowledge = Knowledge(rules.max_slowdown)
        self._knowledge.restore(restored)
        self._ledger = Ledger(remember_days)
        self._ledger.restore(restored, self._knowledge.clusters.values())
        waiting = self._ledger.waiting()
        self._queue = Queue()
        self._enqueue([job for job in waiting if job.candidates])
        self._arrived = [job for job in waiting if not job.candidates]

    def handle(self, event: Event) -> Iterable[Publish]:
        """Take an event in. Raises RejectedError and AlreadyAppliedError as the folds do."""
        match event.payload:
            case JobSubmitted() as submitted:
                self._arrived.append(self._ledger.submit(event, submitted))
            case JobRequeued() as requeued:
                self._arrived.append(self._ledger.requeue(event, requeued))
            case JobStarted() as started:
                self._ledger.start(event, started)
            case JobFinished() as finished:
                self._ledger.finish(event, finished)
            case _:
                self._learn(event)
        return ()

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Weigh the jobs that arrived, start what may start, explain both."""
        self._ledger.forget(ended.now_s)
        self._queue.remove(self._ledger.take_unqueued())
        arrived = [job for job in self._arrived if self._ledger.is_waiting(job)]
        self._arrived = []
        self._weigh(arrived)
        plan = self._schedule(ended.now_s)
        decided = list(self._decide(plan, arrived, ended))
        self._queue.remove(start.entry.arrival for start in plan.starts)
        return decided

    def changes(self) -> Mapping[str, bytes | None]:
        """Publications and jobs that changed."""
        return self._knowledge.changes() | self._ledger.changes()

    def _learn(self, event: Event) -> None:
        self._knowledge.fold(event)
        if isinstance(event.payload, ClusterDeclared):
            self._ledger.declare(self._knowledge.clusters[event.payload.cluster])

    def _weigh(self, jobs: list[Tracked]) -> None:
        weighed = evaluate(
            [job.job for job in jobs],
            self._knowledge.per_cluster(),
            self._knowledge.power_model,
            self._rules,
        )
        for job, candidates in zip(jobs, weighed, strict=True):
            self._ledger.weigh(job, candidates)
        self._enqueue(jobs)

    def _enqueue(self, jobs: list[Tracked]) -> None:
        entries: dict[str, list[Entry]] = {name: [] for name in self._knowledge.clusters}
        for job in jobs:
            app = self._knowledge.app_number(job.job.app_id)
            for candidate in job.candidates:
                if candidate.waits:
                    entries[candidate.cluster].append(candidate.entry(job.job, job.arrival, app))
        for cluster, added in entries.items():
            self._queue.add(cluster, added)

    def _schedule(self, now_s: float) -> Plan:
        loads = self._ledger.loads(self._knowledge.app_number)
        pairings = self._knowledge.pairings()
        return schedule(now_s, self._queue, loads, pairings, self._ledger.by_arrival)

    def _decide(self, plan: Plan, arrived: list[Tracked], ended: Round) -> Iterator[Publish]:
        outcomes = Outcomes(
            ended=ended,
            policy=self._rules.policy,
            degradation_version=self._knowledge.degradation_version,
            clusters=self._knowledge.clusters,
            app_number=self._knowledge.app_number,
            refusals=Refusals(plan, self._ledger.by_arrival),
        )
        for start in plan.starts:
            job, placed = self._ledger.place(start, plan.now_s)
            yield outcomes.started(job, placed, start)
        promises = plan.reservations()
        for job in arrived:
            if job.waits:
                yield outcomes.queued(job, promises)
