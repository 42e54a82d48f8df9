"""The jobs that placement tracks and the nodes that they hold."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from coplace.v1.jobs_pb2 import JobFinished, JobRequeued, JobStarted, JobSubmitted

from services.placement.jobs import Placed, Tracked
from services.placement.model import Candidate
from services.placement.occupancy import Occupancy
from shared.domain.cluster import Cluster
from shared.domain.errors import RejectedError
from shared.domain.job import Job, JobFact, JobState, next_state
from shared.domain.node import node_index
from shared.messaging.domain_types import job_of
from shared.messaging.event import Event
from shared.messaging.stage import AlreadyAppliedError
from shared.policies.easy import Start
from shared.policies.load import Load, NodeSet

_PREFIX: Final = "job/"
_DAY_S: Final = 86_400.0


class Ledger:
    """Folds job events by the transition table.

    A job holds its nodes from the decision on, and until its finish or requeue. Ended jobs are
    remembered for a while, so that copies of their events are recognised. Folds raise
    RejectedError for what cannot be used and AlreadyAppliedError for copies and late facts.
    """

    def __init__(self, remember_days: float) -> None:
        self.by_arrival: dict[int, str] = {}
        self._remember_s = remember_days * _DAY_S
        self._jobs: dict[str, Tracked] = {}
        self._holding: dict[str, Tracked] = {}
        self._ended: list[tuple[float, str]] = []
        self._occupancy: dict[str, Occupancy] = {}
        self._next_arrival = 0
        self._unqueued: list[int] = []
        self._changed: set[str] = set()

    def restore(self, state: Mapping[str, bytes], clusters: Iterable[Cluster]) -> None:
        """Track what `changes` returned in earlier lives."""
        for cluster in clusters:
            self.declare(cluster)
        for key, value in state.items():
            if key.startswith(_PREFIX):
                self._adopt(Tracked.from_bytes(value))

    def changes(self) -> dict[str, bytes | None]:
        """Jobs that changed since the last call; None for those that are forgotten."""
        changed, self._changed = self._changed, set()
        found = ((job_id, self._jobs.get(job_id)) for job_id in sorted(changed))
        return {f"{_PREFIX}{job_id}": job.to_bytes() if job else None for job_id, job in found}

    def declare(self, cluster: Cluster) -> None:
        """A cluster was declared, or declared anew."""
        occupancy = self._occupancy.setdefault(cluster.name, Occupancy())
        occupancy.resize(cluster.nodes)

    def waiting(self) -> list[Tracked]:
        """Jobs that may be started, by arrival."""
        return sorted((j for j in self._jobs.values() if j.waits), key=lambda j: j.arrival)

    def is_waiting(self, job: Tracked) -> bool:
        """True while this attempt is the job's newest and may be started."""
        return job.waits and self.by_arrival.get(job.arrival) == job.job.job_id

    def take_unqueued(self) -> list[int]:
        """Arrival numbers that ceased to wait since the last call, by other means than `place`."""
        unqueued, self._unqueued = self._unqueued, []
        return unqueued

    def weigh(self, job: Tracked, candidates: tuple[Candidate, ...]) -> None:
        """Keep what a job's decisions weigh."""
        job.candidates = candidates
        self._changed.add(job.job.job_id)

    def submit(self, event: Event, message: JobSubmitted) -> Tracked:
        """A job, or a new attempt of one, arrived."""
        job = job_of(message)
        known = self._jobs.get(job.job_id)
        if known is not None and job.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        self._require_room(job)
        return self._track(job, event.traceparent)

    def requeue(self, event: Event, message: JobRequeued) -> Tracked:
        """The resource manager put a job back: its new attempt queues up at the end."""
        known = self._known(message.job_id)
        if message.attempt <= known.job.attempt:
            raise AlreadyAppliedError(event.id)
        return self._track(replace(known.job, attempt=message.attempt), known.traceparent)

    def start(self, event: Event, message: JobStarted) -> None:
        """The resource manager says where an attempt runs, and since when."""
        job, state = self._next(event, message.job_id, message.attempt, JobFact.STARTED)
        placed, nodes = job.placed, self._named_nodes(message)
        if placed is None or (placed.cluster, placed.nodes) != (message.cluster, nodes):
            limit_s = placed.limit_s if placed else job.job.walltime_s
            placed = Placed(message.cluster, nodes, job.arrival, limit_s, ends_s=0.0)
        job.state = state
        self._hold(job, replace(placed, ends_s=message.started_at_us / 1e6 + placed.limit_s))
        self._unqueued.append(job.arrival)

    def finish(self, event: Event, message: JobFinished) -> None:
        """An attempt ended, whatever we knew of its start: its nodes are free."""
        job, state = self._next(event, message.job_id, message.attempt, JobFact.FINISHED)
        self._release(job)
        job.state, job.ended_s = state, event.time_s
        heappush(self._ended, (event.time_s, job.job.job_id))
        self._unqueued.append(job.arrival)

    def place(self, start: Start, now_s: float) -> tuple[Tracked, Placed]:
        """Give a job its nodes: those of its host, or the free ones of the lowest indices."""
        job = self._jobs[self.by_arrival[start.entry.arrival]]
        host = self._holding[start.host].placed if start.host else None
        nodes = host.nodes if host else self._occupancy[start.cluster].lowest_free(job.job.nodes)
        node_set = host.node_set if host else job.arrival
        limit_s = start.entry.limit_s
        placed = Placed(start.cluster, nodes, node_set, limit_s, now_s + limit_s)
        self._hold(job, placed)
        return job, placed

    def loads(self, app_number: Callable[[str], int]) -> dict[str, Load]:
        """What each cluster has, and who holds it."""
        loads = {name: Load(o.nodes, o.free) for name, o in self._occupancy.items()}
        holders: dict[tuple[str, int], list[Tracked]] = defaultdict(list)
        for job in self._holding.values():
            if job.placed:
                holders[job.placed.cluster, job.placed.node_set].append(job)
        for (cluster, _), jobs in holders.items():
            loads[cluster].node_sets.append(node_set_of(jobs, app_number))
        return loads

    def forget(self, now_s: float) -> None:
        """Drop jobs that ended too long ago."""
        while self._ended and self._ended[0][0] < now_s - self._remember_s:
            ended_s, job_id = heappop(self._ended)
            job = self._jobs.get(job_id)
            if job is not None and job.ended_s == ended_s:
                del self._jobs[job_id], self.by_arrival[job.arrival]
                self._changed.add(job_id)

    def _adopt(self, job: Tracked) -> None:
        self._jobs[job.job.job_id] = job
        self.by_arrival[job.arrival] = job.job.job_id
        used = max(job.arrival, job.placed.node_set if job.placed else 0)
        self._next_arrival = max(self._next_arrival, used + 1)
        if job.placed is not None:
            self._holding[job.job.job_id] = job
            self._occupancy[job.placed.cluster].hold(job.placed.nodes)
        if job.ended_s is not None:
            heappush(self._ended, (job.ended_s, job.job.job_id))

    def _track(self, job: Job, traceparent: str) -> Tracked:
        """Put a new attempt in the place of the one before."""
        before = self._jobs.get(job.job_id)
        if before is not None:
            self._release(before)
            self._unqueued.append(before.arrival)
            del self.by_arrival[before.arrival]
        tracked = Tracked(job, self._next_arrival, traceparent)
        self._jobs[job.job_id] = tracked
        self.by_arrival[tracked.arrival] = job.job_id
        self._next_arrival += 1
        self._changed.add(job.job_id)
        return tracked

    def _hold(self, job: Tracked, placed: Placed) -> None:
        self._release(job)
        job.placed = placed
        self._holding[job.job.job_id] = job
        self._occupancy[placed.cluster].hold(placed.nodes)

    def _release(self, job: Tracked) -> None:
        self._changed.add(job.job.job_id)
        if job.placed is not None:
            self._occupancy[job.placed.cluster].release(job.placed.nodes)
            del self._holding[job.job.job_id]
            job.placed = None

    def _known(self, job_id: str) -> Tracked:
        if job_id not in self._jobs:
            raise RejectedError("job_id", f"{job_id[:80]!r} was never submitted: submit it first")
        return self._jobs[job_id]

    def _next(
        self, event: Event, job_id: str, attempt: int, fact: JobFact
    ) -> tuple[Tracked, JobState]:
        job = self._known(job_id)
        if attempt > job.job.attempt:
            problem = f"{attempt} is not known, the newest is {job.job.attempt}: requeue first"
            raise RejectedError("attempt", problem)
        state = next_state(job.state, fact)
        if attempt < job.job.attempt or state is job.state:
            raise AlreadyAppliedError(event.id)
        return job, state

    def _require_room(self, job: Job) -> None:
        if job.reference_cluster not in self._occupancy:
            problem = f"{job.reference_cluster!r} is not declared: known are {[*self._occupancy]}"
            raise RejectedError("reference_cluster", problem)
        largest = max(occupancy.nodes for occupancy in self._occupancy.values())
        if job.nodes > largest:
            problem = f"{job.nodes} are more than the largest cluster has, {largest}"
            raise RejectedError("nodes", problem)

    def _named_nodes(self, message: JobStarted) -> tuple[int, ...]:
        """Indices of the nodes that a start names; those decided when it names none."""
        if message.cluster not in self._occupancy:
            raise RejectedError("cluster", f"{message.cluster[:80]!r} is not declared")
        placed = self._jobs[message.job_id].placed
        if not message.nodes and placed is not None and placed.cluster == message.cluster:
            return placed.nodes
        if not message.nodes:
            raise RejectedError("nodes", "must be named: placement did not choose them")
        return tuple(sorted(node_index(message.cluster, name) for name in message.nodes))


def node_set_of(jobs: Sequence[Tracked], app_number: Callable[[str], int]) -> NodeSet:
    """The nodes that these jobs share, or that one has; a shareable one alone can be joined."""
    job = jobs[0].job
    release_s = max(job.placed.ends_s for job in jobs if job.placed)
    if len(jobs) == 1 and job.shareable:
        return NodeSet(job.nodes, release_s, job.job_id, app_number(job.app_id))
    return NodeSet(job.nodes, release_s)
