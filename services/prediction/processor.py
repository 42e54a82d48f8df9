"""Folds what was measured into versions of the models. A single stage."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ModelPinned,
    ModelRolledBack,
    PowerCapDeclared,
)
from coplace.v1.jobs_pb2 import (
    JobActionDone,
    JobFinished,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import ShuttersMeasured, SignatureMeasured
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.prediction.facts import (
    pair_of,
    run_of,
    traffic_of,
)
from services.prediction.job_power import JobPower
from services.prediction.meters import ReadMeters
from services.prediction.model import train_weights
from services.prediction.node_power import NodePower
from services.prediction.pair_versions import PairVersions
from services.prediction.publish import degradation_event, power_event
from services.prediction.state import (
    FinishedRun,
    MeanReading,
    Remembered,
    Traffic,
    TrainingProgress,
)
from services.prediction.training import (
    fallback_power_w,
    in_order,
    new_examples,
    pair_examples,
    pair_rows,
)
from shared.arrays.known_arrays import KnownArrays
from shared.catalogue.event import Event, Publish
from shared.catalogue.payloads.domain_types import cluster_of, job_of
from shared.catalogue.schemas import names_of
from shared.domain.cluster import MOST_CLUSTERS, Cluster, require_few_clusters
from shared.domain.model_names import PAIR_TREES
from shared.domain.plausible_power import is_plausible
from shared.models.degradation import PRIOR_WEIGHTS
from shared.power_prediction.online import OnlineLearner
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.state import State, Table

CONSUMES: Final = names_of(
    NodePowerMeasured,
    SignatureMeasured,
    ShuttersMeasured,
    ClusterDeclared,
    PowerCapDeclared,
    ModelPinned,
    ModelRolledBack,
    JobSubmitted,
    JobRequeued,
    JobSeized,
    JobStarted,
    JobFinished,
    JobActionDone,
)
# The least that a model is trained on; from there on it is trained again whenever there is twice as
# much, so that the cost of training stays in proportion to that of measuring.
MIN_RUNS: Final = 50
MIN_PAIRS: Final = 20
# Older runs and pairs are dropped for newer ones, some at a time. A copy of a fact that was
# forgotten counts once more.
REMEMBERED: Final = 20_000
FORGOTTEN_AT_ONCE: Final = 2_000
# Twice what clusters can declare: meters also name node models.
MOST_NODE_MODELS: Final = 2 * MOST_CLUSTERS


class Prediction:
    """Trains at a round's end, on rows in the order of (event time, id): the same whatever the
    order and the copies in which the facts of a round arrive."""

    def __init__(self, restored: Mapping[str, bytes], alpha: float = 0.1) -> None:
        self._state = State(restored)
        self._remembered = Remembered(self._state)
        self._arrays = KnownArrays(self._state)
        self._job_power = JobPower(self._state, alpha)
        self._pair_versions = PairVersions(self._state)
        self._node_power = NodePower(self._state)
        self._meters = ReadMeters(self._state)
        self._state.require_all_read()
        for cluster in self._remembered.clusters.values():
            self._meters.declare(cluster)
        self._node_models = set(fallback_power_w(self._remembered))
        # Since this process has the unit: what no node of the cluster draws.
        self.implausible_readings = 0

    def handle(self, event: Event) -> Iterable[Publish]:
        """Remember one fact. Raises RejectedError for bad input, AlreadyAppliedError for a copy."""
        self._follow(event.payload)
        match event.payload:
            case NodePowerMeasured() as message:
                self._read(event, message)
            case SignatureMeasured() as message:
                self._measure(event, message)
            case ShuttersMeasured() as message:
                self._pair(event, message)
            case ClusterDeclared() as message:
                self._declare(message)
            case PowerCapDeclared() as message:
                self._meters.cap(message)
            case ModelPinned() | ModelRolledBack() as message:
                self._order(event, message)
        return []

    def _follow(self, message: Message) -> None:
        """What happened to a job."""
        match message:
            case JobSubmitted():
                self._submit(message)
            case JobRequeued():
                self._next_attempt(message.job_id, message.attempt, message.requeued_at_us)
            case JobSeized():
                self._next_attempt(message.job_id, message.attempt + 1, message.seized_at_us)
            case JobStarted():
                self._begin_task(message.job_id)
                self._start(message)
            case JobFinished():
                self._begin_task(message.job_id)
                self._finish(message)
                self._end_array(message.job_id)
            case JobActionDone():
                self._node_power.changed(_attempt(message.job_id, message.attempt))

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish the models that are due: both in the first round, then by what was measured."""
        before = self._remembered.progress.get()
        progress = before or TrainingProgress()
        clusters = {cluster.name: cluster for cluster in self._remembered.clusters.values()}
        published = self._node_power.end_round(ended, clusters, self._job_power.expected_w)
        published += self._meters.end_round(ended)
        published += self._job_power.end_round(ended, clusters, self._node_power.metered_w)
        self._node_power.forget_ended()
        # Before weights are learned anew: those that hold know nothing of the round.
        published += self._end_round_of_pairs(progress, ended)
        if before is None or self._power_is_due(progress):
            event, progress = self._power(progress, ended)
            published.append(event)
        if before is None or self._degradation_is_due(progress):
            event, progress = self._degradation(progress, ended)
            published.append(event)
        progress = progress._replace(
            forgotten_runs=progress.forgotten_runs + _forget_oldest(self._remembered.runs),
            forgotten_pairs=progress.forgotten_pairs + _forget_oldest(self._remembered.pairs),
        )
        if progress != before:
            self._remembered.progress.put(progress)
        return published

    def changes(self) -> Mapping[str, bytes | None]:
        """Return records of what changed."""
        return self._state.changes()

    def _end_round_of_pairs(self, progress: TrainingProgress, ended: Round) -> list[Publish]:
        remembered = self._remembered
        return self._pair_versions.end_round(
            new_examples(remembered),
            remembered.weights.get() or PRIOR_WEIGHTS,
            self._pairs(progress),
            lambda: pair_examples(remembered),
            ended,
        )

    @property
    def power_learner(self) -> OnlineLearner:
        """Return the learner of what jobs draw."""
        return self._job_power.learner

    @property
    def job_power(self) -> JobPower:
        """Return the counts of predicted and drawn power of jobs."""
        return self._job_power

    def _power_is_due(self, progress: TrainingProgress) -> bool:
        """A node model that nothing was said of, or enough new runs."""
        if progress.node_models != tuple(sorted(self._node_models)):
            return True
        return _is_due(self._runs(progress), progress.runs, MIN_RUNS)

    def _degradation_is_due(self, progress: TrainingProgress) -> bool:
        return _is_due(self._pairs(progress), progress.pairs, MIN_PAIRS)

    def _runs(self, progress: TrainingProgress) -> int:
        return progress.forgotten_runs + len(self._remembered.runs)

    def _pairs(self, progress: TrainingProgress) -> int:
        return progress.forgotten_pairs + len(self._remembered.pairs)

    def _power(self, progress: TrainingProgress, ended: Round) -> tuple[Publish, TrainingProgress]:
        fallback_w = fallback_power_w(self._remembered)
        # A node model that was corrected is not waited for again in every round.
        self._node_models = set(fallback_w)
        event = power_event(fallback_w, ended)
        runs = self._runs(progress) if self._runs(progress) >= MIN_RUNS else 0
        return event, progress._replace(runs=runs, node_models=tuple(sorted(fallback_w)))

    def _degradation(
        self, progress: TrainingProgress, ended: Round
    ) -> tuple[Publish, TrainingProgress]:
        features, slowdown = pair_rows(self._remembered)
        trained = train_weights(features, slowdown) if len(slowdown) >= MIN_PAIRS else None
        event = degradation_event(trained, len(slowdown) if trained else 0, ended)
        self._remembered.weights.put(trained.weights if trained else PRIOR_WEIGHTS)
        pairs = self._pairs(progress) if self._pairs(progress) >= MIN_PAIRS else 0
        return event, progress._replace(pairs=pairs)

    def _submit(self, message: JobSubmitted) -> None:
        key = _attempt(message.job_id, message.attempt)
        known = self._remembered.jobs.get(key)
        is_newer = known is None or message.changed_at_us > known.changed_at_us
        if not is_newer or key in self._remembered.runs:
            raise AlreadyAppliedError(key)
        self._arrays.submit(message)
        self._remembered.jobs.put(key, job_of(message))

    def _begin_task(self, job_id: str) -> None:
        """Remember the first attempt of a task of an array: it asks for what the array says."""
        array_id, key = self._arrays.array_of(job_id), _attempt(job_id, 1)
        if array_id is None or key in self._remembered.jobs or key in self._remembered.runs:
            return
        array = self._remembered.jobs.get(_attempt(array_id, 1))
        if array is not None:
            self._remembered.jobs.put(
                key, replace(array, job_id=job_id, array="", array_id=array_id)
            )

    def _end_array(self, job_id: str) -> None:
        """Forget an array with the last of its tasks."""
        array_id = self._arrays.end(job_id)
        if array_id == job_id:
            self._arrays.forget(job_id)
        elif array_id is not None:
            self._remembered.jobs.drop(_attempt(array_id, 1))

    def _next_attempt(self, job_id: str, attempt: int, now_us: int) -> None:
        """It asks for what the one before asked for."""
        before = _attempt(job_id, attempt - 1)
        self._node_power.finish(before, now_us)
        self._job_power.finish(before, None)
        job = self._remembered.jobs.drop(before)
        if job is not None:
            self._remembered.jobs.put(_attempt(job_id, attempt), replace(job, attempt=attempt))

    def _start(self, message: JobStarted) -> None:
        key = _attempt(message.job_id, message.attempt)
        job = self._remembered.jobs.get(key)
        if job is not None:
            self._node_power.start(key, job, message)
            self._job_power.start(key, job, message.cluster, message.freq_ghz)

    def _finish(self, message: JobFinished) -> None:
        """A finish without a submission teaches nothing; placement and pricing refuse it."""
        key = _attempt(message.job_id, message.attempt)
        if key in self._remembered.runs:
            raise AlreadyAppliedError(key)
        job = self._remembered.jobs.get(key)
        if job is None:
            return
        run = run_of(key, job, message)
        self._node_power.finish(key, message.ended_at_us)
        self._job_power.finish(key, run)
        self._remembered.jobs.drop(key)
        if run is not None:
            self._remembered.runs.put(key, FinishedRun(message.ended_at_us))

    def _read(self, event: Event, message: NodePowerMeasured) -> None:
        reading = MeanReading(event.time_us, event.id, message.node_model, message.power_w)
        self._require_few_models(message.node_model)
        cluster, in_use = self._cluster_of(message), self._node_power.is_in_use(message.node)
        if cluster and not is_plausible(cluster, message.power_w, in_use=in_use):
            self.implausible_readings += 1
            return
        self._node_power.read(event, message)
        self._meters.read(message)
        if _is_newer(reading, self._remembered.nodes.get(message.node)):
            self._remembered.nodes.put(message.node, reading)
            self._node_models.add(message.node_model)

    def _cluster_of(self, message: NodePowerMeasured) -> Cluster | None:
        return self._remembered.clusters.get(message.cluster)

    def _measure(self, event: Event, message: SignatureMeasured) -> None:
        if message.kernel:
            return
        traffic = traffic_of(event, message)
        if _is_newer(traffic, self._remembered.traffic.get(event.key)):
            self._remembered.traffic.put(event.key, traffic)

    def _pair(self, event: Event, message: ShuttersMeasured) -> None:
        if event.id in self._remembered.pairs:
            raise AlreadyAppliedError(event.id)
        pair = pair_of(event, message)
        if pair is not None:
            self._remembered.pairs.put(event.id, pair)
            self._remembered.new_pairs.put(event.id, True)

    def _declare(self, message: ClusterDeclared) -> None:
        require_few_clusters(self._remembered.clusters, message.cluster)
        cluster = cluster_of(message)
        self._require_few_models(cluster.node_model)
        self._remembered.clusters.put(message.cluster, cluster)
        self._meters.declare(cluster)
        self._node_models.add(message.node_model)

    def _order(self, event: Event, message: ModelPinned | ModelRolledBack) -> None:
        """What operators want of versions of trees, the models of which several are kept."""
        of_pairs = message.model == PAIR_TREES
        versions = self._pair_versions if of_pairs else self._job_power.versions
        if isinstance(message, ModelPinned):
            versions.pin(message.version, event.source, message.reason)
        else:
            versions.roll_back(event.source, message.reason)

    def _require_few_models(self, name: str) -> None:
        """A power model says something of each, in one message."""
        if name not in self._node_models and len(self._node_models) >= MOST_NODE_MODELS:
            problem = f"must be one of the {MOST_NODE_MODELS} that a region can have"
            raise RejectedError("node_model", problem)


def _attempt(job_id: str, attempt: int) -> str:
    return f"{job_id}|{attempt}"


def _is_due(count: int, trained_on: int, least: int) -> bool:
    return count >= max(least, 2 * trained_on)


def _is_newer(new: MeanReading | Traffic, newest: MeanReading | Traffic | None) -> bool:
    """Both are ordered by their fields, the deciding ones first."""
    return newest is None or new > newest


def _forget_oldest(table: Table[Any]) -> int:
    """How many rows were dropped to get back to what shall be remembered."""
    if len(table) < REMEMBERED + FORGOTTEN_AT_ONCE:
        return 0
    for key, _ in in_order(table)[:FORGOTTEN_AT_ONCE]:
        table.drop(key)
    return FORGOTTEN_AT_ONCE
