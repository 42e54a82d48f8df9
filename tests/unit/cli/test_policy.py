"""`coplace policy show|set|reset|schema|reference`."""

import csv
import json
from dataclasses import replace
from functools import partial

import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from cli import policy as commands
from shared.catalogue import policy_declarations
from shared.catalogue.policy_documents import reference
from shared.catalogue.policy_settings import DECLARABLE
from shared.domain.runtimes import Runtimes
from shared.placement.processor.placement import Placement
from tests.unit.cli.command_line import IN_FORCE, published_by, refusal, said, taken
from tests.unit.cli.served import Served
from tests.unit.shared.placement.region import placement, policy, round_of, submitted
from tests.unit.shared.placement.state.test_slowdown_guarantees import (
    APP,
    MODEL,
    seen,
    sharing,
    told,
)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Envelope]:
    return published_by(commands, monkeypatch)


def call(processor: Placement, *words: str) -> str:
    with Served(processor) as address:
        return said("policy", *words, "--placement", address)


def test_what_is_set_is_an_event_that_placement_follows_and_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    processor = placement()
    published = published_by(commands, monkeypatch, partial(round_of, processor, 0))
    words = ("policy=min-energy", "most_requeues=2", "cap_counts_idle=false", "cap_measures=")
    told = call(processor, "set", *words, "--reason", "a dear night", "--source", "operator/ada")
    assert told.splitlines() == [
        "policy: min-energy, was priority-inc-v",
        "cap_counts_idle: false, was true",
        "cap_measures: nothing, was lower-frequency,suspend",
        "most_requeues: 2, was 5",
        IN_FORCE.strip(),
    ]
    [event] = published
    assert taken(event).topic == "commands"
    rows = [*csv.DictReader(call(processor, "show", "--output", "csv").splitlines())]
    assert {
        "setting": "policy",
        "is": "min-energy",
        "started with": "priority-inc-v",
        "declared by": "operator/ada",
        "declared at": rows[0]["declared at"],
        "reason": "a dear night",
    } in rows
    assert {row["setting"]: row["is"] for row in rows if row["declared by"]} == {
        "policy": "min-energy",
        "cap_counts_idle": "false",
        "cap_measures": "",
        "most_requeues": "2",
    }


def test_the_table_fits_a_terminal_and_says_who_declared_what_and_why() -> None:
    processor = placement()
    round_of(processor, 0, policy(threshold=0.125, reason="more tiers"))
    shown = call(processor, "show").splitlines()
    assert all(len(line) <= 80 for line in shown)
    assert any(line.split() == ["|", "threshold", "|", "0.125", "|", "0.35", "|"] for line in shown)
    assert shown[-1].startswith("threshold: declared by test at 2026-01-01T00:00:00Z: more tiers")


def test_a_reset_names_what_was_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = placement()
    published = published_by(commands, monkeypatch, partial(round_of, processor, 1))
    assert call(processor, "reset") == "all settings are as placement was started with\n"
    round_of(processor, 0, policy(threshold=0.125, policy="base"))
    told = call(processor, "reset")
    assert told == f"policy: priority-inc-v, was base\nthreshold: 0.35, was 0.125\n{IN_FORCE}"
    [event] = published
    assert [*taken(event).event.payload.reset] == ["policy", "threshold"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("set", "fifo"), "fifo: write NAME=VALUE, where NAME is one of policy, t_weight"),
        (("set", "polcy=base"), "polcy=base: write NAME=VALUE"),
        (("set", "policy=fifo"), "policy: must be one of base, "),
        (("set", "policy=base", "policy=reorder"), "policy: is named twice"),
        (("set", "t_weight=much"), "t_weight: must be a number, got 'much'"),
        (("set", "t_weight=-1"), "t_weight: must be from 0 to 1,000,000, got -1.0"),
        (("set", "quantile=1"), "quantile: must be from 0.5 to 0.999999, got 1.0"),
        (("set", "cap_counts_idle=no"), "cap_counts_idle: must be true or false, got 'no'"),
        (("set", "most_requeues=-1"), "most_requeues: must be a count, got '-1'"),
        (("set", "most_requeues=1e9"), "most_requeues: must be a count, got '1e9'"),
        (("set", "cap_measures=sleep"), "cap_measures: must be some of lower-frequency, suspend"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_one_line_by_the_name_of_its_setting(
    words: tuple[str, ...], problem: str
) -> None:
    assert refusal("policy", *words).startswith(f"error: {problem}")


def test_a_setting_that_placement_does_not_know_is_not_declared(
    published: list[Envelope], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_tomorrow = replace(DECLARABLE["quantile"], name="of_tomorrow")
    known = {**DECLARABLE, "of_tomorrow": of_tomorrow}
    for module in (commands, policy_declarations):
        monkeypatch.setattr(module, "DECLARABLE", known)
    with Served(placement()) as address:
        told = refusal("policy", "set", "of_tomorrow=0.5", "--placement", address)
    assert told.startswith("error: of_tomorrow: placement does not know this setting: upgrade it")
    assert published == []


def test_a_form_and_a_reference_of_all_settings_are_printed() -> None:
    form = json.loads(said("policy", "schema"))
    assert form["properties"]["action_timeout_s"]["x-unit"] == "s"
    assert said("policy", "reference") == reference()


def test_an_unknown_setting_is_not_reset(published: list[Envelope]) -> None:
    with Served(placement()) as address:
        told = refusal("policy", "reset", "remember_days", "--placement", address)
    assert told.startswith("error: reset[0]: must be one of policy, t_weight")
    assert published == []


def test_promises_are_counted_and_pairs_named_until_an_operator_allows_them(
    published: list[Envelope],
) -> None:
    processor = sharing()
    told(processor, 1, seen("one", "two", 1.4), seen("two", "one", 1.1))
    *_, counts, pair = call(processor, "show").splitlines()
    assert counts == "promised slowdowns: 1 kept, 1 broken, as measured"
    assert pair.startswith(
        f"isolated on {MODEL}: {APP} and {APP} since 2026-01-01T00:00:30Z: one: 1.4"
    )
    said("policy", "allow", "--app", APP, "--beside", APP, "--node-model", MODEL)
    [event] = published
    round_of(processor, 2, taken(event).event)
    assert call(processor, "show").splitlines()[-1] == counts


def test_clusters_that_predictions_do_not_reach_are_named_with_the_reason() -> None:
    processor = placement(runtimes=Runtimes.PREDICTED)
    round_of(processor, 0, submitted("a", cores_per_unit=1, shareable=True))
    *_, first, second = call(processor, "show").splitlines()
    assert (
        first == "p1 is under easy: a job has or wants parts of its nodes, or may run on some alone"
    )
    assert second.startswith("p2 is under easy: ")


def test_where_nothing_was_measured_nothing_is_reported_of_promises() -> None:
    assert "promised" not in call(placement(), "show")
