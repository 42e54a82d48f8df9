"""`coplace models`: versions as they were published."""

import json
from collections.abc import Iterator, Sequence

import pytest
from coplace.v1.control_pb2 import ModelPinned, ModelRolledBack, RoundEnded
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

from cli import models
from cli.kafka_topics import KafkaTopics
from cli.models import Model, Trees, list_published, rows
from shared.catalogue.contents.check import check_contents
from shared.catalogue.digest import model_sha256
from shared.catalogue.event import Event
from tests.unit.cli.command_line import published_by, refusal, rows_of, said

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
def of_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KafkaTopics, "topic", lambda _self, _name: events())


@pytest.mark.usefixtures("of_power")
def test_versions_are_listed_once_in_the_order_of_publication_and_the_newest_is_marked() -> None:
    found = rows_of(said("models", "list", "--output", "json"))
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
    (row,) = rows(list_published([sent]))
    assert row["sha256"] == f"{model_sha256(changed).hex()}, not {changed.sha256.hex()}"


@pytest.mark.usefixtures("of_power")
def test_a_version_is_shown_with_its_parameters_and_digests() -> None:
    told = json.loads(said("models", "show", "power-history@5"))
    assert told["learned_jobs"] == "1"
    assert told["sha256"] == model_sha256(OLDER).hex()
    assert json.loads(said("models", "show", "power-history@8"))["origin"] == "0a" * 32


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
def of_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        Event(f"e/{at}", "prediction", at, "power-trees", payload)
        for at, payload in enumerate(TOLD)
    ]
    monkeypatch.setattr(KafkaTopics, "topic", lambda _self, _name: iter(found))


@pytest.mark.usefixtures("of_trees")
def test_trees_are_listed_with_what_came_of_them_in_the_shadow() -> None:
    found = rows_of(said("models", "list", "--output", "json"))
    assert [(row["version"], row["error on others"], row["state"]) for row in found] == [
        ("power-trees@300", "10.00 %, not 12.00 %", "in force, pinned: why"),
        ("power-trees@500", "20.00 %, not 11.00 %", "not better"),
        ("power-trees@700", "9.00 %, not 10.00 %", "was in force"),
        ("power-trees@900", "", "in the shadow"),
        ("pair-trees@130", "2.00 %, not 3.00 %", "in force: better"),
    ]
    assert found[0]["learned from"] == "300 jobs"
    assert found[-1]["learned from"] == "128 intervals"
    shown = json.loads(said("models", "show", "power-trees@500"))
    assert shown["data_sha256"] == "0b" * 32


PAIRS = ("--model", "pair-trees")


@pytest.mark.usefixtures("of_trees")
@pytest.mark.parametrize(
    ("words", "order"),
    [
        (["pin", "power-trees@500"], ModelPinned(model="power-trees", version="power-trees@500")),
        (["pin", "pair-trees@130"], ModelPinned(model="pair-trees", version="pair-trees@130")),
        (["unpin"], ModelPinned(model="power-trees")),
        (["unpin", *PAIRS], ModelPinned(model="pair-trees")),
        (["rollback"], ModelRolledBack(model="power-trees")),
        (["rollback", *PAIRS], ModelRolledBack(model="pair-trees")),
    ],
)
def test_operators_say_which_trees_hold_and_why(
    monkeypatch: pytest.MonkeyPatch, words: list[str], order: ModelPinned | ModelRolledBack
) -> None:
    sent = published_by(models, monkeypatch)
    monkeypatch.setattr(models, "clock_us", lambda: 10**15)
    said("models", *words, "--reason", "why", "--source", "ada")
    [envelope] = sent
    name = envelope.WhichOneof("payload")
    found = getattr(envelope, str(name))
    check_contents(found)
    order.reason = "why"
    setattr(order, "rolled_back_at_us" if "rolled" in str(name) else "pinned_at_us", 10**15)
    assert (found, envelope.source, envelope.time_us) == (order, "ada", 10**15)


NOT_KEPT = "no versions of power are kept: give power-trees and pair-trees"


@pytest.mark.usefixtures("of_power")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pin", "power-trees@1"], "there is no version 'power-trees@1'"),
        (["show", "power@2"], "there is no version 'power@2'"),
        (["pin", "power@9"], NOT_KEPT),
        (["unpin", "--model", "power"], NOT_KEPT),
    ],
)
def test_what_was_not_published_or_is_not_kept_is_refused(words: Sequence[str], told: str) -> None:
    assert told in refusal("models", *words)
