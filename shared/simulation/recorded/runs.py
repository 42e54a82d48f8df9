"""Jobs on the nodes that they share, each as fast as its neighbours let it be."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isnan

from coplace.v1.jobs_pb2 import JobFinished, JobStarted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.domain.errors import RejectedError
from shared.domain.job import Job
from shared.placement.model_store import ModelStore
from shared.scheduling.capacity import Group
from shared.scheduling.problem import unit_cores
from shared.scheduling.progress import Progress, slowest
from shared.scheduling.sharing import Member, Neighbours


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a job runs on: on each node of `nodes` so many `units`, each of `cores` cores."""

    cluster: str
    freq_ghz: float
    nodes: tuple[int, ...]
    units: tuple[int, ...]
    cores: int

    @property
    def all_cores(self) -> int:
        """Those of all its units."""
        return self.cores * sum(self.units)

    @property
    def most_cores_on_a_node(self) -> int:
        """Those of the node with most units."""
        return self.cores * max(self.units, default=0)

    @classmethod
    def of(cls, start: PlacementDecided) -> "Allotment":
        """What placement decided."""
        nodes = tuple(start.node_indices)
        units = tuple(start.node_units) or (1,) * len(nodes)
        return cls(start.cluster, start.freq_ghz, nodes, units, start.cores_per_node)


@dataclass(slots=True, eq=False)
class Run:
    """A job from its start to its end. `progress` is the work left; a job whose work nobody knows
    has infinitely much and ends at its `deadline_us`."""

    job: Job
    attempt: int
    allotment: Allotment
    started_us: int
    progress: Progress
    grant: int
    deadline_us: int | None = None
    settled_us: int = 0
    cores_on: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.settled_us = self.started_us
        placed = zip(self.allotment.nodes, self.allotment.units, strict=True)
        self.cores_on = {node: units * self.allotment.cores for node, units in placed}

    @property
    def ends_at_us(self) -> int:
        """When it ends if its neighbours stay as they are."""
        left_s = self.progress.remaining_s
        done_us = self.settled_us + max(0, round(left_s * 1e6)) if left_s < inf else None
        ends_us = min(us for us in (done_us, self.deadline_us) if us is not None)
        return max(ends_us, self.started_us + 1)

    def settle(self, now_us: int, slowdown_ratio: float) -> None:
        """From now on it runs at this slowdown."""
        self.progress.advance((now_us - self.settled_us) / 1e6)
        self.progress.slowdown_ratio, self.settled_us = slowdown_ratio, now_us


class Nodes:
    """Who runs where. Slowdowns are those that the degradation model predicts, none where it
    predicts nothing; a job advances at the pace of its slowest node."""

    def __init__(self, neighbours: Mapping[str, Neighbours]) -> None:
        self._neighbours = neighbours
        self._on: defaultdict[tuple[str, int], dict[str, Run]] = defaultdict(dict)
        self._slowdowns: dict[tuple[str, Member, Group], float] = {}

    def start(self, run: Run, now_us: int) -> list[Run]:
        """A run begins; it and those whose pace changes."""
        cluster = run.allotment.cluster
        for node in run.allotment.nodes:
            self._on[cluster, node][run.job.job_id] = run
        return [run, *self._settle(run, now_us)]

    def end(self, run: Run, now_us: int) -> list[Run]:
        """A run ends; those whose pace changes."""
        run.settle(now_us, 1.0)
        cluster = run.allotment.cluster
        for node in run.allotment.nodes:
            del self._on[cluster, node][run.job.job_id]
        return self._settle(run, now_us)

    def _settle(self, run: Run, now_us: int) -> list[Run]:
        """Bring those on the nodes of a run up to date, itself while it is there."""
        cluster = run.allotment.cluster
        touched: dict[str, Run] = {}
        for node in run.allotment.nodes:
            touched |= self._on[cluster, node]
        for each in touched.values():
            each.settle(now_us, self._pace(each))
        return [each for each in touched.values() if each is not run]

    def _pace(self, run: Run) -> float:
        cluster = run.allotment.cluster
        beside = {
            (cores, _group(self._on[cluster, node], node, run.job.job_id))
            for node, cores in run.cores_on.items()
            if len(self._on[cluster, node]) > 1
        }
        return slowest(self._slowdown(cluster, (run.job.app_id, c), group) for c, group in beside)

    def _slowdown(self, cluster: str, one: Member, others: Group) -> float:
        key = cluster, one, others
        if key not in self._slowdowns:
            found = self._neighbours[cluster].slowdown(one, others)
            self._slowdowns[key] = 1.0 if isnan(found) else found
        return self._slowdowns[key]


