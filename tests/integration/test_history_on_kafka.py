"""The history as a process on real Kafka with each database: killed again and again, it has what
was committed, and one that is built anew from topics and archive is equal to the first."""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_REGION, PowerCapDeclared, PowerCapStep
from coplace.v1.history_service_pb2 import ShowStoryRequest
from coplace.v1.history_service_pb2_grpc import HistoryServiceStub
from kafka import TopicPartition as KafkaPartition

from cli.dlq.dead_letters import DeadLetters
from cli.history.examining import examine_history
from cli.history.rebuilding import rebuild
from coplace_client.errors import CannotStartError
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from services.history.adapters import FollowedTopics
from services.history.applying import BatchApplier
from services.history.database import Database, open_database
from services.history.facts import TOPICS
from services.history.following import Follower
from services.history.model import RunRow
from services.history.settings import DatabaseSettings
from services.history.writing import HistoryWriter
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.writing import PartitionArchive
from shared.catalogue.record import NewRecord
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.clients import Publisher, Reader
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from tests.support.patience import PATIENCE_S
from tests.support.postgresql import PASSWORD, PostgreSql
from tests.unit.services.history.made import (
    T0_US,
    FactLog,
    audited,
    charge,
    decided,
    dump,
    finished,
    requeued,
    standing,
    started,
    submitted,
)

KAFKA_PARTITIONS: Final = 2
ROUNDS: Final = 3
JOBS_A_ROUND: Final = 300


class Kept(NamedTuple):
    """A process that keeps the history, and what it keeps."""

    servers: LocalServers
    deployment: Deployment
    program: Program
    database: Database
    address: str
    another: Callable[[], Database]
    """What makes an empty database."""

    def send(self, *facts: tuple[str, Any]) -> None:
        """Send facts of topics."""
        log = FactLog(f"sent-{time.monotonic_ns()}")
        for topic, payload in facts:
            log.add(topic, payload)
        with Publisher(self.deployment) as publisher:
            for records in log.records.values():
                publisher.append(
                    NewRecord(each.partition, each.key, each.value, each.headers)
                    for each in records
                )

    def knows(self, job_id: str) -> bool:
        """Whether it answers about the end of a job."""
        with grpc.insecure_channel(self.address) as channel:
            try:
                found = HistoryServiceStub(channel).ShowStory(
                    ShowStoryRequest(job_id=job_id), timeout=5
                )
            except grpc.RpcError:
                return False
        return any(run.price_su for run in found.runs)

    def rows(self) -> dict[str, list[Any]]:
        """All rows as they are."""
        return dump(open_database(self.database))


