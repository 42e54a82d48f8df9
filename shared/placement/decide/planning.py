"""What a planner reads of a region: its state, what waits, and how each job could run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.plans_pb2 import PlanItem

from shared.domain.cluster import Cluster
from shared.domain.pstates import same_ghz
from shared.domain.queue_order import QueueOrder
from shared.placement.budgets.joint_margin import JointMargin
from shared.placement.decide.choices import Choice
from shared.placement.decide.waiting_jobs import WaitingJobs
from shared.placement.evaluate.known_clusters import KnownClusters
from shared.placement.evaluate.modes import modes_of
from shared.placement.state.candidate import Candidate, Modes
from shared.placement.state.job_allocation import share_ran
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable
from shared.placement.state.model_store import ModelStore
from shared.placement.state.occupancy import Occupancy
from shared.scheduling.easy import holder_of
from shared.scheduling.lookahead import Waiting
from shared.scheduling.plan_evaluation import ExecutionMode, PlannedEntry, Running, Situation
from shared.scheduling.pool import Pool
from shared.scheduling.power import PowerBudget
from shared.scheduling.problem import nodes_worth
from shared.scheduling.run_share import expected_end_s
from shared.scheduling.wait_queue import Entry, tier_of

_Mode = tuple[int, int, int]
# The entries of a job without a plan, by cluster.
_Usual = Mapping[str, tuple[Choice, Entry]]


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """A region at an instant, for look-ahead. Clusters are numbered in the order of their names;
    nodes are counted whole, and of a job that has parts of nodes by its cores, rounded up.

    `candidates` are what a mode means, by (arrival, cluster, P-state).
    """

    clusters: Sequence[str]
    situation: Situation
    waiting: Mapping[int, Waiting]
    job_ids: Mapping[int, tuple[str, int]]
    candidates: Mapping[_Mode, Candidate]

    def items(self, plan: Iterable[PlannedEntry]) -> Iterator[PlanItem]:
        """Yield a plan as it is proposed, in the order in which it is served."""
        now_s = self.situation.now_s
        for planned in sorted(plan):
            mode = planned.mode
            candidate = self.candidates[planned.arrival, planned.cluster, mode.pstate]
            job_id, attempt = self.job_ids[planned.arrival]
            yield PlanItem(
                job_id=job_id,
                attempt=attempt,
                cluster=candidate.cluster,
                freq_ghz=candidate.freq_ghz,
                walltime_s=candidate.walltime_s,
                draw_w=candidate.draw_mw / 1000,
                tier=tier_of(planned.order),
                not_before_us=round(planned.from_s * 1e6) if planned.from_s > now_s else 0,
            )


class Planning:
    """Reads what a placement keeps, between rounds, and changes nothing."""

    def __init__(
        self,
        job_table: JobTable,
        waiting_jobs: WaitingJobs,
        models: ModelStore,
        clusters: KnownClusters,
        margin: JointMargin,
    ) -> None:
        self._job_table = job_table
        self._waiting_jobs = waiting_jobs
        self._models, self._clusters, self._margin = models, clusters, margin

    def problem(self, now_s: float, share: float, most_jobs: int) -> PlanningProblem:
        """Return the first jobs of the queue, by priority and arrival, and what runs: expected to
        take a `share` of its limits."""
        queued = dict(islice(self._queued(), most_jobs))
        jobs = [self._job_table.of_arrival(arrival) for arrival in queued]
        clusters = list(self._models.clusters.values())
        rules = self._models.rules.now
        modes = modes_of(jobs, self._clusters(), rules, worth_choosing_only=True)
        offered = _OfferedModes(clusters, modes)
        waiting = {job.arrival: _waiting(job, queued[job.arrival], offered) for job in jobs}
        return PlanningProblem(
            [cluster.name for cluster in clusters],
            self._situation(now_s, share, clusters),
            waiting,
            {job.arrival: (job.job.job_id, job.job.attempt) for job in jobs},
            offered.candidates,
        )

    def waits(self, job_id: str, attempt: int) -> bool:
        """Return whether this attempt of a job waits."""
        job = self._job_table.get(job_id)
        return job is not None and job.waits and job.job.attempt == attempt

    def share_of(self, message: JobFinished) -> float | None:
        """Return the part of its limit that a job ran for, asked before its finish is folded; None
        where it did not run, or nobody says for how long."""
        job = self._job_table.get(message.job_id)
        if job is None or job.job.attempt != message.attempt:
            return None
        return share_ran(job.run.allocation, message)

    def _queued(self) -> Iterator[tuple[int, _Usual]]:
        """Yield the jobs that wait for nodes alone, by arrival number, with their entries of no
        plan. Arrays are in none: an item of a plan would be of all their tasks. Where resource
        managers own the order there is nothing to plan."""
        if self._models.rules.now.order is QueueOrder.MANAGER:
            return
        jobs = [job for job in self._waiting_jobs.jobs() if job.progress is None]
        jobs.sort(key=lambda job: (-job.job.priority, job.arrival))
        for job in jobs:
            if usual := self._waiting_jobs.usual_entries(job):
                yield job.arrival, usual

    def _situation(self, now_s: float, share: float, clusters: Sequence[Cluster]) -> Situation:
        running: dict[int, Running] = {}
        for number, cluster in enumerate(clusters):
            running |= self._running(now_s, share, number, cluster.name)
            running |= _drained(number, self._job_table.allocations.occupancy[cluster.name])
        rooms = [Pool(self._nodes_of(cluster)) for cluster in clusters]
        return Situation(now_s, rooms, running, self._budgets(now_s))

    def _nodes_of(self, cluster: Cluster) -> int:
        """Return the nodes of a cluster but those that are drained until somebody resumes them."""
        return cluster.nodes - len(self._job_table.allocations.occupancy[cluster.name].never)

    def _budgets(self, now_s: float) -> Callable[[], Sequence[list[PowerBudget]]]:
        return lambda: [*self._margin.budgets(now_s).values()]

    def _running(
        self, now_s: float, share: float, number: int, cluster: str
    ) -> Iterator[tuple[int, Running]]:
        occupancy = self._job_table.allocations.occupancy[cluster]
        for arrival, release_s, draw_mw, nodes in _released(occupancy):
            placed = self._job_table.of_arrival(arrival).run.allocation
            assert placed is not None
            expected_s = release_s
            if release_s < inf:
                expected_s = expected_end_s(share, now_s, placed.since_s, placed.limit_s)
            yield arrival, Running(number, nodes, draw_mw / 1000, release_s, expected_s)


class _OfferedModes:
    """The modes that jobs may choose from, as look-ahead takes them."""

    def __init__(self, clusters: Sequence[Cluster], modes: Modes) -> None:
        self.clusters = clusters
        self.candidates: dict[_Mode, Candidate] = {}
        self._modes = modes

    def modes(self, job: JobRecord, number: int) -> tuple[ExecutionMode, ...]:
        """Return the modes of a job on a cluster that it fits on."""
        found = self._modes[job.job.job_id, self.clusters[number].name]
        return tuple([self.mode(job, number, candidate) for candidate in found])

    def mode(self, job: JobRecord, number: int, candidate: Candidate) -> ExecutionMode:
        """Return a candidate as a mode, which from now on means it."""
        cluster = self.clusters[number]
        pstate = next(
            (p for p, ghz in enumerate(cluster.pstates_ghz) if same_ghz(ghz, candidate.freq_ghz)),
            len(cluster.pstates_ghz),
        )
        self.candidates[job.arrival, number, pstate] = candidate
        idle_w = cluster.idle_power_w * nodes_worth(job.job, cluster, candidate.nodes)
        power_w = candidate.draw_mw / 1000 + idle_w
        return ExecutionMode(candidate.walltime_s, power_w, pstate, idle_w)


def _waiting(job: JobRecord, usual: _Usual, offered: _OfferedModes) -> Waiting:
    """Return a job as look-ahead takes it: it may run where it has an entry."""
    units, modes, entries = [], [], []
    for number, cluster in enumerate(offered.clusters):
        choice, entry = usual.get(cluster.name, (None, None))
        nodes = nodes_worth(job.job, cluster, choice.candidate.nodes) if choice else 0
        units.append(nodes)
        modes.append(offered.modes(job, number) if choice else ())
        if choice and entry:
            mode = offered.mode(job, number, choice.candidate)
            entries.append(PlannedEntry(entry.order, job.arrival, number, nodes, mode))
    asked = job.job
    columns = tuple(units), tuple(modes), tuple(entries)
    return Waiting(job.arrival, asked.submit_s, *columns, priority=asked.priority)


def _drained(number: int, occupancy: Occupancy) -> Iterator[tuple[int, Running]]:
    """Yield idle nodes that are drained until a time, as if something ran there without drawing."""
    for place, (back_s, nodes) in enumerate(occupancy.coming_back()):
        idle = Running(number, occupancy.idle(nodes), 0.0, back_s, back_s)
        yield holder_of(number, place), idle


def _released(occupancy: Occupancy) -> Iterator[tuple[int, float, int, int]]:
    """Yield arrival, release, draw and nodes of each job that runs: a node counts for the job that
    releases it last."""
    taken: set[int] = set(occupancy.never)
    for held in sorted(occupancy.held, key=lambda held: (-held.release_s, held.holder)):
        nodes = set(held.allocation.nodes) - taken
        taken |= nodes
        yield held.holder, held.release_s, held.draw_mw, len(nodes)
