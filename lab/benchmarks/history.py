"""What a month of jobs takes in the history: time to fold, size, and times of answers.

Usage: python -m lab.benchmarks.history JOBS DATABASE...

A database is an empty one: a new file, or postgresql://user:password@host:port/database.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER, PowerCapDeclared, PowerCapStep
from coplace.v1.history_service_pb2 import (
    ListAuditRequest,
    ListChargesRequest,
    ListRunsRequest,
    ShowStatementRequest,
)
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import CHARGE_REASON_ALONE, ChargeMade
from google.protobuf.message import Message
from sqlalchemy import text

from services.history.database import Database, migrate, open_database
from services.history.facts import TOPICS
from services.history.reading import HistoryReader
from services.history.writing import HistoryWriter
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.streams.following import TopicBatch

_T0_US: Final = 1_767_225_600_000_000
_MONTH_US: Final = 30 * 86_400_000_000
_USERS: Final = 500
_ACCOUNTS: Final = 50
_JOBS_A_BATCH: Final = 1_000
# So often an operator changes a cap.
_JOBS_A_CAP: Final = 100
_QUESTIONS: Final = 300


def _facts(number: int, jobs: int) -> Iterator[tuple[str, Message]]:
    draw = random.Random(number)
    at_us = _T0_US + number * _MONTH_US // jobs
    job_id = f"north/alpha/{number}/{at_us // 1_000_000}"
    user = f"user{draw.randrange(_USERS)}"
    account = f"account{draw.randrange(_ACCOUNTS)}"
    cluster = f"cluster{draw.randrange(4)}"
    nodes, run_us = draw.randrange(1, 9), draw.randrange(60, 36_000) * 1_000_000
    started_us = at_us + draw.randrange(1, 3_600) * 1_000_000
    owner: dict[str, Any] = {
        "job_id": job_id,
        "attempt": 1,
        "app_id": "hpcg",
        "user": user,
        "account": account,
    }
    yield (
        "jobs.events",
        JobSubmitted(
            **owner,
            nodes=nodes,
            walltime_s=36_000,
            reference_cluster=cluster,
            submitted_at_us=at_us,
        ),
    )
    yield "placement.decisions", PlacementDecided(
        job_id=job_id, attempt=1, round=1, verdict=VERDICT_QUEUED, decided_at_us=at_us,
        reason=f"{cluster}: {nodes - 1} of {nodes} nodes are free",
    )  # fmt: skip
    if number % _JOBS_A_CAP == 0:
        yield "commands", PowerCapDeclared(
            scope=POWER_SCOPE_CLUSTER, name=cluster, declared_at_us=at_us,
            steps=[PowerCapStep(from_us=at_us, watts=draw.randrange(50, 90) * 1_000)],
        )  # fmt: skip
    yield "placement.decisions", PlacementDecided(
        job_id=job_id, attempt=1, round=2, verdict=VERDICT_START, cluster=cluster, freq_ghz=2.4,
        node_indices=range(nodes), cores_per_node=24, decided_at_us=started_us, grant=1,
    )  # fmt: skip
    yield "jobs.events", JobStarted(
        job_id=job_id, attempt=1, cluster=cluster, nodes=[f"n[1-{nodes}]"], freq_ghz=2.4,
        started_at_us=started_us, grant=1,
    )  # fmt: skip
    ended_us = started_us + run_us
    end = JobFinished(
        **owner, outcome=JOB_OUTCOME_COMPLETED, cluster=cluster, nodes=nodes, cores_per_node=24,
        freq_ghz=2.4, submitted_at_us=at_us, started_at_us=started_us, ended_at_us=ended_us,
        energy_j=1e6, grant=1,
    )  # fmt: skip
    yield "jobs.events", end
    price = f"{nodes * 24 * run_us // 1_800}"
    price = f"{price[:-6] or '0'}.{price[-6:]:0>6}"
    yield "prices.charges", ChargeMade(
        job_id=job_id, attempt=1, revision=1, user=user, account=account, cluster=cluster,
        price_su=price, state_of_practice_su=price, cores=nodes * 24, runtime_s=run_us / 1e6,
        charged_at_us=ended_us, booked_at_us=ended_us, reason=CHARGE_REASON_ALONE, finished=end,
    )  # fmt: skip


def _quantile(times_s: list[float], share: float) -> float:
    return statistics.quantiles(times_s, n=1_000)[round(share * 1_000) - 1] * 1e3


def _measure(name: str, question: Callable[[random.Random], object]) -> None:
    draw, times_s = random.Random(1), list[float]()
    for _ in range(_QUESTIONS):
        began_s = time.perf_counter()
        question(draw)
        times_s.append(time.perf_counter() - began_s)
    print(f"{name}: median {_quantile(times_s, 0.5):.1f} ms, p99 {_quantile(times_s, 0.99):.1f} ms")


def _size_mb(database: Database) -> float:
    if database.is_file:
        return database.file.stat().st_size / 1e6
    with open_database(database).begin() as connection:
        size = connection.scalar(text("SELECT pg_database_size(current_database())"))
    return int(size or 0) / 1e6


def main(jobs: int, database: Database) -> None:
    """Fold, and ask."""
    print(f"{database}:", flush=True)
    codec = Codec(Topics(kafka_partitions=4), 1_000_000)
    engine = open_database(database, writes=True)
    migrate(database, engine)
    writer = HistoryWriter(engine, codec)
    ends = {place: 0 for topic in TOPICS for place in codec.topics.partitions(topic)}
    for place in ends:
        writer.begin(place, b"t" * 16, 0)
    folded_s, records = 0.0, 0
    for begin in range(0, jobs, _JOBS_A_BATCH):
        batches: dict[TopicPartition, list[Record]] = {}
        for number in range(begin, min(begin + _JOBS_A_BATCH, jobs)):
            for topic, payload in _facts(number, jobs):
                key = codec.topics.spec(topic).key_of(payload)
                made = codec.encode(
                    Publish(topic, Event(f"e/{records}", "b", _T0_US, key, payload))
                )
                offset, records = ends[made.partition], records + 1
                ends[made.partition] = offset + 1
                record = Record(made.partition, offset, made.key, made.value, made.headers)
                batches.setdefault(made.partition, []).append(record)
        found = [
            TopicBatch(place, each[0].offset, each, each[-1].offset + 1)
            for place, each in batches.items()
        ]
        began_s = time.perf_counter()
        writer.apply(found)
        folded_s += time.perf_counter() - began_s
        if begin % 50_000 == 0:
            print(f"{records} records, {folded_s:.0f} s", flush=True)
    rate, size_mb = records / folded_s, _size_mb(database)
    print(f"{jobs} jobs, {records} records: {folded_s:.0f} s, {rate:.0f}/s, {size_mb:.0f} MB")
    reader = HistoryReader(open_database(database))
    asked = ShowStatementRequest(account="account7")
    began_s = time.perf_counter()
    rows = reader.statement(asked, None, 1_000)
    print(f"a statement of {rows.within.lines} lines: {time.perf_counter() - began_s:.3f} s a page")

    def behind(draw: random.Random) -> tuple[int, str, int]:
        return _T0_US + draw.randrange(_MONTH_US), "north", 1

    _measure("runs", lambda draw: reader.runs(ListRunsRequest(), behind(draw), 51))
    _measure("runs of a user", lambda draw: reader.runs(
        ListRunsRequest(user=f"user{draw.randrange(_USERS)}"), behind(draw), 51))  # fmt: skip
    _measure("charges of an account", lambda draw: reader.charges(
        ListChargesRequest(account=f"account{draw.randrange(_ACCOUNTS)}"),
        (*behind(draw), 1), 51))  # fmt: skip
    _measure("statement", lambda draw: reader.statement(
        ShowStatementRequest(account=f"account{draw.randrange(_ACCOUNTS)}"), None, 51))  # fmt: skip
    _measure("audit", lambda draw: reader.audit(
        ListAuditRequest(), (_T0_US + draw.randrange(_MONTH_US), "north"), 51))  # fmt: skip

    def story(draw: random.Random) -> None:
        number = draw.randrange(jobs)
        job_id = f"north/alpha/{number}/{(_T0_US + number * _MONTH_US // jobs) // 1_000_000}"
        assert reader.job(job_id)[0]
        reader.stories_of(job_id)
        reader.charges_of(job_id)

    _measure("a job's story", story)


if __name__ == "__main__":
    for place in sys.argv[2:]:
        main(int(sys.argv[1]), Database(place))