def facts_of(job_id: str) -> list[tuple[str, Any]]:
    """Everything that happens to a job."""
    return [
        ("jobs.events", submitted(job_id)),
        ("placement.decisions", decided(job_id)),
        ("jobs.events", started(job_id)),
        ("jobs.events", requeued(job_id)),
        ("jobs.events", finished(job_id, 2)),
        ("prices.charges", charge(job_id, "1.000001", attempt=2, finished=finished(job_id, 2))),
    ]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for it. Raises TimeoutError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError
        time.sleep(0.02)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def history(
    request: pytest.FixtureRequest,
    servers: LocalServers,
    postgres: PostgreSql,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kept]:
    """A history whose process is killed after each round of facts, and PostgreSQL with it once."""
    name = f"history-{request.param}"
    settings = Settings(
        kafka_bootstrap=servers.kafka_bootstrap, namespace=name, kafka_partitions=KAFKA_PARTITIONS
    )
    deployment = Deployment.from_settings(settings)
    admin = admin_client(deployment)
    ensure_topics(admin, deployment, names=TOPICS)
    admin.close()
    folder, numbers = tmp_path_factory.mktemp("history"), count()
    password_file = folder / "password"
    password_file.write_text(f"{PASSWORD}\n")

    def another() -> Database:
        if request.param == "sqlite":
            return Database(str(folder / f"{next(numbers)}.db"))
        return Database(postgres.fresh(password=""), password_file)

    database = another()
    health, port = free_ports(2)
    program = Program(
        name,
        [sys.executable, "-m", "services.history"],
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "COPLACE_NAMESPACE": name,
            "COPLACE_KAFKA_PARTITIONS": str(KAFKA_PARTITIONS),
            "COPLACE_HTTP_PORT": str(health),
            "COPLACE_HISTORY_DATABASE": database.place,
            "COPLACE_HISTORY_DATABASE_PASSWORD_FILE": str(password_file),
            "COPLACE_HISTORY_PORT": str(port),
        },
        ready_url=f"http://127.0.0.1:{health}/readyz",
    )
    servers.start([program])
    found = Kept(servers, deployment, program, database, f"127.0.0.1:{port}", another)
    try:
        for number in range(ROUNDS):
            jobs = [f"north/alpha/{number}-{each}" for each in range(JOBS_A_ROUND)]
            found.send(
                *(fact for job in jobs for fact in facts_of(job)),
                ("audit", audited("ada")),
                ("accounts.standings", standing("physics", number + 1)),
                ("commands", cap(number)),
            )
            if number:
                wait_until(lambda job=jobs[0]: found.knows(job))  # type: ignore[misc]
            if number == 1 and not database.is_file:
                postgres.stop("immediate")
                postgres.start()
                wait_until(lambda job=jobs[-1]: found.knows(job))  # type: ignore[misc]
            servers.kill(name)
        wait_until(lambda: found.knows(f"north/alpha/{ROUNDS - 1}-{JOBS_A_ROUND - 1}"))
        yield found
    finally:
        servers.remove([program])


def cap(number: int) -> PowerCapDeclared:
    """A cap of the region that replaces the one before."""
    steps = [PowerCapStep(from_us=T0_US, watts=1_000 * (number + 1))]
    return PowerCapDeclared(scope=POWER_SCOPE_REGION, steps=steps, declared_at_us=T0_US + number)


def test_what_was_committed_is_there_once_over_kills(history: Kept) -> None:
    rows = history.rows()
    assert len(rows["charges"]) == len(rows["postings"]) == ROUNDS * JOBS_A_ROUND
    assert len(rows["runs"]) == 2 * ROUNDS * JOBS_A_ROUND
    assert rows["accounts"][0][:3] == ("physics", str(1_000_001 * ROUNDS * JOBS_A_ROUND), ROUNDS)
    assert [row[2] for row in rows["audit"] if not row[10]] == ["ada"] * ROUNDS
    assert [
        json.loads(row[9])["steps"][0]["watts"]
        for row in sorted(rows["changes"], key=lambda row: row[4])
    ] == [1_000 * (number + 1) for number in range(ROUNDS)]


def test_an_answer_has_what_was_published_within_a_second(history: Kept) -> None:
    took_s = []
    for number in range(5):
        job_id = f"north/alpha/fresh-{number}"
        history.send(*facts_of(job_id))
        began_s = time.monotonic()
        wait_until(lambda job_id=job_id: history.knows(job_id))  # type: ignore[misc]
        took_s.append(time.monotonic() - began_s)
    print(f"fresh within {max(took_s):.3f} s")
    assert statistics.median(took_s) < 1.0


def test_a_database_is_not_built_anew_while_its_process_writes(history: Kept) -> None:
    with pytest.raises(CannotStartError, match="another process writes"):
        rebuild(history.deployment, history.database, "", lambda _records: None)


def test_a_database_that_is_built_anew_is_equal_to_the_first(history: Kept) -> None:
    again = history.another()
    rebuild(history.deployment, again, "", lambda _records: None)
    assert dump(open_database(again)) == history.rows()


def test_databases_of_both_kinds_have_the_same_rows(
    history: Kept, postgres: PostgreSql, tmp_path: Path
) -> None:
    of_each = Database(str(tmp_path / "again.db")), Database(postgres.fresh())
    for each in of_each:
        rebuild(history.deployment, each, "", lambda _records: None)
        # It replaces what is there.
        rebuild(history.deployment, each, "", lambda _records: None)
    first, second = (dump(open_database(each)) for each in of_each)
    assert first == second == history.rows()


