"""What is true of the jobs of a record, wherever and whenever they run: ADR 0029."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Final

import numpy as np
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_TIMED_OUT,
    JobActionDone,
    JobFinished,
    JobStarted,
    JobSubmitted,
    RunInterval,
)
from coplace.v1.placement_pb2 import PlacementDecided

from coplace_client.errors import RejectedError
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.catalogue.payloads.domain_types import job_of
from shared.domain.job import Job
from shared.eamc.frequency import EVEN, FrequencyRule
from shared.placement.evaluate.known_clusters import KnownClusters
from shared.placement.evaluate.neighbour_rules import NeighbourRules
from shared.placement.evaluate.predictions import ClusterModels, predict, projections
from shared.placement.state.model_store import ModelStore
from shared.replay.inputs import RecordedInputs
from shared.replay.region import Setting
from shared.replay.runs import Allotment, Observed, observed_runs, work_s
from shared.streams.stages.stage import AlreadyAppliedError
from shared.streams.state.state import State

_SAME_GHZ: Final = 1e-6
_MEDIAN: Final = 0.5
# What the model store learns from; the others are about jobs.
_NOT_LEARNED: Final = "coplace.v1.Job"


class Hindsight:
    """Predictions by all that a record knows at its end: time and power of each job on each cluster
    and P-state. Times of one job compare with each other; their unit is the model's."""

    def __init__(self, models: ModelStore, jobs: Sequence[Job]) -> None:
        clusters = KnownClusters(models)()
        rule = FrequencyRule.NOMINAL
        self._column = {known.cluster.name: at for at, known in enumerate(clusters)}
        self._row = {job.job_id: at for at, job in enumerate(jobs)}
        found = predict(jobs, clusters, models.power_model, rule, EVEN, _MEDIAN) if jobs else None
        self._nominal_s = found.nominal_s if found else np.empty((0, len(clusters)))
        self._nominal_w = found.power_w if found else np.empty((0, len(clusters)))
        apps = sorted({job.app_id for job in jobs})
        self._projected = {
            (known.cluster.name, *key): value
            for known in clusters
            for key, value in _projected(known, apps)
        }

    def time_s(self, job: Job, cluster: str, freq_ghz: float) -> float:
        """Return how long it takes alone there."""
        return self._of(job, cluster, freq_ghz)[0]

    def node_w(self, job: Job, cluster: str, freq_ghz: float) -> float:
        """Return what a node draws that it uses whole."""
        return self._of(job, cluster, freq_ghz)[1]

    def _of(self, job: Job, cluster: str, freq_ghz: float) -> tuple[float, float]:
        """As projected; where no signature is behind it as at the nominal P-state, where first runs
        take place."""
        projected = self._projected.get((cluster, job.app_id, _key(freq_ghz)))
        if projected is not None:
            return projected
        place = self._row[job.job_id], self._column[cluster]
        return float(self._nominal_s[place]), float(self._nominal_w[place])


def _projected(
    known: ClusterModels, apps: Iterable[str]
) -> Iterator[tuple[tuple[str, int], tuple[float, float]]]:
    """(application, P-state) and (time, power) of a cluster, where they are known."""
    there = [app for app in apps if app in known.signatures]
    for names, found in projections(known, there):
        for (row, app), (column, ghz) in product(enumerate(names), enumerate(found.pstates_ghz)):
            if found.available[row, column]:
                value = float(found.time_s[row, column]), float(found.power_w[row, column])
                yield (app, _key(ghz)), value


def _key(freq_ghz: float) -> int:
    """Return the key of a P-state, the same however its digits were rounded."""
    return round(freq_ghz / _SAME_GHZ)


