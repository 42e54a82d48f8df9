"""A region's record where it is kept: on real Kafka."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import RoundEnded
from typer.testing import CliRunner, Result

from cli.main import app
from cli.stages import create_topics
from deploy.local.servers import LocalServers
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord
from shared.process import settings as shared_settings
from shared.process.settings import Settings
from shared.streams.on_kafka.clients import Publisher
from shared.streams.on_kafka.deployment import Deployment
from tests.unit.shared.placement import region
from tests.unit.shared.replay.records import recorded

INPUTS, DECISIONS = "placement.inputs", "placement.decisions"


@pytest.fixture(scope="module")
def deployment(servers: LocalServers) -> Iterator[Deployment]:
    """The topics of a region whose record is small, and commands that read them."""
    given = {"KAFKA_BOOTSTRAP": servers.kafka_bootstrap, "NAMESPACE": "recorded"}
    settings = Settings(**{name.lower(): value for name, value in given.items()})  # type: ignore[arg-type]
    found = Deployment.from_settings(settings)
    create_topics(found)
    inputs, decisions = recorded(
        [region.submitted(f"j{n}") for n in range(9)],
        dict.fromkeys([f"j{n}" for n in range(9)], 100.0),
    )
    with Publisher(found) as publisher:
        for each in inputs.rounds:
            publisher.append(_record(found, event) for event in (*each.events, each.barrier))
        for number, decided in enumerate(decisions):
            event = Event(
                f"d/{number}", "placement", decided.decided_at_us, decided.job_id, decided
            )
            publisher.append([found.codec.encode(Publish(DECISIONS, event))])
    with pytest.MonkeyPatch.context() as environment:
        for name, value in given.items():
            environment.setenv(f"COPLACE_{name}", value)
        shared_settings.settings.cache_clear()
        yield found
    shared_settings.settings.cache_clear()


def _record(deployment: Deployment, event: Event) -> NewRecord:
    if isinstance(event.payload, RoundEnded):
        (partition,) = deployment.topics.partitions(INPUTS)
        return deployment.codec.encode_barrier(partition, event)
    return deployment.codec.encode(Publish(INPUTS, event))


def coplace(*words: str) -> Result:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.usefixtures("deployment")
def test_a_record_is_read_from_its_topics_and_from_what_tail_prints_of_them(
    tmp_path: Path,
) -> None:
    from_topics = coplace("simulate", "--from-kafka", "--policy", "base")
    assert "replay: 9 of 9 starts equal" in from_topics.stdout
    assert "recorded.placement.inputs, 9 jobs" in from_topics.stdout
    file, decisions = tmp_path / "inputs", tmp_path / "decisions"
    file.write_text(coplace("tail", INPUTS).stdout)
    decisions.write_text(coplace("tail", DECISIONS).stdout)
    words = ("simulate", "--recorded", str(file), "--decisions", str(decisions))
    from_files = coplace(*words, "--policy", "base")
    assert from_files.stdout.splitlines()[:2] == from_topics.stdout.splitlines()[:2]
    rows = [
        [line for line in done.stdout.splitlines() if "│" in line]
        for done in (from_topics, from_files)
    ]
    assert rows[0] == rows[1]
