"""The jobs of a demo as plain resource managers run them: EASY backfill at the nominal P-state.

Each job has its nodes alone. The schedulers know the limits that users ask for, and nothing of
energy, neighbours, caps of power, or of when a job may start. What jobs take and draw is the
emulator's truth.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum

from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobSubmitted

from lab.emulator import facts
from lab.emulator.app import machines_and_runs, workload
from lab.emulator.facts import EPOCH_US, id_of, submit_us
from lab.emulator.running import EmulatedUnits, RunningJob
from lab.emulator.settings import SimulationSettings
from lab.emulator.shapes import millicores_of_unit
from lab.simulation.eurora import Anybody
from lab.workloads.request import JobRequest
from shared.catalogue.payloads.domain_types import job_of
from shared.domain.job import Job
from shared.scheduling.backfill import Arrival, Backfill
from shared.scheduling.capacity import Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.problem import Kind, NodeTable, most_units, shape_on
from shared.scheduling.wait_queue import Entry, WaitQueue, order_of


class Offer(StrEnum):
    """The clusters that a job may start on."""

    SUBMISSION = "cluster of submission"
    FIRST_FREE = "first free cluster"


class PlainEasy:
    """EASY on emulated clusters. Where jobs may go to any cluster, one queue serves all, and the
    clusters are tried as they are declared."""

    def __init__(self, settings: SimulationSettings, offer: Offer) -> None:
        requests, emulated = workload(settings)
        self._requests = sorted(requests, key=lambda r: (submit_us(r), r.index))
        self._machines, self._runs = machines_and_runs(settings, emulated)
        self._by_name = {machine.cluster.name: machine.cluster for machine in self._machines}
        self._offer = offer
        self._tables = [NodeTable.build(cluster) for cluster in emulated]
        self._kinds: list[list[Kind]] = [[] for _ in emulated]

    def play(self) -> list[JobFinished]:
        """Return the end of each job, in the order of their starts."""
        arrivals = [self._entries(number, each) for number, each in enumerate(self._requests)]
        schedulers = [
            ConsumableScheduler(Capacity(table), [], WaitQueue(), kinds, Anybody(), number)
            for number, (table, kinds) in enumerate(zip(self._tables, self._kinds, strict=True))
        ]
        submit_s = [(submit_us(request) - EPOCH_US) / 1e6 for request in self._requests]
        engine = Engine(Backfill(schedulers, iter(arrivals)), submit_s, self._runs_s, submit_s[0])
        finished: list[JobFinished] = []
        while not engine.is_over:
            started = engine.step()
            started_us = EPOCH_US + round(engine.now_s * 1e6)
            finished += [_end_of(self._run(served, started_us)) for served in started]
        return finished

    def _entries(self, arrival: int, request: JobRequest) -> Arrival:
        """Return where a job may start."""
        job = self._job_of(request)
        return tuple(
            (number, self._entry(arrival, job, number, rank))
            for rank, number in enumerate(self._clusters_of(job))
        )

    def _clusters_of(self, job: Job) -> Iterator[int]:
        for number, machine in enumerate(self._machines):
            is_own = machine.cluster.name == job.reference_cluster
            fits = job.nodes <= most_units(job, machine.cluster)
            if is_own or (self._offer is Offer.FIRST_FREE and fits):
                yield number

    def _entry(self, arrival: int, job: Job, number: int, rank: int) -> Entry:
        return Entry(
            order=order_of(0, arrival, rank),
            arrival=arrival,
            nodes=job.nodes,
            limit_s=job.walltime_s,
            in_parts=True,
            kind=self._kind(job, number),
        )

    def _kind(self, job: Job, number: int) -> int:
        """Return the number of its kind on a cluster: alone on its nodes, whatever it accepts."""
        cluster, names = self._machines[number].cluster, self._tables[number].names
        shape = shape_on(job, cluster, names)
        if shape is None:
            raise ValueError(f"{job.job_id} needs what no node of {cluster.name} has")
        kind, kinds = Kind("", shape._replace(exclusive=True)), self._kinds[number]
        if kind not in kinds:
            kinds.append(kind)
        return kinds.index(kind)

    def _job_of(self, request: JobRequest) -> Job:
        """Return it as its resource manager submits it: ready to start at once."""
        own = self._by_name[request.reference_cluster]
        ready = replace(request, begin_s=0.0, deadline_s=0.0, depends_on=())
        payload = facts.submission(ready, id_of(request, own.site), own, {}).event.payload
        if not isinstance(payload, JobSubmitted):
            raise TypeError(f"a submission is a JobSubmitted, got {type(payload).__name__}")
        return job_of(payload)

    def _runs_s(self, served: Served) -> float:
        return (self._run(served, EPOCH_US).ends_at_us - EPOCH_US) / 1e6

    def _run(self, served: Served, started_us: int) -> RunningJob:
        """Return the run of a job that starts on the nodes that were chosen."""
        number, entry, allocation, _ = served
        request, machine = self._requests[entry.arrival], self._machines[number]
        if allocation is None:
            raise ValueError(f"no nodes were chosen for request {request.index}")
        cluster = machine.cluster
        unit, freq_ghz = millicores_of_unit(request, cluster), max(cluster.pstates_ghz)
        return self._runs.run_alone(
            request,
            machine,
            id_of(request, cluster.site),
            EmulatedUnits(allocation.nodes, allocation.units, unit, freq_ghz),
            started_us,
            walltime_s=request.walltime_s,
        )


def _end_of(run: RunningJob) -> JobFinished:
    payload = facts.finish(run, JOB_OUTCOME_COMPLETED, run.ends_at_us).event.payload
    if not isinstance(payload, JobFinished):
        raise TypeError(f"an end is a JobFinished, got {type(payload).__name__}")
    return payload
