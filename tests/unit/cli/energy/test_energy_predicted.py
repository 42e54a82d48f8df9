"""`coplace energy`: predictions against measurements, held to the figures of the demo's report."""

import csv
from collections.abc import Iterator

import pytest

from cli import kafka_topics
from cli.energy.predicted import ApplicationRuns, by_application, rows, table
from lab.demo import embedded
from lab.demo.embedded import EmbeddedSystem
from lab.demo.history import History
from lab.demo.options import DemoOptions
from lab.demo.summary import summarise
from shared.catalogue.event import Event
from tests.unit.cli.command_line import rows_of, said

OPTIONS = DemoOptions(seed=2, jobs=30)


@pytest.fixture(scope="module")
def system() -> EmbeddedSystem:
    return embedded.run(OPTIONS, lambda _finished: None)


def shown(system: EmbeddedSystem, *words: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_topics.KafkaTopics, "topic", lambda _self, name: system.topic(name))
        return said("energy", *words)


def test_errors_of_all_places_together_are_those_of_the_report(system: EmbeddedSystem) -> None:
    found = by_application(system.topic)
    errors = summarise(History.read(system.topic)).errors
    compared = [(row, int(str(row["compared"]))) for row in rows(found) if row["compared"]]
    count = sum(pairs for _, pairs in compared)
    for unit, percent in (
        ("s", errors.time_percent),
        ("W", errors.power_percent),
        ("J", errors.energy_percent),
    ):
        mean = sum(float(str(row[f"{unit} error"])) * n for row, n in compared) / count
        assert mean == pytest.approx(percent)


def test_every_run_and_its_energy_is_counted_once_whatever_is_published_twice(
    system: EmbeddedSystem,
) -> None:
    def twice(name: str) -> Iterator[Event]:
        for event in system.topic(name):
            yield event
            yield event

    found = by_application(system.topic)
    assert by_application(twice) == found
    assert sum(one.runs for one in found.values()) == OPTIONS.jobs
    drawn_j = sum(job.energy_j for job in History.read(system.topic).finished)
    assert sum(one.energy_j for one in found.values()) == pytest.approx(drawn_j)


def test_an_application_without_a_signature_is_shown_as_such_and_without_watts(
    system: EmbeddedSystem,
) -> None:
    def renamed(name: str) -> Iterator[Event]:
        yield from (event for event in system.topic(name) if name != "placement.decisions")

    found = rows(by_application(renamed))
    assert {row["W predicted"] for row in found} == {None}
    assert all(row["without signature"] == row["runs"] for row in found)
    cells = [[*column.cells] for column in table(by_application(renamed)).columns]
    assert {*cells[3]} == {"no signature"}
    assert {*cells[4], *cells[5]} == {""}


def test_tables_fit_80_columns_and_programs_get_all_figures(system: EmbeddedSystem) -> None:
    text = shown(system)
    assert max(map(len, (line.rstrip() for line in text.splitlines()))) <= 80, text
    as_json = rows_of(shown(system, "--output", "json"))
    as_csv = list(csv.DictReader(shown(system, "--output", "csv").splitlines()))
    places = {
        ApplicationRuns(row["application"], row["node model"], row["cluster"]) for row in as_json
    }
    assert places == by_application(system.topic).keys()
    assert [list(row) for row in as_csv] == [list(row) for row in as_json]
    assert all(row["runs"] >= row["compared"] for row in as_json)
