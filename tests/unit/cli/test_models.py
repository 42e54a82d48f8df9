"""`coplace models`: versions as they were published."""

import json
from collections.abc import Iterator

import pytest
from coplace.v1.control_pb2 import ModelPinned, ModelRolledBack, RoundEnded
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.prediction_pb2 import (
    DegradationModelPublished,
    NodePowerPublished,
    PairTreesChosen,
    PairTreesJudged,
    PairTreesPublished,
    PowerHistoryUpdated,
    PowerModelPublished,
    PowerTreesChosen,
    PowerTreesJudged,
    PowerTreesPublished,
)
from typer.testing import CliRunner

from cli import models
from cli.kafka_topics import KafkaTopics
from cli.main import app
from cli.models import Model, Trees, published, rows
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event

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
    assert [(row["version"], row["learned from"], row["state"]) for row in found] == [
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


def trees(number: int) -> PowerTreesPublished:
    return PowerTreesPublished(
        version=f"power-trees@{number}", trained_jobs=number, data_sha256=b"\x0b" * 32
    )


TOLD: list[Model | Trees] = [
    trees(300),
    PowerTreesJudged(version="power-trees@300", error=0.1, error_in_force=0.12, is_better=True),
    PowerTreesChosen(version="power-trees@300", who="prediction", reason="better"),
    trees(500),
    PowerTreesJudged(version="power-trees@500", error=0.2, error_in_force=0.11),
    trees(700),
    PowerTreesJudged(version="power-trees@700", error=0.09, error_in_force=0.1, is_better=True),
    PowerTreesChosen(version="power-trees@700", who="prediction", reason="better"),
    PowerTreesChosen(version="power-trees@300", who="operator", reason="why", is_pinned=True),
    trees(900),
    PairTreesPublished(version="pair-trees@130", trained_intervals=128),
    PairTreesJudged(version="pair-trees@130", error=0.02, error_in_force=0.03, is_better=True),
    PairTreesChosen(version="pair-trees@130", who="prediction", reason="better"),
]


@pytest.fixture
def of_trees(monkeypatch: pytest.MonkeyPatch, run: CliRunner) -> CliRunner:
    found = [
        Event(f"e/{at}", "prediction", at, "power-trees", payload)
        for at, payload in enumerate(TOLD)
    ]
    monkeypatch.setattr(KafkaTopics, "topic", lambda _self, _name: iter(found))
    return run


def test_trees_are_listed_with_what_came_of_them_in_the_shadow(of_trees: CliRunner) -> None:
    told = of_trees.invoke(app, ["models", "list", "--output", "json"])
    found = [json.loads(line) for line in told.output.splitlines()]
    assert [(row["version"], row["error on others"], row["state"]) for row in found] == [
        ("power-trees@300", "10.00 %, not 12.00 %", "in force, pinned: why"),
        ("power-trees@500", "20.00 %, not 11.00 %", "not better"),
        ("power-trees@700", "9.00 %, not 10.00 %", "was in force"),
        ("power-trees@900", "", "in the shadow"),
        ("pair-trees@130", "2.00 %, not 3.00 %", "in force: better"),
    ]
    assert found[0]["learned from"] == "300 jobs"
    assert found[-1]["learned from"] == "128 intervals"
    shown = json.loads(of_trees.invoke(app, ["models", "show", "power-trees@500"]).output)
    assert shown["data_sha256"] == "0b" * 32


@pytest.mark.parametrize(
    ("arguments", "order"),
    [
        (["pin", "power-trees@500"], ModelPinned(model="power-trees", version="power-trees@500")),
        (["pin", "pair-trees@130"], ModelPinned(model="pair-trees", version="pair-trees@130")),
        (["unpin"], ModelPinned(model="power-trees")),
        (["unpin", "--model", "pair-trees"], ModelPinned(model="pair-trees")),
        (["rollback"], ModelRolledBack(model="power-trees")),
        (["rollback", "--model", "pair-trees"], ModelRolledBack(model="pair-trees")),
    ],
)
def test_operators_say_which_trees_hold_and_why(
    of_trees: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    order: ModelPinned | ModelRolledBack,
) -> None:
    sent: list[Envelope] = []
    monkeypatch.setattr(models, "publish", lambda _ingest, event: sent.append(event))
    monkeypatch.setattr(models, "clock_us", lambda: 10**15)
    told = of_trees.invoke(app, ["models", *arguments, "--reason", "why", "--source", "ada"])
    assert told.exit_code == 0
    [envelope] = sent
    name = envelope.WhichOneof("payload")
    found = getattr(envelope, str(name))
    check_contents(found)
    order.reason = "why"
    setattr(order, "rolled_back_at_us" if "rolled" in str(name) else "pinned_at_us", 10**15)
    assert (found, envelope.source, envelope.time_us) == (order, "ada", 10**15)


def test_a_version_that_nobody_published_is_not_pinned(of_trees: CliRunner) -> None:
    told = of_trees.invoke(app, ["models", "pin", "power-trees@1"])
    assert "there is no version 'power-trees@1'" in told.output


def test_of_other_models_no_version_is_put_into_force(run: CliRunner) -> None:
    for arguments in (["pin", "power@9"], ["unpin", "--model", "power"]):
        told = run.invoke(app, ["models", *arguments])
        assert told.exit_code == 1
        assert "of power no versions are kept, but of power-trees and pair-trees" in told.output


def test_a_version_that_was_not_published_is_told_in_one_line(run: CliRunner) -> None:
    told = run.invoke(app, ["models", "show", "power@2"])
    assert told.exit_code == 1
    assert "there is no version 'power@2'" in told.output
