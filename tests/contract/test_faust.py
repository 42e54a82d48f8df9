"""Faust's stages: nothing is acknowledged that was not applied, and a read model's own position
counts."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.on_kafka import KafkaBackend, KafkaWorker
from tests.support.messaging import encoded, submission

JOBS = 200
BATCHES = [[submission(f"j{batch}-{i}") for i in range(JOBS)] for batch in range(2)]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """An empty read model."""
    return empty(tmp_path / "model.db")


def empty(path: Path) -> Path:
    """A new read model, or an old one that lost everything."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE applied (id TEXT PRIMARY KEY, times INTEGER)")
        connection.execute("CREATE TABLE positions (kafka_partition INTEGER PRIMARY KEY, position)")
    return path


def times_applied(path: Path) -> dict[str, int]:
    """How often each event was applied."""
    with sqlite3.connect(path) as connection:
        return dict(connection.execute("SELECT id, times FROM applied"))


def start(on_kafka: KafkaBackend, database: Path, *, keeps: bool, bug_at: str = "") -> KafkaWorker:
    """A process that fills the read model."""
    return on_kafka.start_process(
        "tests.contract.faust_worker",
        {
            "TEST_DATABASE": str(database),
            "TEST_KEEPS_POSITION": "yes" if keeps else "",
            "TEST_BUG_AT": bug_at,
        },
    )


def has(database: Path, events: int) -> Callable[[], bool]:
    """Whether so many events were applied."""
    return lambda: len(times_applied(database)) >= events


def test_a_read_model_is_applied_once_over_restarts(on_kafka: KafkaBackend, database: Path) -> None:
    on_kafka.append(encoded(*BATCHES[0]))
    first = start(on_kafka, database, keeps=True)
    on_kafka.until(has(database, JOBS))
    first.stop()
    on_kafka.append(encoded(*BATCHES[1]))
    start(on_kafka, database, keeps=True)
    on_kafka.until(has(database, 2 * JOBS))
    assert set(times_applied(database).values()) == {1}


@pytest.mark.rest
def test_a_lost_read_model_rebuilds_itself(on_kafka: KafkaBackend, database: Path) -> None:
    on_kafka.append(encoded(*BATCHES[0]))
    first = start(on_kafka, database, keeps=True)
    on_kafka.until(has(database, JOBS))
    first.stop()
    empty(database)
    on_kafka.append(encoded(*BATCHES[1]))
    start(on_kafka, database, keeps=True)
    on_kafka.until(has(database, 2 * JOBS))
    assert set(times_applied(database).values()) == {1}


def test_a_failed_handler_ends_the_process_and_loses_nothing(
    on_kafka: KafkaBackend, database: Path
) -> None:
    on_kafka.append(encoded(*BATCHES[0]))
    failing = start(on_kafka, database, keeps=False, bug_at=BATCHES[0][JOBS // 2].event.id)
    on_kafka.until(lambda: failing.ended)
    assert failing.exit_code == 1
    assert "a bug in the handler" in failing.last_words
    start(on_kafka, database, keeps=False)
    on_kafka.until(has(database, JOBS))
    assert set(times_applied(database)) == {publish.event.id for publish in BATCHES[0]}
