"""What keeps a job, or one of its entries, out of the queue. Everything else waits for nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from shared.domain.array_tasks import MOST_TASKS, RunOfOrdinals
from shared.domain.job import jobs_of_parts
from shared.eamc.ranking import EXCLUDED
from shared.placement.budgets.cap_budgets import UnratedClusters
from shared.placement.decide.dependencies import Dependencies
from shared.placement.decide.limits_reached import LimitsReached
from shared.placement.decide.pending_reason import (
    AccountEmpty,
    AwaitsLostCluster,
    BeginsLater,
    ClusterClosed,
    FitsNoMore,
    HeldJob,
    LicencesLacking,
    MissesDeadline,
    NoCluster,
    NodesDrained,
    OwnReservation,
    PartitionDown,
    PendingReason,
    PowerUndeclared,
    RefusedThere,
    RequeuedTooOften,
    ReservationLacks,
    RunsUndeclared,
    StartsFailed,
    TasksLimitReached,
    is_lasting,
)
from shared.placement.decide.start_times import StartTimes
from shared.placement.state.allocations import Allocations
from shared.placement.state.candidate import Candidate
from shared.placement.state.closure import Closure
from shared.placement.state.declines import refused_outside, refused_to
from shared.placement.state.job_record import JobRecord
from shared.placement.state.licences import LicencePools
from shared.placement.state.limits import Subject, SubjectKind
from shared.placement.state.model_store import ModelStore
from shared.placement.state.reservations import NodeReservation, Reservations
from shared.placement.state.silent_managers import SilentManagers
from shared.scheduling.eligibility import NodeBits, RefusedToJob, partitions_of
from shared.scheduling.problem import fits_when_empty
from shared.scheduling.windows import Windows, is_within


@dataclass(frozen=True, slots=True)
class PendingReasons:
    """A function of what is known, so that a restart finds the same."""

    models: ModelStore
    managers: SilentManagers
    allocations: Allocations
    dependencies: Dependencies
    unrated: UnratedClusters
    times: StartTimes
    reservations: Reservations
    licences: LicencePools

    @property
    def limits(self) -> LimitsReached:
        """Return the comparison with limits."""
        return LimitsReached(self.models, self.allocations)

    @property
    def closed(self) -> Mapping[str, Closure]:
        """Return the clusters on which nothing new starts: lost and undeclared ones, and those of
        silent resource managers."""
        silent, closed = self.managers.silent, self.models.closed
        return {**silent, **closed} if silent else closed

    def closure(self, cluster: str) -> Closure | None:
        """Return why nothing new starts on a cluster; None where something may."""
        return self.models.closed.get(cluster) or self.managers.silent.get(cluster)

    def of_job(self, job: JobRecord) -> PendingReason | None:
        """Return what keeps all entries of a waiting job out; None when nothing does."""
        reason = (
            self._runs(job)
            or self._hold(job)
            or self._silent(job)
            or self._unfit(job)
            or self._in_vain(job)
            or (self._misses_deadline(job) if job.job.deadline_s else None)
            or self._waits(job)
        )
        reason = reason or (self._empty(job) if self.models.refused else None)
        reason = reason or (self._too_many_tasks(job) if job.job.array_at_most else None)
        return reason or (self.limits.in_jobs(job) if self.models.limits else None)

    def tasks_left(self, array: JobRecord) -> Iterable[RunOfOrdinals]:
        """Return the tasks that are left in an array and wait for no task of another one: all,
        where one condition is enough, and one is met that is not of tasks."""
        assert array.progress is not None
        if array.job.depends_on_any and self.dependencies.has_met(array):
            return array.progress.left
        awaited = (each.job_id for each in array.life.awaits if each.is_of_tasks)
        return array.progress.eligible(awaited, is_any=array.job.depends_on_any)

    def most_tasks(self, array: JobRecord) -> int:
        """Return how many more tasks of an array may have nodes, by its own limit and those on
        jobs: what starts in a pass is compared with them again."""
        most = [*self.limits.most_jobs(array)]
        if array.job.array_at_most:
            most.append(array.job.array_at_most - self._running_tasks(array))
        return min(most, default=MOST_TASKS)

    def may_keep_entries_out(self, job: JobRecord) -> bool:
        """Return whether anything but power that nobody knows could keep an entry of a job out that
        nothing keeps out everywhere, or a part of its nodes: most often nothing could."""
        models, asked = self.models, job.job
        return bool(
            models.closed
            or self.managers.silent
            or models.limits
            or models.with_down_partitions
            or self.allocations.reduced
            or job.declined
            or asked.reservation
            or asked.licences
            or asked.deadline_s
        )

    def of_entry(self, job: JobRecord, candidate: Candidate) -> PendingReason | None:
        """Return what keeps the entry for this cluster out; None when nothing does."""
        cluster = candidate.cluster
        if (closure := self.closure(cluster)) is not None:
            return ClusterClosed(cluster, closure)
        if (nowhere := self._nowhere(job, candidate)) is not None:
            return nowhere
        if self._is_drained(job, candidate):
            return NodesDrained(cluster)
        time_left_s = job.job.time_left_s(self.times.now_s) if job.job.deadline_s else inf
        if time_left_s < candidate.walltime_s:
            return _deadline_missed(job, candidate)
        if candidate.power_unknown and (cap := self.unrated.cap_over(cluster)):
            return PowerUndeclared(cluster, cap)
        if not self.models.limits:
            return None
        on = self.models.clusters[cluster]
        return self.limits.on_cluster(job, on, candidate.nodes) or self._no_partition(
            job, candidate
        )

    def unranked_clusters(self, job: JobRecord) -> frozenset[str]:
        """Return the clusters that a job is not ranked among: closed ones, and those that do not
        hold it until somebody resumes nodes, declares a partition up or another limit of the site,
        or grants what was refused."""
        closed = frozenset(self.closed)
        asked = job.job
        if asked.reservation or asked.licences or job.declined or self.models.with_down_partitions:
            there = (c for c in job.evaluated.candidates if self._nowhere(job, c) is not None)
            closed = closed.union(candidate.cluster for candidate in there)
        if self.models.limited_sites:
            closed = closed.union(self._too_limited(job))
        if not self.allocations.reduced:
            return closed
        drained = (c.cluster for c in job.evaluated.candidates if self._is_drained(job, c))
        return closed.union(drained)

    def _too_limited(self, job: JobRecord) -> Iterable[str]:
        """Yield the clusters of whose sites a limit never allows the job."""
        for each in job.evaluated.candidates:
            on = self.models.clusters[each.cluster]
            if self.limits.is_too_much(job, on, each.nodes):
                yield each.cluster

    def _is_drained(self, job: JobRecord, candidate: Candidate) -> bool:
        """Return whether the job does not fit on what drains, refusals and partitions that are down
        leave of a cluster until somebody acts."""
        name, allocations = candidate.cluster, self.allocations
        if name not in allocations.reduced:
            return False
        refused = self.refused_on(job, name)
        return not allocations.can_hold(name, job.job, candidate.nodes, refused)

    def _nowhere(self, job: JobRecord, candidate: Candidate) -> PendingReason | None:
        """Return what keeps a job from all nodes of a cluster: partitions that are down, or what
        its resource manager refused it."""
        name, declined = candidate.cluster, job.declined_on(candidate.cluster)
        if (lacking := self._asked_for_in_vain(job, candidate)) is not None:
            return lacking
        if declined is None and name not in self.models.with_down_partitions:
            return None
        if declined is not None and declined.closes is not None:
            return RefusedThere(name, declined.closes.words)
        on, asked = self.models.clusters[name], job.job
        if declined is not None and not fits_when_empty(
            asked, on, candidate.nodes, declined.refused
        ):
            if fits_when_empty(asked, on, candidate.nodes):
                return RefusedThere(name, declined.words)
        elif fits_when_empty(asked, on, candidate.nodes):
            return None
        jobs = jobs_of_parts(asked)
        asked_of = dict.fromkeys(each for job in jobs for each in partitions_of(job, on))
        down = [each.name for each in asked_of if each.down]
        return PartitionDown(name, down) if down else None

    def _asked_for_in_vain(
        self, job: JobRecord, candidate: Candidate
    ) -> OwnReservation | LicencesLacking | None:
        """Return that a cluster has not the reservation or the licences that a job asks for."""
        lacking: OwnReservation | LicencesLacking | None = None
        if job.job.reservation:
            lacking = self._in_reservation(job, candidate)
        if job.job.licences and lacking is None:
            lacking = self._licences_lacking(job, candidate)
        return lacking

    def refused_on(self, job: JobRecord, cluster: str) -> RefusedToJob:
        """Return what a job may not have on a cluster: what a resource manager refused it, and
        nodes that are not of its reservation."""
        refused, name = refused_to(job.declined_on(cluster)), job.job.reservation
        if not name:
            return refused
        found = self.reservations.find(cluster, name)
        nodes = 0 if found is None else self.reservations.nodes_of(found)
        return refused_outside(refused, name, nodes)

    def closed_on(self, job: JobRecord, cluster: str, units: int) -> RefusedToJob:
        """Return what so many units of a job may not have on a cluster now: what it may never have,
        and partitions that are at a limit."""
        refused = self.refused_on(job, cluster)
        at_limit = self.limits.in_partitions(job, self.models.clusters[cluster], units)
        if not at_limit:
            return refused
        return refused._replace(partitions=tuple({**dict.fromkeys(refused.partitions), **at_limit}))

    def reservations_of(self, job: JobRecord) -> list[NodeReservation]:
        """Return the reservations of the name that a job asks for, of all its clusters."""
        found = (
            self.reservations.find(each.cluster, job.job.reservation)
            for each in job.evaluated.candidates
        )
        return [each for each in found if each is not None]

    def _in_vain(self, job: JobRecord) -> PendingReason | None:
        """Return why no cluster on which a job fits has the reservation and the licences that it
        asks for: of the one that lacks least, which has the reservation if any has."""
        if not (job.job.reservation or job.job.licences):
            return None
        fitting = [each for each in job.evaluated.candidates if each.part_eff < inf]
        lacking = [self._asked_for_in_vain(job, each) for each in fitting]
        if None in lacking:
            return None
        if licences := [each for each in lacking if isinstance(each, LicencesLacking)]:
            return min(licences, key=_licences_short)
        if not job.job.reservation:
            return None
        order = [*ReservationLacks]
        return min(
            (each for each in lacking if isinstance(each, OwnReservation)),
            key=lambda each: (order.index(each.lacks), each.at_s, each.cluster),
            default=OwnReservation(job.job.reservation, ReservationLacks.UNKNOWN),
        )

    def _in_reservation(self, job: JobRecord, candidate: Candidate) -> OwnReservation | None:
        """Return why a job may not run in the reservation that it asks for, on a cluster."""
        name, cluster, now_s = job.job.reservation, candidate.cluster, self.times.now_s
        if cluster not in self.models.declared:
            return OwnReservation(name, ReservationLacks.UNKNOWN)
        own = self.reservations.find(cluster, name)
        if own is None:
            return OwnReservation(name, ReservationLacks.UNKNOWN)
        if own.until_s <= now_s:
            return OwnReservation(name, ReservationLacks.ENDED, cluster, own.until_s)
        if not own.admits(job.job):
            return OwnReservation(name, ReservationLacks.NOT_FOR_JOB, cluster)
        start_s = max(now_s, own.from_s)
        if not is_within(own.from_s, own.until_s, start_s, start_s + candidate.walltime_s):
            return OwnReservation(name, ReservationLacks.TOO_SHORT, cluster, own.until_s)
        on, refused = self.models.clusters[cluster], self.refused_on(job, cluster)
        if not fits_when_empty(job.job, on, candidate.nodes, refused):
            return OwnReservation(name, ReservationLacks.TOO_FEW_NODES, cluster)
        return None

    def _licences_lacking(self, job: JobRecord, candidate: Candidate) -> LicencesLacking | None:
        """Return the licences of which a job needs more than a cluster can ever give it."""
        on = self.models.clusters[candidate.cluster]
        lacks = self.licences.lacking_on(on, job.job.licences)
        return None if lacks is None else LicencesLacking(candidate.cluster, *lacks)

    def _runs(self, job: JobRecord) -> PendingReason | None:
        return RunsUndeclared(job.run.runs_on) if job.run.runs_on else None

    def _hold(self, job: JobRecord) -> PendingReason | None:
        policy, life = self.models.rules.now, job.life
        if job.requests.held is not None:
            return HeldJob(job.requests.held)
        if 0 < policy.most_requeues <= life.requeues:
            return RequeuedTooOften(life.requeues, life.requeued_because)
        if 0 < policy.most_missed_starts <= job.grants.missed_starts:
            return StartsFailed(job.grants.missed_starts)
        return None

    def _silent(self, job: JobRecord) -> PendingReason | None:
        """Return that the resource manager that queues the job is silent: it may start it by
        itself."""
        home, silent = job.job.home_cluster, self.managers.silent
        return ClusterClosed(home, silent[home]) if home in silent else None

    def _unfit(self, job: JobRecord) -> PendingReason | None:
        """Return that the job fits on no declared cluster: what was accepted once waits until one
        is declared that holds it, what came while one was lost until that is known."""
        if not self.models.declared:
            return NoCluster()
        misfits = job.evaluated.misfits
        if not misfits:
            return None
        if job.evaluated.admitted:
            return FitsNoMore(misfits)
        return AwaitsLostCluster(misfits, min(self.models.lost, default=""))

    def _misses_deadline(self, job: JobRecord) -> PendingReason | None:
        """Return that the job can end by its deadline nowhere, since it is late for all limits."""
        ranked = self._ranked_now(job)
        if not ranked:
            return None
        shortest = min(ranked, key=lambda each: (each.walltime_s, each.cluster))
        from_s = max(self.times.now_s, job.job.begin_s)
        starts_s = {each.cluster: self._opens_s(job, each, from_s) for each in ranked}
        if any(each.walltime_s <= job.job.time_left_s(starts_s[each.cluster]) for each in ranked):
            return None
        kept_by, kept_until_s = self._kept_before_deadline(job, shortest)
        missed = _deadline_missed(job, shortest)
        return replace(missed, kept_by=kept_by, kept_until_s=kept_until_s)

    def _kept_before_deadline(self, job: JobRecord, on: Candidate) -> tuple[str, float]:
        """Return what keeps a job from its latest start by its deadline on a cluster, and until
        when: of no time, so that it stays the same. Its name is empty where nothing does."""
        windows, reservation = self.reservations.windows(on.cluster), job.job.reservation
        span = reservation, job.job.deadline_s - on.walltime_s, job.job.deadline_s
        own = windows.find(reservation)
        if own is not None and span[1] < own.from_s:
            return own.name, own.from_s
        refused = self.refused_on(job, on.cluster)
        left = refused._replace(nodes=refused.nodes | windows.shut(*span))
        against = windows.against(*span)
        declared = self.models.clusters[on.cluster]
        if not against or fits_when_empty(job.job, declared, on.nodes, left):
            return "", 0.0
        last = max(against, key=lambda each: (each.until_s, each.name))
        return last.name, last.until_s

    def _opens_s(self, job: JobRecord, candidate: Candidate, from_s: float) -> float:
        """Return when, from a time on, a job could start on a cluster if nothing ran there: it may
        have to wait for what is reserved for others, and for its own reservation."""
        windows = self.reservations.windows(candidate.cluster)
        if not windows.any:
            return from_s
        refused = self.refused_on(job, candidate.cluster)
        asked = job.job.job_id, job.job.attempt, candidate.nodes, candidate.walltime_s, refused
        start_s = windows.first_start_s(asked, from_s)
        if start_s is None:
            start_s = self._first_start_s(job, candidate, windows, refused, from_s)
            windows.note_first_start(asked, from_s, start_s)
        return start_s

    def _first_start_s(
        self,
        job: JobRecord,
        candidate: Candidate,
        windows: Windows,
        refused: RefusedToJob,
        from_s: float,
    ) -> float:
        """Return the first start between windows from a time on; infinite where none ends by the
        deadline."""
        on, too_few = self.models.clusters[candidate.cluster], set[NodeBits]()
        while candidate.walltime_s <= job.job.time_left_s(from_s):
            span = job.job.reservation, from_s, from_s + candidate.walltime_s
            nodes = refused.nodes | windows.shut(*span)
            there = refused._replace(nodes=nodes)
            if nodes not in too_few and fits_when_empty(job.job, on, candidate.nodes, there):
                return from_s
            too_few.add(nodes)
            from_s = windows.opens_s(*span)
        return inf

    def _ranked_now(self, job: JobRecord) -> list[Candidate]:
        """Return the candidates that a job may have entries for: those that it was ranked on when
        it came, else all that are left while one of these is out of reach."""
        candidates = job.evaluated.candidates
        ranked = [each for each in candidates if each.rank != EXCLUDED]
        gone = self.unranked_clusters(job)
        if gone.isdisjoint(each.cluster for each in ranked):
            return ranked
        left = [each for each in candidates if each.part_eff < inf and each.cluster not in gone]
        return left or ranked

    def _waits(self, job: JobRecord) -> PendingReason | None:
        """Return what the job waits for: the hopeless first, then its begin."""
        dependency = self.dependencies.pending_reason(job)
        if job.job.begin_s <= self.times.now_s or (dependency and is_lasting(dependency)):
            return dependency
        return BeginsLater(job.job.begin_s)

    def _empty(self, job: JobRecord) -> PendingReason | None:
        """Return that its account has nothing left, by what is charged and what runs are reserved
        for."""
        account, refused = job.job.account, self.models.refused
        return AccountEmpty(account, refused[account]) if account in refused else None

    def _too_many_tasks(self, job: JobRecord) -> PendingReason | None:
        most, running = job.job.array_at_most, self._running_tasks(job)
        array_id = job.job.array_id or job.job.job_id
        return TasksLimitReached(array_id, most, running) if running >= most else None

    def _running_tasks(self, job: JobRecord) -> int:
        array_id = job.job.array_id or job.job.job_id
        return self.allocations.usage(Subject(SubjectKind.ARRAY, array_id)).jobs

    def _no_partition(self, job: JobRecord, candidate: Candidate) -> PendingReason | None:
        """Return the limit for which a job has too few nodes in the partitions of a cluster; None
        where those that are at none have enough."""
        on, units = self.models.clusters[candidate.cluster], candidate.nodes
        at_limit = self.limits.in_partitions(job, on, units)
        if not at_limit:
            return None
        closed = self.closed_on(job, on.name, units)
        fits = fits_when_empty(job.job, on, units, closed)
        return None if fits else next(iter(at_limit.values()))


def _licences_short(lacking: LicencesLacking) -> tuple[bool, int, str]:
    """Return by what a cluster comes before others that lack licences too."""
    return lacking.total is None, lacking.needed - (lacking.total or 0), lacking.cluster


def _deadline_missed(job: JobRecord, on: Candidate) -> MissesDeadline:
    """Return that the job misses its deadline on a cluster: of no time, so that it stays the
    same."""
    earliest_s = max(job.job.submit_s, job.job.begin_s) + on.walltime_s
    return MissesDeadline(job.job.deadline_s, on.cluster, on.walltime_s, earliest_s)
