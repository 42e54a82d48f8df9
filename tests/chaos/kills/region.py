"""A region as production has it, with its resource managers in this process, and its books."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from cli.dlq.dead_letters import DeadLetters, LetterKind, kind_of
from cli.kafka_topics import CHARGES, KafkaTopics
from cli.processes import Processes
from cli.restore import restore
from coplace_client.errors import RejectedError
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.system.jobs import SEED, Submitted, finished, requests, started, submitted_at
from lab.benchmarks.system.step import Kind
from lab.demo import accounts
from lab.demo.options import variables
from lab.demo.servers import new_namespace, serving
from lab.emulator.adapters import EmulatorIngest
from lab.emulator.answers import DECISIONS
from lab.emulator.emulator import Emulator
from lab.workloads.clusters import clusters
from shared.catalogue.event import Publish
from shared.domain.rounds import RoundSource
from shared.pricing.charge import audit
from shared.process.clock import now_us
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.chaos.kills.wrong_clock import argv, set_ahead
from tests.support.patience import PATIENCE_S

_POLL_S: Final = 0.2
_GRACE_S: Final = 1


class StuckRegionError(RuntimeError):
    """Something that should happen does not."""


@dataclass(slots=True)
class Region:
    """Servers and services of which each may be stopped and started, and jobs under way.

    `clock` is the file that says how far the services' wall clocks are ahead.
    """

    servers: LocalServers
    deployment: Deployment
    programs: dict[str, Program]
    ingest_address: str
    clock: Path
    first_index: int
    jobs: dict[str, Submitted] = field(default_factory=dict)
    grants: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    running: dict[str, tuple[PlacementDecided, int]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    @property
    def topics(self) -> KafkaTopics:
        """What was written so far."""
        return KafkaTopics(self.deployment)

    def publish(self, events: Sequence[Publish]) -> None:
        """Hand events to ingest, and return when the broker has them."""

        async def told() -> None:
            async with EmulatorIngest(self.deployment, self.ingest_address) as ingest:
                await ingest.publish(events)

        asyncio.run(told())

    def submit(self, count: int) -> None:
        """Submit more small jobs, wait until all that wait are decided, and start them."""
        new = requests(Kind.FLOW, count, self.first_index + len(self.jobs))
        jobs = [submitted_at(request, now_us()) for request in new]
        self.jobs |= {job.job_id: job for job in jobs}
        self.publish([job.submission() for job in jobs])
        self.wait_until(self._all_started, "every job is started")

    def finish(self, count: int) -> None:
        """End that many of the running jobs, the oldest first, and wait for their charges."""
        ending = list(self.running)[:count]
        for job_id in ending:
            decided, started_us = self.running.pop(job_id)
            self.publish(finished(self.jobs[job_id], decided, started_us, now_us()))
        self.ended |= set(ending)
        self.wait_until(lambda: self.ended <= set(self.charges()), "every ended job is charged")

    def charges(self) -> dict[str, dict[str, ChargeMade]]:
        """The charges of each job by id; copies of an id are equal but for when they were made."""
        found: dict[str, dict[str, ChargeMade]] = defaultdict(dict)
        for event in self.topics.topic(CHARGES):
            if isinstance(charge := event.payload, ChargeMade):
                before = found[charge.job_id].setdefault(event.id, charge)
                if _timeless(before) != _timeless(charge):
                    raise StuckRegionError(f"{event.id} is published with two contents")
        return found

    def stop(self, *names: str) -> None:
        """Stop services in good order."""
        self.servers.remove([self.programs[name] for name in names])

    def start(self, *names: str) -> None:
        """Start services, which may be refused."""
        waiting = [replace(self.programs[name], ready_url=None) for name in names]
        self.servers.start(waiting)

    def until_ready(self) -> None:
        """Wait until `coplace doctor` finds nothing."""
        self.wait_until(lambda: not self.wrong(), "everything fits")

    def wrong(self) -> list[str]:
        """What does not fit."""
        found = restore.examine(self.deployment)
        return [str(each) for inconsistencies in found.values() for each in inconsistencies]

    def wait_until(self, happens: Callable[[], bool], what: str) -> None:
        """Poll. Raises StuckRegionError when it does not come about."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not happens():
            if time.monotonic() > deadline_s:
                raise StuckRegionError(f"{what}: not after {PATIENCE_S:.0f} s")
            time.sleep(_POLL_S)

    def _all_started(self) -> bool:
        """Start what was decided so far; whether nothing waits any more."""
        obeyed = []
        for event in self.topics.topic(DECISIONS):
            decided = event.payload
            if not isinstance(decided, PlacementDecided) or decided.verdict != VERDICT_START:
                continue
            known = self.grants[decided.job_id]
            if decided.job_id in self.jobs and decided.grant not in known:
                known.add(decided.grant)
                started_us = now_us()
                self.running[decided.job_id] = (decided, started_us)
                obeyed.append(started(self.jobs[decided.job_id], decided, started_us))
        self.publish(obeyed)
        return all(self.grants[job_id] for job_id in self.jobs)


