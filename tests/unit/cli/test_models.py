"""`coplace models`: versions as they were published."""

import json
from collections.abc import Iterator

import pytest
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
)
from typer.testing import CliRunner

from cli.kafka_topics import KafkaTopics
from cli.main import app
from cli.models import Model, published, rows
from shared.messaging.digest import model_sha256
from shared.messaging.event import Event

FIRST = PowerModelPublished(version="power@1", fallback_power_w={"m": 200.0})
SECOND = PowerModelPublished(version="power@9", fallback_power_w={"m": 210.0})
OLDER = PowerHistoryUpdated(version="power-history@5", learned_jobs=1)
HISTORY = PowerHistoryUpdated(
    version="power-history@8", learned_jobs=50, recent_error=0.0321, origin=b"\x0a" * 32
)
OTHERS: list[Model] = [
    OLDER,
    HISTORY,
    DegradationModelPublished(version="degradation@1", weights=[0.5], training_pairs=20),
    NodePowerPublished(version="node-power@4", training_readings=60),
]


def event(model: Model, time_us: int) -> Event:
    model.sha256 = model_sha256(model)
    return Event(f"e/{model.version}", "prediction", time_us, "power", model)


def events() -> Iterator[Event]:
    yield event(SECOND, 9_000_000)
    yield event(FIRST, 1_000_000)
    yield event(FIRST, 2_000_000)
    yield from (event(model, 4_000_000 + n) for n, model in enumerate(OTHERS))
    yield Event("round", "prediction", 9_000_001, "", RoundEnded(round=9))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setattr(KafkaTopics, "topic", lambda _self, _name: events())
    return CliRunner()


def test_versions_are_listed_once_in_the_order_of_publication_and_the_newest_is_marked(
    run: CliRunner,
) -> None:
    told = run.invoke(app, ["models", "list", "--output", "json"])
    found = [json.loads(line) for line in told.output.splitlines()]
    assert [(row["version"], row["learned from"], row["newest"]) for row in found] == [
        ("power@1", "newest readings", ""),
        ("power-history@8", "50 jobs", "newest"),
        ("degradation@1", "20 pairs", "newest"),
        ("node-power@4", "60 readings", "newest"),
        ("power@9", "newest readings", "newest"),
    ]
    assert [row["error on others"] for row in found] == ["", "3.21 %", "", "", ""]
    assert found[0]["published"] == "1970-01-01 00:00:01"


def test_a_version_whose_content_is_not_what_its_digest_says_shows_both() -> None:
    changed = PowerModelPublished(version="power@2", training_jobs=7)
    sent = event(changed, 1)
    changed.training_jobs = 8
    (row,) = rows(published([sent]))
    assert row["sha256"] == f"{model_sha256(changed).hex()}, not {changed.sha256.hex()}"


def test_a_version_is_shown_with_its_parameters_and_digests(run: CliRunner) -> None:
    told = json.loads(run.invoke(app, ["models", "show", "power-history@5"]).output)
    assert told["learned_jobs"] == "1"
    assert told["sha256"] == model_sha256(OLDER).hex()
    told = json.loads(run.invoke(app, ["models", "show", "power-history@8"]).output)
    assert told["origin"] == "0a" * 32


def test_a_version_that_was_not_published_is_told_in_one_line(run: CliRunner) -> None:
    told = run.invoke(app, ["models", "show", "power@2"])
    assert told.exit_code == 1
    assert "there is no version 'power@2'" in told.output
