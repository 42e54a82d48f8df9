"""Composition root of the sample: two clusters of 16 nodes whose jobs really take their time.

What it reports is a function of when it began and of the decisions: started again, it reads all
decisions anew and reports the same facts, which are known by their ids.
"""

import asyncio
import time
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JOB_OUTCOME_COMPLETED
from coplace.v1.placement_pb2 import (
    ACTION_KIND_END,
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_START,
    PlacementDecided,
)

from coplace_client.decisions import AsyncDecisionWatcher, of_clusters
from coplace_client.facts import action_refused
from coplace_client.health import Readiness
from coplace_client.ingest import IngestClient, Patience
from lab.emulator import facts
from lab.emulator.adapters import envelope_of
from lab.emulator.facts import id_of
from lab.emulator.feasibility import unit_given, units_of
from lab.emulator.machine import Machine
from lab.emulator.observed import ObservedRuns
from lab.emulator.profiling import profiling_events
from lab.emulator.running import EmulatedUnits, RunningJob
from lab.emulator.sample.jobs import NODES, SEED, sample_jobs
from lab.emulator.sample.settings import SampleSettings
from lab.emulator.scales import PER_INSTRUCTION
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.workloads.clusters import clusters
from shared.catalogue.event import Publish
from shared.domain.cluster import EMULATED_SITE
from shared.process.life import Process, run_process

_FIXED: Final = "a job of the sample runs on as it began"


class Sample:
    """The resource managers of both clusters."""

    def __init__(self, begun_at_us: int, client: IngestClient, readiness: Readiness) -> None:
        self._client, self._readiness = client, readiness
        emulated, noise = clusters(NODES), Noise(SEED)
        self._truth, self._noise = EmulatedTruth(noise), noise
        self._runs = ObservedRuns(self._truth, noise)
        self._machines = {each.name: Machine(each, noise) for each in emulated}
        requests = sample_jobs(begun_at_us, emulated)
        self._requests = {id_of(request, EMULATED_SITE): request for request in requests}
        self._ends: dict[str, asyncio.Event] = {}

    @property
    def clusters(self) -> list[str]:
        """Return the names of the clusters."""
        return [*self._machines]

    async def submit(self) -> None:
        """Declare the clusters with what profiling measured on them, and submit all jobs."""
        for machine in self._machines.values():
            known = (PER_INSTRUCTION, self._truth, self._noise)
            await self._publish([*profiling_events(machine, *known)])
        for job, request in self._requests.items():
            cluster = self._machines[request.reference_cluster].cluster
            submitted = envelope_of(facts.submission(request, job, cluster, {}).event)
            # On clusters of others nobody would start it.
            submitted.job_submitted.clusters.extend(self._machines)
            await _until(submitted.time_us)
            await self._tell([submitted])
        self._readiness.wait_for("the first of its jobs to end")

    async def obey(self, decision: PlacementDecided) -> None:
        """Do what was decided of one of its jobs, to the end of a run that is to start."""
        job = decision.job_id
        if job not in self._requests:
            return
        if decision.verdict == VERDICT_START:
            await self._run(decision)
        elif decision.verdict == VERDICT_CANCELLED and job not in self._ends:
            await self._leave(job)
        elif decision.verdict == VERDICT_CANCELLED or decision.action.kind == ACTION_KIND_END:
            self._ends[job].set()
        elif decision.verdict == VERDICT_ACTION:
            own = facts.source(self._machines[decision.cluster].cluster)
            await self._tell([action_refused(own, decision, _FIXED, _now_us())])

    async def _run(self, decision: PlacementDecided) -> None:
        """Start a job when it was decided, and let it take as long as it takes."""
        run, cancelled = self._run_of(decision), asyncio.Event()
        self._ends[run.job_id] = cancelled
        await self._publish([facts.start(run)])
        outcome, end_us = JOB_OUTCOME_COMPLETED, run.ends_at_us
        try:
            async with asyncio.timeout(max(0.0, (end_us - _now_us()) / 1e6)):
                await cancelled.wait()
            outcome, end_us = JOB_OUTCOME_CANCELLED, _now_us()
        except TimeoutError:
            pass
        run.settle(end_us, {})
        measured = facts.signature_of_job(run, PER_INSTRUCTION, end_us)
        await self._publish([measured, facts.finish(run, outcome, end_us)])
        self._readiness.ready()

    def _run_of(self, decision: PlacementDecided) -> RunningJob:
        nodes, units = tuple(decision.node_indices), tuple(units_of(decision))
        return self._runs.run_alone(
            self._requests[decision.job_id],
            self._machines[decision.cluster],
            decision.job_id,
            EmulatedUnits(nodes, units, unit_given(decision), decision.freq_ghz),
            decision.decided_at_us,
            walltime_s=decision.walltime_s,
            grant=decision.grant,
            attempt=decision.attempt,
        )

    async def _leave(self, job: str) -> None:
        request = self._requests[job]
        cluster = self._machines[request.reference_cluster].cluster
        await self._publish([facts.cancellation(request, job, cluster, _now_us())])

    async def _publish(self, events: list[Publish]) -> None:
        await self._tell([envelope_of(each.event) for each in events])

    async def _tell(self, events: list[Envelope]) -> None:
        for event in events:
            await self._client.publish(event)


async def _until(at_us: int) -> None:
    await asyncio.sleep(max(0.0, (at_us - _now_us()) / 1e6))


def _now_us() -> int:
    return time.time_ns() // 1000


async def serve(process: Process) -> None:
    """Submit the jobs and obey what is decided of them until the process is to stop."""
    own = SampleSettings()
    async with IngestClient(own.ingest_address, process.settings, Patience()) as client:
        sample = Sample(own.begun_at_us, client, process.readiness)
        request = of_clusters(EMULATED_SITE, sample.clusters, from_earliest=True)

        async def follow(runs: asyncio.TaskGroup) -> None:
            watcher = AsyncDecisionWatcher(own.watch_address, process.settings, request)
            async for decision, _ in watcher:
                runs.create_task(sample.obey(decision))

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(sample.submit())
                tasks.create_task(follow(tasks))

        working = asyncio.create_task(work())
        stopped = asyncio.create_task(process.stop.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if working.done():
            working.result()
        working.cancel()


def main() -> None:
    """Run the process until it is to stop."""
    run_process("sample", serve)
