"""`make fuzz ADAPTER=agents SERVERS=1`: what node agents send, mutated, through the gRPC of a real
ingest, with honest records between and every service running on real Kafka and Redis. No process
ends, no honest record is refused or lost, and memory stays flat."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import psutil
from coplace.v1.ingest_service_pb2 import PublishRequest
from coplace.v1.pricing_pb2 import ChargeMade

from lab.demo.servers import RunningSystem
from tests.attacks.__main__ import attacked, pids
from tests.attacks.agents import MOST_GROWTH_MIB, TELEMETRY, Agents, Mutator

_PUBLISH: Final = "/coplace.v1.IngestService/Publish"
_CALL_WITHIN_S: Final = 60.0
_WITHIN_S: Final = 120.0
_AT_ONCE: Final = 16
# Mutants behind an honest record, and records for a job.
_MUTANTS: Final = 9
_A_JOB: Final = 500
_WARM_PART: Final = 0.3


@dataclass
class Calls:
    """Sends, and keeps how it was answered and what was honest."""

    publish: Any
    answers: Counter[str] = field(default_factory=Counter)
    honest: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def hostile(self, data: Sequence[bytes]) -> None:
        """Send mutants, some at once."""
        for answer in await asyncio.gather(*map(self._answer, data)):
            self.answers[answer.partition(":")[0]] += 1

    async def good(self, event: Any) -> None:
        """Send what ingest has to take."""
        answer = await self._answer(PublishRequest(event=event).SerializeToString())
        self.honest.append(event.id)
        if answer != "OK":
            self.refused.append(f"{event.id}: {answer}")

    async def _answer(self, data: bytes) -> str:
        try:
            await self.publish(data, timeout=_CALL_WITHIN_S)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        return "OK"


async def send(system: RunningSystem, address: str, calls: int, seed: int) -> tuple[Calls, int]:
    """Send so many calls; what came of them, and how many jobs ended."""
    rng = Random(seed)
    agents, mutator, warm = Agents(rng), Mutator(rng), dict[str, float]()
    async with grpc.aio.insecure_channel(address) as channel:
        found = Calls(channel.unary_unary(_PUBLISH))
        await found.good(agents.declared())
        sent = 0
        while sent < calls:
            if sent % _A_JOB == 0:
                for each in agents.job():
                    await found.good(each)
            for _ in range(10):
                honest = agents.telemetry()
                mutator.keep(honest)
                await found.good(honest)
            mutants = [mutator.mutant(sent + number) for number in range(10 * _MUTANTS)]
            for at in range(0, len(mutants), _AT_ONCE):
                await found.hostile(mutants[at : at + _AT_ONCE])
            sent += 10 + len(mutants)
            if not warm and sent >= calls * _WARM_PART:
                warm = resident_mib(system)
        await found.good(agents.job()[0])
    grown = {name: mib - warm[name] for name, mib in resident_mib(system).items()}
    print(f"grown by MiB: { {name: round(mib) for name, mib in grown.items()} }")
    if max(grown.values()) > MOST_GROWTH_MIB:
        found.refused.append("memory grew")
    return found, agents.jobs - 1


def resident_mib(system: RunningSystem) -> dict[str, float]:
    """Memory of each process."""
    return {
        name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in pids(system).items()
    }


def lost(system: RunningSystem, honest: Sequence[str], jobs: int) -> list[str]:
    """Honest records that are in no topic, and jobs without a charge."""
    topics = ("jobs.events", "commands", *sorted(TELEMETRY))
    there = {event.id for topic in topics for event in system.topics.topic(topic)}
    charges = (event.payload for event in system.topics.topic("prices.charges"))
    charged = {each.job_id for each in charges if isinstance(each, ChargeMade)}
    missing = [each for each in honest if each not in there]
    return [*missing, *(["charges are missing"] if len(charged) < jobs else [])]


def main() -> None:
    """Attack, report, and exit with status 1 where something was lost, ended or grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000, help="gRPC calls")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, attacked(Path(folder)) as (system, address):
        before, began_s = pids(system), time.monotonic()
        found, jobs = asyncio.run(send(system, address, told.records, told.seed))
        took_s = time.monotonic() - began_s
        until_s = time.monotonic() + _WITHIN_S
        while (missing := lost(system, found.honest, jobs)) and time.monotonic() < until_s:
            time.sleep(2)
        ended = [name for name, pid in pids(system).items() if pid != before[name]]
    print(f"{len(found.honest)} honest calls and {found.answers} in {took_s:.0f} s, {jobs} jobs")
    print(f"refused: {found.refused[:5]}; lost: {missing[:5]}; processes that ended: {ended}")
    sys.exit(bool(found.refused or missing or ended))


if __name__ == "__main__":
    main()