def test_what_nobody_can_use_is_a_dead_letter(history: Kept) -> None:
    job_id = "north/alpha/after-a-bad-one"
    history.send(("prices.charges", charge("north/alpha/bad", "NaN")))
    history.send(*facts_of(job_id))
    wait_until(lambda: history.knows(job_id))
    letters = list(DeadLetters(history.deployment).of("prices.charges"))
    assert [(each.stage, each.topic) for each in letters] == [("history", "prices.charges")]
    assert "NaN" in letters[0].reason


def test_what_is_repaired_by_a_rebuild_is_named_by_the_doctor(history: Kept) -> None:
    own = DatabaseSettings(
        database=history.database.place, database_password_file=history.database.password_file
    )
    assert asyncio.run(examine_history(history.deployment, own)) == []


def test_the_archive_gives_what_topics_have_not_any_more(history: Kept, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    files(history.deployment, archive)
    places = history.deployment.topics.partitions("jobs.events")
    admin = admin_client(history.deployment)
    admin.delete_records(
        {KafkaPartition(history.deployment.name(each.topic), each.kafka_partition): 400
         for each in places}
    )  # fmt: skip
    admin.close()
    expected = history.rows()
    again = history.another()
    rebuild(history.deployment, again, str(archive), lambda _records: None)
    assert dump(open_database(again)) == expected


def test_a_gap_behind_a_process_that_was_down_is_filled_from_the_archive(
    history: Kept, tmp_path: Path
) -> None:
    """Records came and were removed from Kafka while it did not run."""
    history.servers.remove([history.program])
    jobs = [f"north/alpha/gap-{each}" for each in range(20)]
    history.send(*(fact for job in jobs for fact in facts_of(job)))
    archive = tmp_path / "archive"
    files(history.deployment, archive)
    admin = admin_client(history.deployment)
    admin.delete_records(
        {KafkaPartition(history.deployment.name(each.topic), each.kafka_partition): -1
         for each in history.deployment.topics.partitions("jobs.events")}
    )  # fmt: skip
    admin.close()
    environment = dict(history.program.env) | {"COPLACE_HISTORY_ARCHIVE": str(archive)}
    program = replace(history.program, env=environment)
    history.servers.start([program])
    try:
        wait_until(lambda: all(map(history.knows, jobs)))
    finally:
        history.servers.remove([program])
    runs = map(RunRow._make, history.rows()["runs"])
    # Starts alone name nodes.
    assert {run.job_id for run in runs if run.node_names} >= {*jobs}


def test_a_topic_of_another_identity_is_refused(history: Kept) -> None:
    before = history.rows()
    admin = admin_client(history.deployment)
    admin.delete_topics([history.deployment.name("accounts.standings")])
    time.sleep(2)
    ensure_topics(admin, history.deployment, names=("accounts.standings",))
    admin.close()
    wrong = asyncio.run(differences(history))
    assert wrong
    assert all("accounts.standings" in each and "history rebuild" in each for each in wrong)
    assert history.rows() == before


async def differences(history: Kept) -> list[str]:
    """What a process that starts finds wrong."""
    writer = HistoryWriter(open_database(history.database, writes=True), history.deployment.codec)
    async with FollowedTopics.connected(history.deployment) as kafka:
        applier = BatchApplier(writer, 0, lambda _record, _fault: None)
        follower = Follower(kafka, applier, None, lambda _records: None)
        return [str(each) for each in await follower.open()]


def files(deployment: Deployment, folder: Path) -> None:
    """Archive the events of jobs."""
    folder.mkdir()
    facts = KafkaFacts(deployment)
    places = deployment.topics.partitions("jobs.events")
    topic_id = facts.of_partitions(("jobs.events",), {}, places).topics["jobs.events"].topic_id
    facts.close()
    for place in places:
        made = PartitionArchive.resume(LocalFolder(folder), *place, topic_id.hex(), 0)
        with Reader(deployment, [place]) as reader:
            made.add(
                ArchivedRecord(
                    *place, each.offset, each.written_ms, each.key, each.value, each.headers
                )
                for each in reader.to_end()
            )
        made.write(with_tail=True)