@dataclass(frozen=True)
class Truth:
    """What a record says of its jobs. `runs` are the last ones, `finishes` the last events of jobs,
    `submissions` the first events of them, all by job id; `done` is what was done to them while
    they ran, by job id and number; `models` are those of its end.

    A job takes the time that it was observed to take, its neighbours divided out, times the
    predicted ratio of the place where it runs to where it ran.
    """

    jobs: Mapping[str, Job]
    submissions: Mapping[str, Event]
    starts: Mapping[str, Event]
    finishes: Mapping[str, Event]
    done: Mapping[tuple[str, int], Event]
    runs: Mapping[str, Observed]
    declared: Mapping[str, ClusterDeclared]
    models: ModelStore

    @classmethod
    def from_record(
        cls, inputs: RecordedInputs, decisions: Sequence[PlacementDecided], setting: Setting
    ) -> "Truth":
        """Read the truth of a record on which this was decided."""
        models = _models(inputs, setting)
        jobs: dict[str, Job] = {}
        submissions: dict[str, Event] = {}
        starts: dict[str, Event] = {}
        finishes: dict[str, Event] = {}
        done: dict[tuple[str, int], Event] = {}
        declared: dict[str, ClusterDeclared] = {}
        ends: dict[tuple[str, int], JobFinished] = {}
        events = [event for event in inputs.events if _is_usable(event)]
        for event in events:
            match event.payload:
                case ClusterDeclared() as cluster:
                    declared[cluster.cluster] = cluster
                case JobSubmitted() as submitted:
                    with suppress(RejectedError):
                        job = job_of(submitted)
                        # The runs of tasks are of other jobs than the array: it is left out.
                        if job.reference_cluster in models.clusters and not job.array:
                            jobs.setdefault(submitted.job_id, job)
                    submissions.setdefault(submitted.job_id, event)
                case JobStarted() as started:
                    starts[started.job_id] = event
                case JobActionDone() as action:
                    done[action.job_id, action.number] = event
                case JobFinished() as finished:
                    finishes[finished.job_id] = event
                    ends[finished.job_id, finished.attempt] = finished
        told = (e.payload for e in events if isinstance(e.payload, JobStarted))
        runs = observed_runs(jobs, told, ends, decisions, models)
        return cls(jobs, submissions, starts, finishes, done, runs, declared, models)

    @cached_property
    def kills(self) -> bool:
        """Return whether resource managers end jobs at their limits: they did once."""
        outcomes = (run.finished.outcome for run in self.runs.values() if run.finished)
        return JOB_OUTCOME_TIMED_OUT in outcomes

    @cached_property
    def leaves_us(self) -> Mapping[str, int]:
        """Return when jobs were cancelled, wherever they were: no decision changes it. Tasks of
        arrays are left out as these are."""
        ends = ((job_id, event.payload) for job_id, event in self.finishes.items())
        return {
            job_id: end.ended_at_us
            for job_id, end in ends
            if job_id in self.jobs
            and isinstance(end, JobFinished)
            and end.outcome == JOB_OUTCOME_CANCELLED
        }

    @cached_property
    def arrays(self) -> int:
        """Return how many arrays the record has: they are left out."""
        submitted = (event.payload for event in self.submissions.values())
        return sum(isinstance(each, JobSubmitted) and bool(each.array) for each in submitted)

    @cached_property
    def complete(self) -> frozenset[str]:
        """Return the jobs that ran to their end, so that what they take is known."""
        return frozenset(self._work_s)

    def solo_s(self, job: Job, on: Allotment) -> float | None:
        """Return how long a job takes there alone, None where nobody knows."""
        work = self._work_s.get(job.job_id)
        if work is None:
            return None
        there = self.runs[job.job_id].allotment
        now_s = self.hindsight.time_s(job, on.cluster, on.freq_ghz)
        return work * (now_s / self.hindsight.time_s(job, there.cluster, there.freq_ghz))

    def energy_j(self, job: Job, on: Allotment, time_s: float) -> float:
        """Return what a job draws there on all its nodes in a time: as it was metered at that
        P-state there, or else as predicted, times what was observed against what is predicted where
        it ran, as far as there was a meter."""
        metered_w = self._metered_w.get((job.job_id, on.cluster, on.freq_ghz))
        if metered_w is not None:
            return metered_w * on.all_cores * time_s
        predicted_w = self._predicted_w(job, on)
        run = self.runs.get(job.job_id)
        if run is None or run.finished is None or run.ended_us is None:
            return predicted_w * time_s
        if run.finished.energy_j <= 0 or not run.allotment.all_cores:
            return predicted_w * time_s
        if run.finished.intervals:
            return predicted_w * time_s * (run.finished.energy_j / self._predicted_j(run))
        observed_s = (run.ended_us - run.started_us) / 1e6
        ratio = predicted_w / self._predicted_w(job, run.allotment) * (time_s / observed_s)
        return run.finished.energy_j * ratio

    def pace(self, job: Job, on: Allotment, freq_ghz: float) -> float:
        """Return how much longer a job takes at a P-state than at that of its start."""
        at_start_s = self.hindsight.time_s(job, on.cluster, on.freq_ghz)
        return self.hindsight.time_s(job, on.cluster, freq_ghz) / at_start_s

    def stretch_j(self, job: Job, on: Allotment, freq_ghz: float, time_s: float) -> float:
        """Return what a job draws in a stretch of its run, at another P-state than that of its
        start; at 0 it is suspended."""
        if freq_ghz:
            return self.energy_j(job, replace(on, freq_ghz=freq_ghz), time_s)
        return self._idle_w(on) * time_s

    def _predicted_j(self, run: Observed) -> float:
        """Return what is predicted of a run that was acted on, over all its stretches."""
        assert run.finished is not None
        return sum(
            time_s
            * (
                self._predicted_w(run.job, replace(run.allotment, freq_ghz=each.freq_ghz))
                if each.freq_ghz
                else self._idle_w(run.allotment)
            )
            for each, time_s in _stretches(run.finished)
        )

    def _idle_w(self, on: Allotment) -> float:
        """Return the idle power of what a job has of its nodes."""
        cluster = self.models.clusters[on.cluster]
        return cluster.idle_power_w * on.all_cores / cluster.cores_per_node

    @cached_property
    def hindsight(self) -> Hindsight:
        """Return what is predicted of the jobs."""
        return Hindsight(self.models, list(self.jobs.values()))

    @cached_property
    def _work_s(self) -> dict[str, float]:
        """Return how long jobs that ran to their end would have taken alone, where they ran."""
        found = work_s(self.runs.values(), NeighbourRules(self.models)(), self.pace)
        cut_off = (JOB_OUTCOME_CANCELLED, JOB_OUTCOME_TIMED_OUT)
        return {
            job_id: work
            for job_id, work in found.items()
            if (end := self.runs[job_id].finished) and end.outcome not in cut_off
        }

    @cached_property
    def _metered_w(self) -> dict[tuple[str, str, float], float]:
        """Return what a core drew of a run that was acted on, by job, cluster and P-state of its
        stretches there."""
        drawn: defaultdict[tuple[str, str, float], list[tuple[float, float]]] = defaultdict(list)
        for job_id, run in self.runs.items():
            if run.finished is None or run.finished.energy_j <= 0 or not run.allotment.all_cores:
                continue
            for each, time_s in _stretches(run.finished):
                drawn[job_id, run.allotment.cluster, each.freq_ghz].append((each.energy_j, time_s))
        found_w: dict[tuple[str, str, float], float] = {}
        for (job_id, cluster, freq_ghz), stretches in drawn.items():
            energy_j, time_s = (sum(column) for column in zip(*stretches, strict=True))
            if time_s:
                core_w = energy_j / time_s / self.runs[job_id].allotment.all_cores
                found_w[job_id, cluster, freq_ghz] = core_w
        return found_w

    def _predicted_w(self, job: Job, on: Allotment) -> float:
        cores = self.models.clusters[on.cluster].cores_per_node
        return self.hindsight.node_w(job, on.cluster, on.freq_ghz) * on.all_cores / cores


def _stretches(finished: JobFinished) -> Iterator[tuple[RunInterval, float]]:
    """Yield each stretch of a run that was acted on, and how long it took, s."""
    edges_us = [*(each.began_at_us for each in finished.intervals), finished.ended_at_us]
    for each, (begin_us, end_us) in zip(finished.intervals, pairwise(edges_us), strict=True):
        yield each, (end_us - begin_us) / 1e6


def _is_usable(event: Event) -> bool:
    """Return False for what placement refuses whatever it knows."""
    try:
        check_contents(event.payload)
    except RejectedError:
        return False
    return True


def _models(inputs: RecordedInputs, setting: Setting) -> ModelStore:
    """Return what is known at the end of a record."""
    models = ModelStore(State({}), setting.rules)
    for event in inputs.events:
        if not event.type.startswith(_NOT_LEARNED) and _is_usable(event):
            with suppress(RejectedError, AlreadyAppliedError):
                models.fold(event)
    return models
