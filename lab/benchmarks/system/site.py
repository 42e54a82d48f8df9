"""Plays the resource managers: `python -m lab.benchmarks.system.site STEP ADDRESS OUT`.

An open loop: jobs are submitted when they are due, whatever became of those before.
"""

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from lab.benchmarks.system.cpu import CpuTimes
from lab.benchmarks.system.jobs import (
    RUNTIME_S,
    Submitted,
    cancelled,
    finished,
    requests,
    started,
    submitted_at,
)
from lab.benchmarks.system.step import DRAIN_S, Kind, Seen, Step, percentiles_ms
from lab.emulator.adapters import EmulatorIngest
from lab.emulator.answers import DECISIONS
from shared.catalogue.event import Publish
from shared.process.clock import now_us
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

# What happens in one tick shares a call, as in a resource manager's own cycle.
_TICK_S: Final = 0.02
_POLL_MS: Final = 100
_PATIENCE_S: Final = 60.0
_ALL_START: Final = (Kind.FILL, Kind.TOP_UP)


class Site:
    """What one step submitted and saw."""

    def __init__(self, deployment: Deployment, ingest: EmulatorIngest, step: Step) -> None:
        self._deployment = deployment
        self._ingest = ingest
        self._step = step
        self._jobs: dict[str, Submitted] = {}
        self._due_s: dict[str, float] = {}
        self._latencies_s: dict[str, float] = {}
        self._started = 0
        self._finished: set[str] = set()
        self._outbox: list[Publish] = []
        self._calls: set[asyncio.Task[None]] = set()
        self._complete = asyncio.Event()
        self._all_started = asyncio.Event()

    async def play(self, decisions: AIOKafkaConsumer) -> Seen:
        """Submit everything, wait for the outcomes, clear away what waits.

        Whatever goes wrong in one of the tasks ends the step.
        """
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(self._follow(decisions)),
                group.create_task(self._tell(group)),
            ]
            cpu = CpuTimes({**self._step.processes, "load": os.getpid()})
            sent_per_s = await self._submit()
            cpu_share = cpu.shares()
            await self._outcomes(DRAIN_S)
            late = self._missing
            await self._outcomes(_PATIENCE_S)
            await self._starts()
            seen = self._seen(sent_per_s, late, cpu_share)
            await asyncio.sleep(RUNTIME_S + 2 * _TICK_S)
            for task in loops:
                task.cancel()
        await self._clear_away()
        return seen

    @property
    def _missing(self) -> int:
        return len(self._jobs) - len(self._latencies_s)

    async def _submit(self) -> float:
        """Submit each job when it is due; acknowledged jobs a second."""
        wanted = requests(self._step.kind, self._step.jobs, self._step.first_index)
        began_s, sent = time.monotonic(), 0
        while sent < len(wanted):
            await asyncio.sleep(_TICK_S)
            due = min(len(wanted), int((time.monotonic() - began_s) * self._step.rate_per_s))
            jobs = [submitted_at(request, now_us()) for request in wanted[sent:due]]
            for number, job in enumerate(jobs, sent):
                self._jobs[job.job_id] = job
                self._due_s[job.job_id] = began_s + number / self._step.rate_per_s
            self._outbox += [job.submission() for job in jobs]
            sent = due
        await asyncio.sleep(2 * _TICK_S)
        await asyncio.gather(*self._calls)
        return sent / (time.monotonic() - began_s)

    async def _tell(self, group: asyncio.TaskGroup) -> None:
        """Send what there is, every tick, whether or not earlier calls have been answered."""
        while True:
            await asyncio.sleep(_TICK_S)
            if self._outbox:
                events, self._outbox = self._outbox, []
                call = group.create_task(self._ingest.publish(events))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)

    async def _outcomes(self, patience_s: float) -> None:
        """Wait until every job has one, for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._complete.wait()

    async def _starts(self) -> None:
        """Wait a while for the starts of jobs of which all have to start, if only a round later."""
        if self._step.kind in _ALL_START:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._all_started.wait()

    async def _follow(self, decisions: AIOKafkaConsumer) -> None:
        while True:
            for records in (await decisions.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    event = self._deployment.codec.decode(self._deployment.record(record))
                    if isinstance(event.payload, PlacementDecided):
                        self._take(event.payload)

    def _take(self, decided: PlacementDecided) -> None:
        job = self._jobs.get(decided.job_id)
        if job is None:
            return
        self._latencies_s.setdefault(job.job_id, time.monotonic() - self._due_s[job.job_id])
        if len(self._latencies_s) == self._step.jobs:
            self._complete.set()
        if decided.verdict == VERDICT_START:
            self._start(job, decided)

    def _start(self, job: Submitted, decided: PlacementDecided) -> None:
        started_us = now_us()
        self._started += 1
        if self._started == self._step.jobs:
            self._all_started.set()
        self._outbox.append(started(job, decided, started_us))
        if self._step.kind is Kind.FLOW:
            loop = asyncio.get_running_loop()
            loop.call_later(RUNTIME_S, self._finish, job, decided, started_us)

    def _finish(self, job: Submitted, decided: PlacementDecided, started_us: int) -> None:
        self._finished.add(job.job_id)
        self._outbox += finished(job, decided, started_us, now_us())

    async def _clear_away(self) -> None:
        """The next step finds queue and nodes as this one did."""
        if self._step.kind in (Kind.WAIT, Kind.FLOW):
            left = [job for job in self._jobs.values() if job.job_id not in self._finished]
            await self._ingest.publish([cancelled(job, now_us()) for job in left])

    def _seen(self, sent_per_s: float, late: int, cpu_share: Mapping[str, float]) -> Seen:
        """A job without outcome has waited until now."""
        now_s = time.monotonic()
        waited_s = {job_id: now_s - due_s for job_id, due_s in self._due_s.items()}
        p50_ms, p99_ms, worst_ms = percentiles_ms([*(waited_s | self._latencies_s).values()])
        return Seen(
            name=self._step.name,
            kind=self._step.kind,
            rate_per_s=self._step.rate_per_s,
            jobs=len(self._jobs),
            sent_per_s=sent_per_s,
            late=late,
            started=self._started,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            worst_ms=worst_ms,
            cpu_share=cpu_share,
            load_1min=os.getloadavg()[0],
        )


async def play(step: Step, ingest_address: str) -> Seen:
    """Play a step against the deployment that the environment names."""
    deployment = Deployment.from_settings(settings())
    consumer = AIOKafkaConsumer(**deployment.connection, isolation_level="read_committed")
    async with consumer, EmulatorIngest(deployment, ingest_address) as ingest:
        partitions = [
            KafkaPartition(deployment.name(DECISIONS), partition.kafka_partition)
            for partition in deployment.topics.partitions(DECISIONS)
        ]
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        return await Site(deployment, ingest, step).play(consumer)


def main(step: str, ingest_address: str, out: str) -> None:
    """Play the step and write what was seen."""
    seen = asyncio.run(play(Step.from_json(step), ingest_address))
    Path(out).write_bytes(orjson.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
