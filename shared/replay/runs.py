"""Jobs on the nodes that they share, each as fast as its neighbours let it be."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf, isnan

from coplace.v1.jobs_pb2 import JobFinished, JobStarted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from coplace_client.errors import RejectedError
from coplace_client.millicores import PER_CORE, millicores
from shared.domain.job import Job
from shared.placement.state.model_store import ModelStore
from shared.scheduling.capacity import Group
from shared.scheduling.problem import unit_millicores
from shared.scheduling.progress import SUSPENDED, Progress, slowest
from shared.scheduling.sharing import Member, Neighbours

# What happens to a run, in the order in which it does at one time.
_ENDS, _STARTS, _CHANGES = range(3)


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a job runs on: on each node of `nodes` so many `units`, each of `millicores`
    thousandths of a core."""

    cluster: str
    freq_ghz: float
    nodes: tuple[int, ...]
    units: tuple[int, ...]
    millicores: int

    @property
    def all_millicores(self) -> int:
        """Return the thousandths of a core of all its units."""
        return self.millicores * sum(self.units)

    @property
    def all_cores(self) -> float:
        """Return the cores of all its units."""
        return self.all_millicores / PER_CORE

    @property
    def most_millicores_on_a_node(self) -> int:
        """Return the thousandths of a core of the node with most units."""
        return self.millicores * max(self.units, default=0)

    @classmethod
    def from_decision(cls, start: PlacementDecided) -> "Allotment":
        """Return what placement decided."""
        nodes = tuple(start.node_indices)
        units = tuple(start.node_units) or (1,) * len(nodes)
        of_unit = millicores(start.cores_per_node, start.millicores_per_unit)
        return cls(start.cluster, start.freq_ghz, nodes, units, of_unit)


@dataclass(slots=True, eq=False)
class Run:
    """A job from its start to its end. It takes `solo_s` alone at the P-state of its start, and
    `slowdown_ratio` times as long as things are; one whose work nobody knows takes infinitely long
    and ends at its `deadline_us`.

    `walltime_s` is the limit of a whole run at the present P-state `freq_ghz`, at which it takes
    `pace_ratio` times as long as at that of its start; it is suspended since `suspended_us`, None
    while it runs. `stretches` are begin and P-state (0: suspended) of those that are over.
    """

    job: Job
    attempt: int
    allotment: Allotment
    started_us: int
    grant: int
    solo_s: float = inf
    deadline_us: int | None = None
    walltime_s: float = 0.0
    pace_ratio: float = 1.0
    slowdown_ratio: float = 1.0
    suspended_us: int | None = None
    stretches: list[tuple[int, float]] = field(default_factory=list)
    freq_ghz: float = field(init=False)
    millicores_on: dict[int, int] = field(init=False)
    _since_us: int = field(init=False)

    def __post_init__(self) -> None:
        self._since_us = self.started_us
        self.freq_ghz = self.allotment.freq_ghz
        placed = zip(self.allotment.nodes, self.allotment.units, strict=True)
        self.millicores_on = {node: units * self.allotment.millicores for node, units in placed}

    @property
    def is_suspended(self) -> bool:
        """Return whether it is suspended."""
        return self.suspended_us is not None

    def act(self, now_us: int, freq_ghz: float, pace_ratio: float, *, suspended: bool) -> None:
        """Run on at another P-state, or be suspended or not."""
        self.stretches = self.intervals
        if self.deadline_us is not None and self.suspended_us is not None:
            self.deadline_us += now_us - self.suspended_us
        self._since_us, self.suspended_us = now_us, now_us if suspended else None
        self.freq_ghz, self.pace_ratio = freq_ghz, pace_ratio

    def limit(self, walltime_s: float, now_us: int) -> None:
        """Set the limit: a whole run may take so long at the P-state that it has from now on."""
        if self.deadline_us is not None:
            left_us = (self.deadline_us - now_us) * walltime_s / self.walltime_s
            self.deadline_us = now_us + round(left_us)
        self.walltime_s = walltime_s

    @property
    def intervals(self) -> list[tuple[int, float]]:
        """Begin and P-state (0: suspended) of each stretch of the run."""
        freq_ghz = 0.0 if self.is_suspended else self.freq_ghz
        return [*self.stretches, (self._since_us, freq_ghz)]