def _timeless(charge: ChargeMade) -> ChargeMade:
    found = ChargeMade()
    found.CopyFrom(charge)
    found.ClearField("charged_at_us")
    return found


def books(region: Region) -> str | None:
    """What is wrong with the results of a region, in words; None when nothing is.

    Each job was started once and charged by one price that its evidence proves, at a time that has
    come, however often it was charged again; Redis says what the charges do; nothing was
    quarantined.
    """
    charges, now = region.charges(), now_us()
    for job_id in region.jobs:
        if len(region.grants[job_id]) != 1:
            return f"{job_id} was started {len(region.grants[job_id])} times"
        if unequal := _many_prices(job_id, list(charges.get(job_id, {}).values())):
            return unequal
    every = [charge for of_job in charges.values() for charge in of_job.values()]
    try:
        for charge in every:
            audit(charge)
    except RejectedError as error:
        return f"a charge is not proved: {error}"
    if late := [charge.job_id for charge in every if charge.charged_at_us > now]:
        return f"{late[0]} was charged in the future"
    spent = accounts.in_redis(region.deployment, region.topics.ends(CHARGES), PATIENCE_S)
    accounts.require_equal(spent, accounts.fold_charges(every))
    if wrong := region.wrong():
        return wrong[0]
    return _quarantined(region)


def _many_prices(job_id: str, charges: Sequence[ChargeMade]) -> str | None:
    if len({charge.price_su for charge in charges}) != 1:
        return f"{job_id} has the prices {[charge.price_su for charge in charges]}"
    revisions = sorted(charge.revision for charge in charges)
    if revisions != list(range(1, len(charges) + 1)):
        return f"{job_id} has the revisions {revisions}"
    return None


def _quarantined(region: Region) -> str | None:
    letters = DeadLetters(region.deployment)
    for topic in region.deployment.topics.specs:
        for letter in letters.of(topic):
            if kind_of(letter) is LetterKind.QUARANTINED:
                return f"quarantined: {letter.reason}"
    return None


@contextmanager
def region(servers: LocalServers, seed: int) -> Iterator[Region]:
    """Start every service in a namespace of its own, with clocks that can be set wrong."""
    shared = Settings(
        namespace=new_namespace("region"),
        rounds=RoundSource.CLOCK,
        kafka_partitions=4,
    )
    environment = {**variables(shared), "COPLACE_PRICING_GRACE_S": str(_GRACE_S)}
    processes = Processes(servers.run_dir, environment, traced=False)
    clock = servers.run_dir / "clock"
    set_ahead(clock, 0.0)
    programs = [replace(each, argv=argv(each.argv, clock)) for each in processes.services()]
    with serving(shared, programs, servers) as system:
        found = Region(
            servers,
            system.deployment,
            {program.name: program for program in programs},
            processes.ingest_address,
            clock,
            seed * 100_000,
        )
        found.publish(Emulator((), clusters(), SEED).next_round().events)
        yield found
