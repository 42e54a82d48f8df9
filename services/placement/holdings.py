"""Which jobs hold which nodes, and what users and accounts hold together."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from services.placement.jobs import Placed, Tracked
from services.placement.limits import Subject, Usage, subjects_of
from services.placement.occupancy import Occupancy
from shared.domain.cluster import Cluster
from shared.domain.job import JobState
from shared.scheduling.load import Load, NodeSet

NodeSetKey = tuple[str, int, tuple[int, ...]]


class Holdings:
    """A job holds its nodes from the decision on, and until it gives them up."""

    def __init__(self) -> None:
        self._occupancy: dict[str, Occupancy] = {}
        self._factors: Mapping[str, Mapping[int, float]] = {}
        self._jobs: dict[str, Tracked] = {}
        self._usage: dict[Subject, Usage] = defaultdict(Usage)
        self._changed: set[Subject] = set()

    def declare(self, cluster: Cluster) -> None:
        """A cluster was declared, or declared anew."""
        occupancy = self._occupancy.setdefault(cluster.name, Occupancy())
        occupancy.resize(cluster.nodes)
        occupancy.prefer(self._factors.get(cluster.name, {}))

    def prefer(self, factors: Mapping[str, Mapping[int, float]]) -> None:
        """Give nodes that draw less first: factors by cluster and index."""
        self._factors = factors
        for cluster, occupancy in self._occupancy.items():
            occupancy.prefer(factors.get(cluster, {}))

    def hold(self, job: Tracked, placed: Placed) -> None:
        """A job that holds nothing gets nodes."""
        job.placed = placed
        self._jobs[job.job.job_id] = job
        self._occupancy[placed.cluster].hold(placed.nodes)
        self._account(job, 1, len(placed.nodes))

    def release(self, job: Tracked) -> None:
        """A job gives up what it holds, if anything."""
        if job.placed is None:
            return
        self._occupancy[job.placed.cluster].release(job.placed.nodes)
        self._account(job, -1, -len(job.placed.nodes))
        del self._jobs[job.job.job_id]
        job.placed = None

    def room(self, cluster: str, count: int, host: str) -> tuple[tuple[int, ...], int | None]:
        """Nodes for a job and the node set that they are of: those of its host, or the free ones
        that draw least, which are of no node set yet."""
        beside = self._jobs[host].placed if host else None
        if beside is not None:
            return beside.nodes, beside.node_set
        return self._occupancy[cluster].best_free(count), None

    def usage(self, subject: Subject) -> Usage:
        """What a user or an account holds."""
        return self._usage.get(subject, Usage())

    def take_changed(self) -> set[Subject]:
        """Who holds more or less than at the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def granted(self) -> list[tuple[Tracked, Placed]]:
        """Jobs whose resource manager has not answered whether it starts them, by arrival."""
        jobs = (job for job in self._jobs.values() if job.state is JobState.GRANTED)
        return [(job, _placed(job)) for job in sorted(jobs, key=lambda job: job.arrival)]

    def without_draw(self) -> list[Tracked]:
        """Jobs of which nobody has estimated what they draw, by arrival."""
        jobs = (job for job in self._jobs.values() if _placed(job).draw_mw is None)
        return sorted(jobs, key=lambda job: job.arrival)

    def intruders(self, jobs: Iterable[tuple[Tracked, Placed]]) -> Iterator[tuple[str, str]]:
        """The ids of those of `jobs` on whose nodes another one runs, as its resource manager says,
        that shares none with them by decision; each with the other's id."""
        members = {key: len(jobs) for key, jobs in self._node_sets().items()}
        for job, placed in jobs:
            if self._occupancy[placed.cluster].most_holders(placed.nodes) > members[_key(placed)]:
                yield job.job.job_id, self._other(placed)

    def loads(self, app_number: Callable[[str], int]) -> dict[str, Load]:
        """What each cluster has, and who holds it."""
        loads = {name: Load(o.nodes, o.free) for name, o in self._occupancy.items()}
        for (cluster, _, _), jobs in self._node_sets().items():
            loads[cluster].node_sets.append(node_set_of(jobs, app_number))
        return loads

    def _node_sets(self) -> dict[NodeSetKey, list[Tracked]]:
        sets: dict[NodeSetKey, list[Tracked]] = defaultdict(list)
        for job in self._jobs.values():
            sets[_key(_placed(job))].append(job)
        return sets

    def _other(self, placed: Placed) -> str:
        mine = set(placed.nodes)
        return min(
            job.job.job_id
            for job in self._jobs.values()
            if _placed(job).cluster == placed.cluster
            and _key(_placed(job)) != _key(placed)
            and mine.intersection(_placed(job).nodes)
        )

    def _account(self, job: Tracked, jobs: int, nodes: int) -> None:
        for subject in subjects_of(job.job):
            before = self._usage[subject]
            after = Usage(before.jobs + jobs, before.nodes + nodes)
            self._usage[subject] = after
            if after == Usage():
                del self._usage[subject]
            self._changed.add(subject)


def _placed(job: Tracked) -> Placed:
    assert job.placed is not None
    return job.placed


def _key(placed: Placed) -> NodeSetKey:
    """The nodes tell apart a pair of which the resource manager started one elsewhere."""
    return placed.cluster, placed.node_set, placed.nodes


def node_set_of(jobs: Sequence[Tracked], app_number: Callable[[str], int]) -> NodeSet:
    """The nodes that these jobs share, or that one has; a shareable one alone can be joined, unless
    it was asked to go."""
    first, nodes = jobs[0].job, len(_placed(jobs[0]).nodes)
    release_s = max(_placed(job).ends_s for job in jobs)
    draw_mw = sum(_placed(job).draw_mw or 0 for job in jobs)
    if len(jobs) == 1 and first.shareable and not jobs[0].asked_back:
        app = app_number(first.app_id)
        return NodeSet(nodes, release_s, first.job_id, app, draw_mw=draw_mw)
    return NodeSet(nodes, release_s, draw_mw=draw_mw)