class Nodes:
    """The runs on each node. Slowdowns are those that the degradation model predicts, none where it
    predicts nothing; a job advances at the pace of its slowest node."""

    def __init__(self, neighbours: Mapping[str, Neighbours]) -> None:
        self._neighbours = neighbours
        self._on: defaultdict[tuple[str, int], dict[str, Run]] = defaultdict(dict)
        self._slowdowns: dict[tuple[str, Member, Group], float] = {}

    def start(self, run: Run) -> list[Run]:
        """Start a run; returns those whose slowdowns are new, it among them."""
        for node in run.allotment.nodes:
            self._on[run.allotment.cluster, node][run.job.job_id] = run
        return self._settle(run)

    def act(
        self, run: Run, now_us: int, freq_ghz: float, pace_ratio: float, *, suspended: bool
    ) -> list[Run]:
        """Act on a run; returns those whose slowdowns are new, it among them."""
        run.act(now_us, freq_ghz, pace_ratio, suspended=suspended)
        return self._settle(run)

    def end(self, run: Run) -> list[Run]:
        """End a run; returns those whose slowdowns are new."""
        for node in run.allotment.nodes:
            del self._on[run.allotment.cluster, node][run.job.job_id]
        return self._settle(run)

    def _settle(self, run: Run) -> list[Run]:
        """Bring those on the nodes of a run up to date."""
        touched: dict[str, Run] = {}
        for node in run.allotment.nodes:
            touched |= self._on[run.allotment.cluster, node]
        for each in touched.values():
            stands = each.is_suspended
            each.slowdown_ratio = SUSPENDED if stands else self._pace(each) * each.pace_ratio
        return list(touched.values())

    def _pace(self, run: Run) -> float:
        cluster = run.allotment.cluster
        beside = {
            (share, _group(self._on[cluster, node], node, run.job.job_id))
            for node, share in run.millicores_on.items()
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
    """Return the applications and millicores of the jobs that run on a node, without one of
    them."""
    others = (run for job_id, run in on.items() if job_id != but and not run.is_suspended)
    return tuple(sorted((other.job.app_id, other.millicores_on[node]) for other in others))


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
        """Return when it ended: behind its start, also by a clock that counts whole seconds."""
        return max(self.finished.ended_at_us, self.started_us + 1) if self.finished else None


def observed_runs(
    jobs: Mapping[str, Job],
    started: Iterable[JobStarted],
    finished: Mapping[tuple[str, int], JobFinished],
    decisions: Sequence[PlacementDecided],
    models: ModelStore,
) -> dict[str, Observed]:
    """Return the last run of each job, by job id: where resource managers say, and where they
    report no nodes, as decided."""
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
        return Allotment.from_decision(decided)
    nodes = tuple(models.node_names[message.cluster].in_order(message.nodes))
    units = tuple(message.node_units) or (1,) * len(nodes)
    freq_ghz = message.freq_ghz or (decided.freq_ghz if decided else cluster.nominal_ghz)
    return Allotment(message.cluster, freq_ghz, nodes, units, unit_millicores(job, cluster))


def work_s(
    runs: Iterable[Observed],
    neighbours: Mapping[str, Neighbours],
    pace: Callable[[Job, Allotment, float], float],
) -> dict[str, float]:
    """Return how long each run that ended would have taken alone at the P-state of its start, s, by
    job id: the slowdown that is predicted beside its neighbours of each moment is divided out, and
    so is its `pace` at another P-state over that at its start's."""
    nodes, work = Nodes(neighbours), {}
    live: dict[str, _Done] = {}
    for now_us, kind, job_id, one, ghz in sorted(_moments(runs), key=lambda moment: moment[:3]):
        if kind == _STARTS:
            run = Run(one.job, one.attempt, one.allotment, now_us, one.grant)
            live[job_id] = _Done(run, now_us)
            touched = nodes.start(run)
        elif job_id not in live:
            continue
        elif kind == _CHANGES:
            ratio = pace(one.job, one.allotment, ghz) if ghz else 1.0
            touched = nodes.act(live[job_id].run, now_us, ghz, ratio, suspended=not ghz)
        else:
            ended = live.pop(job_id)
            touched = nodes.end(ended.run)
            work[job_id] = ended.work_s(now_us)
        for each in touched:
            live[each.job.job_id].settle(now_us)
    return work


# When what happens, to which job, in which run, and at which P-state from then on.
_Moment = tuple[int, int, str, Observed, float]


def _moments(runs: Iterable[Observed]) -> Iterator[_Moment]:
    """Yield what happened to runs."""
    for one in runs:
        job_id = one.job.job_id
        yield one.started_us, _STARTS, job_id, one, one.allotment.freq_ghz
        if one.ended_us is not None and one.finished is not None:
            for each in one.finished.intervals[1:]:
                yield each.began_at_us, _CHANGES, job_id, one, each.freq_ghz
            yield one.ended_us, _ENDS, job_id, one, 0.0


@dataclass(slots=True)
class _Done:
    """What a run has done of its work, of which nobody knows how much it is."""

    run: Run
    as_of_us: int
    _progress: Progress = field(default_factory=lambda: Progress(0.0))

    def settle(self, now_us: int) -> None:
        """Note the work until now, and the slowdown from now on."""
        self._progress.advance((now_us - self.as_of_us) / 1e6)
        self._progress.slowdown_ratio, self.as_of_us = self.run.slowdown_ratio, now_us

    def work_s(self, now_us: int) -> float:
        """Return all that it has done, in seconds of running alone."""
        self.settle(now_us)
        return -self._progress.solo_s_left
