"""What keeps a job, or one of its entries, out of the queue. Everything else waits for nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_ACCOUNT,
    CONSTRAINT_KIND_DRAINED_NODES,
    CONSTRAINT_KIND_HOLD,
    CONSTRAINT_KIND_LIMIT,
    CONSTRAINT_KIND_LOST_CLUSTER,
    CONSTRAINT_KIND_MISFIT,
    CONSTRAINT_KIND_RUNS,
    ConstraintKind,
)

from shared.placement.candidates.candidate import Candidate
from shared.placement.candidates.misfits import in_words
from shared.placement.jobs.dependencies import Dependencies
from shared.placement.jobs.holdings import Holdings
from shared.placement.jobs.limits import Limit, Subject, subjects_of
from shared.placement.jobs.tracked import Tracked
from shared.placement.model_store import ModelStore
from shared.placement.nodes.states import NodeStates
from shared.placement.reasons.constraints import JOBS, NODES, Constraint
from shared.placement.reasons.pending_reason import PendingReason
from shared.scheduling.problem import nodes_worth


def said_to_run(job: Tracked) -> str:
    """That a job runs on a cluster that is not declared, in words."""
    return f"runs on {job.runs_on}, as the resource manager there says"


@dataclass(frozen=True, slots=True)
class PendingReasons:
    """A function of what is known, so that a restart finds the same."""

    models: ModelStore
    holdings: Holdings
    dependencies: Dependencies
    nodes: NodeStates

    def of_job(self, job: Tracked) -> PendingReason | None:
        """What keeps all entries of a waiting job out; None when nothing does."""
        pending_reason = (
            self._runs(job)
            or self._hold(job)
            or self._unfit(job)
            or self.dependencies.pending_reason(job)
        )
        pending_reason = pending_reason or (self._empty(job) if self.models.refused else None)
        return pending_reason or (self._too_many_jobs(job) if self.models.limits else None)

    @property
    def closed(self) -> Mapping[str, str]:
        """Clusters on which nothing starts: since when and why, in words."""
        return self.models.closed

    def of_entry(self, job: Tracked, candidate: Candidate) -> PendingReason | None:
        """What keeps the entry for this cluster out; None when nothing does."""
        closed, limits = self.models.closed, self.models.limits
        if candidate.cluster in closed:
            return _reason(CONSTRAINT_KIND_LOST_CLUSTER, closed[candidate.cluster])
        if self._is_drained(job, candidate):
            return _reason(CONSTRAINT_KIND_DRAINED_NODES, self.drained(candidate.cluster))
        if not limits:
            return None
        cluster = self.models.clusters[candidate.cluster]
        return self._too_many_nodes(job, nodes_worth(job.job, cluster, candidate.nodes))

    def unranked_clusters(self, job: Tracked) -> frozenset[str]:
        """Clusters that a job is not ranked among: lost and undeclared ones, and those that do not
        hold it until somebody resumes nodes."""
        closed = frozenset(self.models.closed)
        if not self.holdings.reduced:
            return closed
        return closed.union(c.cluster for c in job.candidates if self._is_drained(job, c))

    def drained(self, cluster: str) -> str:
        """How many nodes of a cluster are drained, and why; empty where none is."""
        return self.nodes.told(cluster)

    def _is_drained(self, job: Tracked, candidate: Candidate) -> bool:
        """True where the job does not fit on what is left of a cluster until somebody acts."""
        name, holdings = candidate.cluster, self.holdings
        return name in holdings.reduced and not holdings.can_hold(name, job.job, candidate.nodes)

    def _runs(self, job: Tracked) -> PendingReason | None:
        if not job.runs_on:
            return None
        repair = "declare it, or seize the job if it does not run there"
        what = f"{said_to_run(job)}, which is not declared: {repair}"
        return _reason(CONSTRAINT_KIND_RUNS, what, lasting=True, by=job.runs_on)

    def _hold(self, job: Tracked) -> PendingReason | None:
        if job.held is not None:
            return _hold(f"held{f': {job.held}' if job.held else ''}")
        if 0 < self.models.rules.now.most_requeues <= job.requeues:
            why = f", last: {job.put_back}" if job.put_back else ""
            put_back = f"was put back {job.requeues} times{why}"
            return _hold(f"{put_back}: release it when that is mended")
        if not 0 < self.models.rules.now.most_missed_starts <= job.missed_starts:
            return None
        missed = f"{job.missed_starts} starts of it were declined or not confirmed in time"
        return _hold(f"{missed}: release it when its resource manager starts jobs")

    def _unfit(self, job: Tracked) -> PendingReason | None:
        """That it fits on no declared cluster: what was accepted once waits until one is declared
        that holds it, what came while one was lost until that is known."""
        if not self.models.declared:
            return _reason(CONSTRAINT_KIND_MISFIT, "no cluster is declared")
        if not job.misfits:
            return None
        if job.admitted:
            what = f"{in_words(job.misfits)}, as declared now"
            return _reason(CONSTRAINT_KIND_MISFIT, what, lasting=True)
        lost = min(self.models.lost, default="")
        unless = f"rejected unless {lost or 'a cluster'}, which is lost, returns with more"
        what = f"{in_words(job.misfits)}: {unless}"
        return _reason(CONSTRAINT_KIND_LOST_CLUSTER, what, by=lost)

    def _empty(self, job: Tracked) -> PendingReason | None:
        """That its account has nothing left, by what is charged and what runs are reserved for."""
        account = job.job.account
        if account not in self.models.refused:
            return None
        what = f"account {account} has used up its {self.models.refused[account]}"
        return _reason(CONSTRAINT_KIND_ACCOUNT, what, by=account)

    def _too_many_jobs(self, job: Tracked) -> PendingReason | None:
        for subject, limit in self._limits_of(job):
            held = self.holdings.usage(subject)
            if not limit.allows_job(held):
                most = f"{subject.kind} {subject.name} may run {limit.jobs} jobs at once"
                figures, left = f" and runs {held.jobs}", limit.jobs - held.jobs
                return _at_limit(subject, most, figures, (1, left, JOBS))
        return None

    def _too_many_nodes(self, job: Tracked, nodes: int) -> PendingReason | None:
        for subject, limit in self._limits_of(job):
            held = self.holdings.usage(subject)
            if not limit.allows_nodes(held, nodes):
                most = f"{subject.kind} {subject.name} may hold {limit.nodes} nodes at once"
                figures = f", holds {held.nodes} and needs {nodes} more"
                return _at_limit(subject, most, figures, (nodes, limit.nodes - held.nodes, NODES))
        return None

    def _limits_of(self, job: Tracked) -> list[tuple[Subject, Limit]]:
        limits = self.models.limits
        return [(s, limits[s]) for s in subjects_of(job.job) if s in limits]


def _reason(
    kind: ConstraintKind.ValueType, what: str, *, lasting: bool = False, by: str = ""
) -> PendingReason:
    return PendingReason(Constraint(kind, what, by=by), lasting)


def _hold(what: str) -> PendingReason:
    """What lasts until somebody releases the job."""
    return _reason(CONSTRAINT_KIND_HOLD, what, lasting=True)


def _at_limit(
    subject: Subject, most: str, figures: str, counted: tuple[int, int, str]
) -> PendingReason:
    """What a subject may have at most, and of that what is needed and left, in a unit."""
    words = most + figures
    limit = Constraint(CONSTRAINT_KIND_LIMIT, words, *counted, by=subject.name)
    return PendingReason(limit, figures=figures)
