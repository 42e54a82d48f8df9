"""Where and how the jobs of a region could run: what is kept of it, and when it is evaluated
anew."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from coplace.v1.control_pb2 import PairsAllowed, PolicyDeclared, PowerCapDeclared
from coplace.v1.telemetry_pb2 import ShuttersMeasured
from google.protobuf.message import Message

from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.job import Job
from shared.placement.evaluate.evaluation import evaluate
from shared.placement.evaluate.known_clusters import KnownClusters
from shared.placement.evaluate.misfits import misfits, without_reference
from shared.placement.evaluate.modes import with_slower_modes
from shared.placement.evaluate.neighbour_rules import NeighbourRules
from shared.placement.state.candidate import Candidate
from shared.placement.state.job_record import JobRecord
from shared.placement.state.layer import Folds, StateLayer

# Jobs that are evaluated anew in one round: more take the rounds that follow, which come soon.
_MOST_EVALUATED_ANEW: Final = 1_000


class EvaluateLayer:
    """Evaluates jobs when they arrive, as the EAMC paper does, and again where there are updates of
    what they were evaluated by."""

    def __init__(self, state: StateLayer) -> None:
        self._state, self._models, self._jobs = state, state.models, state.jobs
        self.clusters = KnownClusters(state.models)
        self.neighbours = NeighbourRules(state.models, state.guarantees.isolated())
        self._isolations = state.guarantees.revision
        # Jobs that wait to be evaluated anew, and the update that they were looked for last.
        self._stale, self._seen_updates = set[str](), state.models.updates.number
        self._lack_modes = False
        self.folds: Folds = {
            ShuttersMeasured: self._isolate,
            PairsAllowed: self._isolate,
            # Jobs that came before the first cap have no slower modes yet.
            PowerCapDeclared: self._offer_modes_to_all,
            PolicyDeclared: self._offer_modes_to_all,
        }

    @property
    def has_stale(self) -> bool:
        """Return whether jobs wait to be evaluated anew."""
        return bool(self._stale)

    def admit(self, *, may_reject: bool) -> None:
        """Accept or reject what arrived. What fits on no declared cluster may yet fit where one is
        lost, and where none was declared: it waits until that is known."""
        clusters = self._models.declared
        lost = self._models.lost.keys() & clusters.keys()
        for job in self._jobs.unadmitted():
            unknown = without_reference(job.job, clusters)
            found = unknown or misfits(job.job, clusters.values())
            if not found:
                self._jobs.admit(job)
            elif not may_reject or not clusters or (lost and not unknown):
                self._jobs.put_off(job, found)
            else:
                self._jobs.reject(job, found)

    def evaluate_updated(
        self, touched: Iterable[JobRecord], waiting: Callable[[], list[JobRecord]]
    ) -> list[JobRecord]:
        """Evaluate the jobs that arrived, and of those before them that an update concerns as many
        as are evaluated anew in a round, by arrival. Returns the latter."""
        jobs, updates = list(touched), self._models.updates
        self._evaluate([job for job in jobs if _may_be_evaluated(job) and _is_new(job)])
        if updates.number != self._seen_updates:
            self._seen_updates = updates.number
            jobs += waiting()
        self._stale.update(job.job.job_id for job in jobs)
        stale = [job for job in self._jobs.found(self._stale) if self._is_stale(job)]
        anew, later = stale[:_MOST_EVALUATED_ANEW], stale[_MOST_EVALUATED_ANEW:]
        self._evaluate(anew)
        self._stale = {job.job.job_id for job in later}
        self._forget_earlier_policies()
        return anew

    def evaluated_alone(self, job: Job) -> tuple[Candidate, ...]:
        """Return the candidates of a job that is asked about."""
        [found] = self._candidates([job], self._models.undeclared)
        return found

    def estimate_draws(self) -> None:
        """Estimate what jobs draw that resource managers started by themselves."""
        lacking = self._jobs.allocations.without_draw()
        found = self._candidates([self._where_it_runs(job) for job in lacking])
        for job, candidates in zip(lacking, found, strict=True):
            on = job.run.allocation
            assert on is not None
            candidate = next(c for c in candidates if c.cluster == on.cluster)
            units = sum(on.units) or len(on.nodes)
            drawn_mw = candidate.draw_mw * units // candidate.nodes
            self._jobs.estimate(job, drawn_mw, power_unknown=candidate.power_unknown)

    def offer_slower_modes(self, touched: Iterable[JobRecord]) -> list[JobRecord]:
        """Let jobs that wait start at lower P-states where a cap refuses their own: those that came
        and, once there is a cap, those before them. Returns them."""
        if self._policy.cap_slowdown <= 1 or not self._models.caps:
            return []
        jobs = self._jobs.waiting() if self._lack_modes else touched
        may_start = (job for job in jobs if job.waits and job.requests.held is None)
        lacking = [job for job in may_start if job.evaluated.lacks_slower_modes]
        self._lack_modes = False
        found = with_slower_modes(lacking, self.clusters(), self._policy)
        for job, candidates in zip(lacking, found, strict=True):
            self._jobs.evaluate(job, candidates)
        return lacking

    @property
    def _policy(self) -> PolicySettings:
        return self._models.rules.now

    def _candidates(
        self, jobs: Sequence[Job], gone: Iterable[str] = ()
    ) -> list[tuple[Candidate, ...]]:
        power_model, gone = self._models.power_model, frozenset(gone)
        return evaluate(jobs, self.clusters(), power_model, self._policy, gone)

    def _evaluate(self, jobs: list[JobRecord]) -> None:
        found: Sequence[tuple[Candidate, ...]] = [()] * len(jobs)
        if self._models.declared:
            found = self._candidates([job.job for job in jobs], self._models.undeclared)
        for job, candidates in zip(jobs, found, strict=True):
            job.evaluated.update = self._models.updates.number
            job.evaluated.misfits = misfits(job.job, self._models.declared.values())
            self._jobs.evaluate(job, candidates)

    def _is_stale(self, job: JobRecord) -> bool:
        update = job.evaluated.update
        return _may_be_evaluated(job) and self._models.updates.are_for(job.job.app_id, update)

    def _forget_earlier_policies(self) -> None:
        policy = self._models.rules
        if policy.has_earlier:
            jobs = (job.evaluated for job in self._jobs.waiting() if job.evaluated.candidates)
            updates = (evaluated.update for evaluated in jobs)
            policy.forget_earlier(min(updates, default=self._models.updates.number))

    def _where_it_runs(self, job: JobRecord) -> Job:
        """Return the job that runs, as a resource manager says: where its reference cluster is not
        declared, its walltime relates to the cluster that it runs on."""
        assert job.run.allocation is not None
        known = job.job.reference_cluster in self._models.clusters
        cluster = job.run.allocation.cluster
        return job.job if known else replace(job.job, reference_cluster=cluster)

    def _isolate(self, _event: Event, _message: Message) -> None:
        guarantees = self._state.guarantees
        if self._isolations != guarantees.revision:
            self._isolations = guarantees.revision
            self.neighbours.isolate(guarantees.isolated())

    def _offer_modes_to_all(self, _event: Event, _message: Message) -> None:
        self._lack_modes = True


def _may_be_evaluated(job: JobRecord) -> bool:
    return job.waits and job.evaluated.admitted and not job.requests.isolated


def _is_new(job: JobRecord) -> bool:
    """Return whether a job was never evaluated."""
    return not (job.evaluated.candidates or job.evaluated.misfits)
