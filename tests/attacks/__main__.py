"""`make attack`: hostile records straight into every topic and hostile requests to ingest, on real
Kafka and Redis with every service running; none may die, and a good job must fare as any other."""

import argparse
import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from cli.dlq.dead_letters import DeadLetters, LetterKind, kind_of
from cli.processes import Processes
from cli.smoke_test import SmokeTestError
from deploy.local.servers import LocalServers
from lab.demo.options import variables
from lab.demo.servers import RunningSystem, new_namespace, serving
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from tests.attacks import bystander, requests
from tests.attacks.records import Attacker, HostileRecord

CODECS: Final = (None, "gzip", "snappy", "lz4", "zstd")
_BATCH: Final = 1_000
# A producer must not hold back what the broker is to refuse.
_LARGEST: Final = 16
_PATIENCE_S: Final = 900.0
_ENDED: Final = re.compile(r"process ends|cannot start")


@dataclass(slots=True)
class Report:
    """What was done, and what came of it."""

    sent: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    fared: dict[str, bystander.Fared] = field(default_factory=dict)
    restarts: dict[str, str] = field(default_factory=dict)
    letters: Counter[str] = field(default_factory=Counter)
    quarantined: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """No process ended but for what was quarantined."""
        return not self.restarts


def main() -> None:
    """Attack, report, and exit with status 1 where a process died."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000, help="into each topic")
    parser.add_argument("--requests", type=int, default=200_000, help="to ingest")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run-dir", type=Path, default=Path("run/attack"))
    told = parser.parse_args()
    report = Report()
    with attacked(told.run_dir) as (system, address):
        before = pids(system)
        _bystand(report, system, address, "before")
        if told.requests:
            began_s = time.monotonic()
            report.answers = asyncio.run(requests.attack(address, told.requests, told.seed))
            print(
                f"{told.requests} requests in {time.monotonic() - began_s:.0f} s: {report.answers}"
            )
            _bystand(report, system, address, "requests")
        attacker = Attacker(system.deployment.topics, told.seed)
        for topic in sorted(system.deployment.topics.specs) if told.records else ():
            records = attacker.records(topic, told.records)
            asyncio.run(append(report, system, topic, records))
        _bystand(report, system, address, "records")
        for name in system.processes:
            system.servers.wait_ready(name, _PATIENCE_S)
        _inquire(report, system, before)
    print(report)
    sys.exit(0 if report.is_good else 1)


@contextmanager
def attacked(run_dir: Path) -> Iterator[tuple[RunningSystem, str]]:
    """Every service as production has it, but for few Kafka partitions; and where ingest is."""
    shared = Settings(
        namespace=new_namespace("attack"),
        rounds=RoundSource.CLOCK,
        kafka_partitions=4,
    )
    environment = {**variables(shared), "COPLACE_PRICING_GRACE_S": "2"}
    processes = Processes(run_dir, environment, traced=False)
    with (
        LocalServers(run_dir) as servers,
        serving(shared, processes.services(), servers) as system,
    ):
        yield system, processes.ingest_address


async def append(
    report: Report, system: RunningSystem, topic: str, records: Iterator[HostileRecord]
) -> None:
    """Append records, each batch with another codec; what the broker refuses is counted."""
    began_s = time.monotonic()
    for codec in cycle(CODECS):
        batch = list(islice(records, _BATCH))
        if not batch:
            break
        report.refused += await _append(system, topic, batch, codec)
        report.sent[topic] += len(batch)
    took_s = time.monotonic() - began_s
    print(f"{topic}: {report.sent[topic]} records in {took_s:.0f} s", flush=True)


async def _append(
    system: RunningSystem, topic: str, batch: Sequence[HostileRecord], codec: str | None
) -> Counter[str]:
    name = system.deployment.name(topic)
    producer = AIOKafkaProducer(
        **system.deployment.connection,
        compression_type=codec,
        max_request_size=_LARGEST * system.deployment.max_record_bytes,
    )
    async with producer:
        sent = [
            await producer.send(
                name,
                each.value,
                key=each.key,
                partition=each.kafka_partition,
                timestamp_ms=each.timestamp_ms,
                headers=list(each.headers),
            )
            for each in batch
        ]
        answers = await asyncio.gather(*sent, return_exceptions=True)
    return Counter(type(answer).__name__ for answer in answers if isinstance(answer, Exception))


def pids(system: RunningSystem) -> dict[str, int]:
    """Process ids by name; a restart changes them."""
    return {name: system.servers.pid(name) for name in system.processes}


def _bystand(report: Report, system: RunningSystem, address: str, when: str) -> None:
    report.fared[when] = bystander.play(system, address, _PATIENCE_S)
    print(f"a good job after {when}: {report.fared[when]}", flush=True)


def _inquire(report: Report, system: RunningSystem, before: dict[str, int]) -> None:
    now = pids(system)
    for name in system.processes:
        text = system.servers.log(name).read_text(errors="replace")
        ends = [line for line in text.splitlines() if _ENDED.search(line)]
        if ends or now[name] != before[name]:
            report.restarts[name] = f"{len(ends)} ends: {ends[-1][:400] if ends else 'no word'}"
    letters = DeadLetters(system.deployment)
    for topic in system.deployment.topics.specs:
        for letter in letters.of(topic):
            report.letters[topic] += 1
            if kind_of(letter) is LetterKind.QUARANTINED:
                report.quarantined.append(f"{letter.stage}: {letter.reason[:200]}")


if __name__ == "__main__":
    try:
        main()
    except (KafkaError, SmokeTestError) as error:
        sys.exit(f"error: {error}")