def _group(on: Mapping[str, Run], node: int, but: str) -> Group:
    """The applications and cores of those on a node, without one of them."""
    others = (run for job_id, run in on.items() if job_id != but)
    return tuple(sorted((other.job.app_id, other.cores_on[node]) for other in others))


@dataclass(frozen=True, slots=True)
class Observed:
    """A run of the record: where a job ran, and its end; None where it has not ended."""

    job: Job
    attempt: int
    allotment: Allotment
    started_us: int
    grant: int
    finished: JobFinished | None

    @property
    def ended_us(self) -> int | None:
        """When it ended: behind its start, also by a clock that counts whole seconds."""
        return max(self.finished.ended_at_us, self.started_us + 1) if self.finished else None


def observed_runs(
    jobs: Mapping[str, Job],
    started: Iterable[JobStarted],
    finished: Mapping[tuple[str, int], JobFinished],
    decisions: Sequence[PlacementDecided],
    models: ModelStore,
) -> dict[str, Observed]:
    """The last run of each job, by job id: where resource managers say, and where they do not tell
    nodes, as decided."""
    starts = {(d.job_id, d.attempt, d.grant): d for d in decisions if d.verdict == VERDICT_START}
    found: dict[str, Observed] = {}
    for message in started:
        job = jobs.get(message.job_id)
        if job is None or message.cluster not in models.clusters:
            continue
        decided = starts.get((message.job_id, message.attempt, message.grant))
        end = finished.get((message.job_id, message.attempt))
        with suppress(RejectedError):  # nodes that nobody declared: placement refused it too
            allotment = _allotment(message, job, decided, models)
            found[message.job_id] = Observed(
                job, message.attempt, allotment, message.started_at_us, message.grant, end
            )
    return found


def _allotment(
    message: JobStarted, job: Job, decided: PlacementDecided | None, models: ModelStore
) -> Allotment:
    cluster = models.clusters[message.cluster]
    if not message.nodes and decided is not None and decided.cluster == message.cluster:
        return Allotment.of(decided)
    nodes = tuple(models.node_names[message.cluster].in_order(message.nodes))
    units = tuple(message.node_units) or (1,) * len(nodes)
    freq_ghz = message.freq_ghz or (decided.freq_ghz if decided else cluster.nominal_ghz)
    return Allotment(message.cluster, freq_ghz, nodes, units, unit_cores(job, cluster))


def work_s(runs: Iterable[Observed], neighbours: Mapping[str, Neighbours]) -> dict[str, float]:
    """How long each run that ended would have taken alone, s, by job id: the slowdown that is
    predicted beside its neighbours of each moment is divided out."""
    nodes, work = Nodes(neighbours), {}
    live: dict[str, Run] = {}
    moments: list[tuple[int, bool, str, Observed]] = []
    for one in runs:
        moments.append((one.started_us, True, one.job.job_id, one))
        if one.ended_us is not None:
            moments.append((one.ended_us, False, one.job.job_id, one))
    for now_us, is_start, job_id, one in sorted(moments, key=lambda moment: moment[:3]):
        if is_start:
            live[job_id] = Run(
                one.job, one.attempt, one.allotment, now_us, Progress(0.0), one.grant
            )
            nodes.start(live[job_id], now_us)
        elif job_id in live:
            ended = live.pop(job_id)
            nodes.end(ended, now_us)
            work[job_id] = -ended.progress.solo_s_left
    return work
