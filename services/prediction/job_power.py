"""What jobs drew, and what was predicted of them when they started."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from coplace.v1.prediction_pb2 import PowerHistoryUpdated, RunPowerPredicted

from coplace_client.bounds import NODE_POWER_W
from coplace_client.millicores import millicores
from services.prediction.publish import SOURCE, power_history_event, run_power_event
from services.prediction.tree_versions import TreeVersions
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.power_history import update_of, updated
from shared.domain.cluster import Cluster
from shared.domain.job import Job
from shared.domain.plausible_power import can_have_drawn, is_plausible
from shared.domain.resources import Resources
from shared.power_prediction.kinds import KindOfJob, size_of
from shared.power_prediction.online import (
    MOST_JUDGED,
    EndedJob,
    JudgedPrediction,
    LearnerProgress,
    Lesson,
    OnlineLearner,
)
from shared.power_prediction.similar_jobs import ORIGIN, PowerAtStart
from shared.streams.stages.stage import Round
from shared.streams.state.rows import RowCodec
from shared.streams.state.state import SingleRow, State

Metered = Callable[[str], float | None]


class JobOnCluster(NamedTuple):
    """A job at a P-state of a cluster, as far as its power depends on it."""

    cluster: str
    freq_ghz: float
    user: str
    app_id: str
    size: str
    walltime_s: float
    resources_per_unit: Resources = ()
    cores_per_unit: int = 0
    is_shareable: bool = False
    millicores_per_unit: int = 0

    @classmethod
    def from_job(cls, job: Job, cluster: str, freq_ghz: float) -> "JobOnCluster":
        """Return an attempt of a job that runs there."""
        asked = job.user, job.app_id, size_of(job), job.walltime_s
        unit = job.resources_per_unit, job.cores_per_unit, job.shareable, job.millicores_per_unit
        return cls(cluster, freq_ghz, *asked, *unit)

    def kind(self, clusters: Mapping[str, Cluster]) -> KindOfJob | None:
        """Return the kind of the job; None where its cluster is not declared, or not at such a
        P-state."""
        cluster = clusters.get(self.cluster)
        if cluster is None or self.freq_ghz not in cluster.pstates_ghz:
            return None
        of_unit = millicores(self.cores_per_unit, self.millicores_per_unit)
        accelerators_w = cluster.accelerators_of_node_w(
            self.resources_per_unit, of_unit, shareable=self.is_shareable
        )
        asked = self.user, self.app_id, self.size, self.walltime_s
        return KindOfJob(cluster.node_model, self.freq_ghz, *asked, accelerators_w)


class EndedRun(NamedTuple):
    """A run that ended: what each of its nodes drew for it, and how many cores it had there, both
    by the mean over its nodes; no power where its resource manager has no meter."""

    time_us: int
    key: str
    job_id: str
    job: JobOnCluster
    node_power_w: float | None
    cores_per_node: float

    def node_w(self, metered_w: float | None) -> float | None:
        """Return what each of its nodes drew for it, W, by what meters showed or else by what its
        resource manager charged."""
        return self.node_power_w if metered_w is None else metered_w

    def has_all(self, cluster: Cluster) -> bool:
        """Return whether it had its nodes for itself: a job on part of a node may draw little."""
        return not self.job.is_shareable and self.cores_per_node >= cluster.cores_per_node

    def is_charged_rightly(self, cluster: Cluster) -> bool:
        """Return whether nodes of its cluster can have drawn what its resource manager charged."""
        power_w = self.node_power_w or 0.0
        return power_w > 0 and can_have_drawn(cluster, power_w, in_use=self.has_all(cluster))

    def is_plausible_on(self, cluster: Cluster, metered_w: float | None) -> bool:
        """Return whether nodes of its cluster can have drawn that for it."""
        power_w = self.node_w(metered_w)
        return not power_w or is_plausible(cluster, power_w, in_use=self.has_all(cluster))

    def whole_node_w(self, clusters: Mapping[str, Cluster], metered_w: float | None) -> float:
        """Return what a node used whole would have drawn, by what its nodes' meters showed, or by
        what its resource manager charged: to a job on part of a node's cores that part of its
        power. 0 where nobody knows."""
        power_w = self.node_w(metered_w)
        if power_w is None:
            return 0.0
        return power_w * clusters[self.job.cluster].cores_per_node / self.cores_per_node


# The versions before said no thousandths of a core, and read as they were.
_STARTED: Final = RowCodec(JobOnCluster, version=2, previous=RowCodec(JobOnCluster).decode)
_ENDED: Final = RowCodec(EndedRun, version=2, previous=RowCodec(EndedRun).decode)


class PowerOutcome(StrEnum):
    """What came of the power of a run that ended."""

    LEARNED = "learned"
    # Neither meters nor the resource manager reported any, or reported 0.
    MISSING = "missing"
    # Energy and time, reported separately, give a power that no node of the cluster draws.
    IMPLAUSIBLE = "implausible"
    # Nobody declared the cluster, or that P-state of it.
    UNDECLARED = "undeclared"


class ExpectedPower(NamedTuple):
    """What was predicted of a job when it started."""

    kind: KindOfJob
    power: PowerAtStart


class JobPower:
    """Folds starts and ends. A prediction is made at the end of the round in which its job started,
    of what was published before; what ended in a round is learned at its end, in the order of
    (end, key)."""

    def __init__(self, state: State, alpha: float) -> None:
        self._history = state.table("power-history", PowerHistoryUpdated)
        self._judged = state.table("power-judged", JudgedPrediction)
        self._progress = state.value("power-progress", LearnerProgress)
        self._told = _told_number(state)
        self._started = state.table("power-started", _STARTED)
        self._expected = state.table("power-expected", ExpectedPower)
        self._ended = state.table("power-ended", _ENDED)
        # Clusters of which a resource manager reported energy that can have been drawn.
        self._metered = state.table("power-metered", bool)
        self._forget_other_origin()
        # Since this process has the unit: of runs that ended, and of predictions by the finest of
        # SHAPES of which jobs were known, empty where none was.
        self.outcomes: Counter[PowerOutcome] = Counter()
        self.known_shapes: Counter[str] = Counter()
        self.learner = OnlineLearner(
            alpha,
            [update_of(message) for message in self._history.values()],
            self._judged.values(),
            self._progress.get(),
        )
        self.versions = TreeVersions(state)
        self.learner.tables.take_trees(self.versions.in_force)

    def start(self, key: str, job: Job, cluster: str, freq_ghz: float) -> None:
        """Note that an attempt of a job started."""
        self._started.put(key, JobOnCluster.from_job(job, cluster, freq_ghz))

    def expected_w(self, key: str) -> float | None:
        """Return what a node used whole by an attempt was predicted to draw when it started."""
        expected = self._expected.get(key)
        return expected.power.predicted_w if expected else None

    def finish(self, key: str, run: EndedRun | None) -> None:
        """Note that an attempt ended; `run` is None where it had no power, or several."""
        if run is not None:
            self._ended.put(key, run)
            return
        for table in (self._started, self._expected):
            if key in table:
                table.drop(key)

    def end_round(
        self, ended: Round, clusters: Mapping[str, Cluster], metered_w: Metered
    ) -> list[Publish]:
        """Predict what started, learn from what ended, and publish the rows that changed.
        `metered_w` is what the meters of its nodes say of an attempt by key."""
        self._predict(clusters)
        runs = sorted(self._ended.values())
        instead = [self._instead(run, clusters) for run in runs]
        found = [self._taken(run, clusters, metered_w(run.key)) for run in runs]
        jobs = [job for job in found if job is not None]
        before = max(self.learner.tables.number, self._told.get() or 0)
        number = max(ended.ended_at_us, before + 1)
        lesson = self.learner.learn(jobs, number)
        published = [run_power_event(each, ended) for each in instead if each is not None]
        published += self._publish(lesson, ended)
        return published + self.versions.end_round(lesson.judged, self.learner, ended)

    def _predict(self, clusters: Mapping[str, Cluster]) -> None:
        """What started in the round, all at once."""
        started = [(key, job.kind(clusters)) for key, job in self._started.items()]
        found = [(key, kind) for key, kind in started if kind is not None]
        powers = self.learner.tables.predict_all([kind for _, kind in found])
        for (key, kind), power in zip(found, powers, strict=True):
            self.known_shapes[self.learner.tables.finest_shape(kind)] += 1
            if power is not None:
                self._expected.put(key, ExpectedPower(kind, power))
        for key, _ in started:
            self._started.drop(key)

    def _instead(self, run: EndedRun, clusters: Mapping[str, Cluster]) -> RunPowerPredicted | None:
        """Return what was predicted of a run whose energy is not believed; None where it is, where
        nothing was predicted, and where 0 J only say that nobody has a meter."""
        cluster, expected_w = clusters.get(run.job.cluster), self.expected_w(run.key)
        if cluster is None:
            return None
        if run.is_charged_rightly(cluster):
            if cluster.name not in self._metered:
                self._metered.put(cluster.name, True)
            return None
        if not expected_w or (run.node_power_w is None and cluster.name not in self._metered):
            return None
        node_w = expected_w * run.cores_per_node / cluster.cores_per_node
        attempt = int(run.key.rpartition("|")[2])
        return RunPowerPredicted(
            job_id=run.job_id,
            attempt=attempt,
            cluster=cluster.name,
            node_power_w=max(node_w, NODE_POWER_W.least),
        )

    def _taken(
        self, run: EndedRun, clusters: Mapping[str, Cluster], metered_w: float | None
    ) -> EndedJob | None:
        """None where nothing is known of where it ran, or of its power."""
        self._ended.drop(run.key)
        expected = self._expected.drop(run.key) if run.key in self._expected else None
        kind = run.job.kind(clusters)
        power_w = run.whole_node_w(clusters, metered_w) if kind else 0.0
        outcome = _outcome(kind, power_w)
        if kind and not run.is_plausible_on(clusters[run.job.cluster], metered_w):
            outcome = PowerOutcome.IMPLAUSIBLE
        self.outcomes[outcome] += 1
        if kind is None or outcome is not PowerOutcome.LEARNED:
            return None
        predicted = expected.power if expected and expected.kind == kind else None
        return EndedJob(run.job_id, kind, power_w, predicted)

    def _publish(self, lesson: Lesson, ended: Round) -> list[Publish]:
        if not lesson.taught:
            return []
        progress, scores = self.learner.progress, self.learner.scores
        messages = [updated(taught, progress.learned, scores) for taught in lesson.taught]
        published = [power_history_event(message, ended) for message in messages]
        for publish, message in zip(published, messages, strict=True):
            self._history.put(publish.event.key, message)
        self._remember(lesson, progress)
        return published

    def _remember(self, lesson: Lesson, progress: LearnerProgress) -> None:
        for kind in lesson.forgotten:
            self._history.drop(kind.name)
        for judged in lesson.judged:
            self._judged.put(f"{judged.number % MOST_JUDGED:05}", judged)
        self._progress.put(progress)

    def _forget_other_origin(self) -> None:
        """Rows that another version learned mean something else here."""
        for key, message in list(self._history.items()):
            if message.origin != ORIGIN:
                self._history.drop(key)


def recall_outputs(
    restored: Mapping[str, bytes], told: Iterable[Event], _next_round: int
) -> Mapping[str, bytes | None]:
    """Return the highest number of rows that were published: what is learned anew counts only
    behind it, and time may not have come that far where a clock was ahead."""
    state = State(restored)
    number, rows = _told_number(state), (each.payload for each in told if each.source == SOURCE)
    given = [row.number for row in rows if isinstance(row, PowerHistoryUpdated)]
    highest = max(given, default=0)
    if highest > (number.get() or 0):
        number.put(highest)
    return state.changes()


def _told_number(state: State) -> SingleRow[int]:
    """Return the highest number that was published before the state was restored."""
    return state.value("power-numbers", int)


def _outcome(kind: KindOfJob | None, power_w: float) -> PowerOutcome:
    if kind is None:
        return PowerOutcome.UNDECLARED
    if not power_w:
        return PowerOutcome.MISSING
    return PowerOutcome.LEARNED if NODE_POWER_W.has(power_w) else PowerOutcome.IMPLAUSIBLE
