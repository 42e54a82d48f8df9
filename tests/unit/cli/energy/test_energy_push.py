"""`coplace energy push`: what files would change, and the events that publish it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.control_pb2 import CommandOutcome
from coplace.v1.energy_pb2 import CoefficientsDeclared, CoefficientsPublished
from coplace.v1.ingest_service_pb2 import Envelope
from typer.testing import CliRunner

from cli import kafka_topics
from cli.energy import cli as commands
from cli.energy.push import EnergyModels, Files, changes
from cli.main import app
from coplace_client.errors import RejectedError
from services.energy.processor.appdb import AppDB
from services.energy.processor.learner import Learner
from shared.catalogue.event import Event
from tests.unit.cli.command_line import coplace, refusal, taken
from tests.unit.services.energy.files import APP, pairs, write
from tests.unit.services.energy.support import declared, in_round, measured

MODEL = "epyc-9654"
PSTATES_GHZ = (1.0, 2.0)
NOW_US = 2 * 10**15


class System:
    """The learner and the application database, and the topics that they write."""

    def __init__(self) -> None:
        self.learner, self.appdb, self.round = Learner({}), AppDB({}), 0
        self.topics: dict[str, list[Event]] = {
            name: [] for name in ("commands", "energy.coefficients", "energy.signatures")
        }
        self.take([declared(PSTATES_GHZ, MODEL)])

    def take(self, events: Iterable[Event]) -> None:
        """A round of events."""
        given, self.round = list(events), self.round + 1
        self.topics["commands"] += given
        self.topics["energy.coefficients"] += in_round(self.learner, self.round, *given)
        self.topics["energy.signatures"] += in_round(self.appdb, self.round, *given)

    def topic(self, name: str) -> list[Event]:
        return self.topics[name]

    @property
    def known(self) -> EnergyModels:
        return EnergyModels.read(self.topic)

    def push(self, *paths: Path, node_model: str = "") -> list[Any]:
        """What was said to change; what ingest takes of it happens."""
        files = Files.read(paths, node_model, self.known)
        said = changes(self.known, files)
        expected = files.taken_into(self.known)
        events = files.envelopes("operator/ada", "measured", NOW_US + self.round)
        self.take([taken(event).event for event in events])
        assert self.known.signatures == expected.signatures
        for row in said:
            key = str(row["application"]), str(row["node model"])
            assert self.known.estimate(*key) == expected.estimate(*key)
        return said


def table(folder: Path, **changed: object) -> Path:
    """Half the power at half the clock, and nearly the time of before."""
    low = {"A": 0.5, "D": 0.6, "tpi_scale": "mine", **changed}
    rows = [{**row, "tpi_scale": "mine"} for row in pairs(low, PSTATES_GHZ)]
    return write(folder / f"{MODEL}_coefficients.csv", rows)


def signatures(folder: Path, **changed: object) -> Path:
    row = {**APP, "module": MODEL, "tpi_scale": "mine", **changed}
    return write(folder / "apps.csv", [row])


def test_what_is_pushed_becomes_what_was_said_before(tmp_path: Path) -> None:
    system = System()
    [first] = system.push(table(tmp_path), signatures(tmp_path))
    assert first == {
        "application": "a",
        "node model": MODEL,
        "GHz": "no signature, then 1",
        "time": "12 s",
        "power": "150 W",
    }
    [again] = system.push(signatures(tmp_path, dc_node_power_w=330.0))
    assert (again["GHz"], again["time"], again["power"]) == ("1, then 1", "+0.0 %", "+5.0 %")
    [slower] = system.push(table(tmp_path, D=2.0))
    assert slower["GHz"] == "1, then 2"


def test_coefficients_say_what_they_change_for_every_known_application(tmp_path: Path) -> None:
    system = System()
    known = [
        measured(f"m{n}", app_id=f"app-{n}", node_model=MODEL, freq_ghz=2.0, tpi_scale=scale)
        for n, scale in enumerate(("mine", "mine", "theirs"))
    ]
    system.take(known)
    said = {row["application"]: row["GHz"] for row in system.push(table(tmp_path))}
    assert said == {
        "app-0": "no coefficients, then 1",
        "app-1": "no coefficients, then 1",
        "app-2": "TPI in theirs, not in mine",
    }


def test_a_reader_is_warned_what_to_doubt(tmp_path: Path) -> None:
    system = System()
    files = Files.read([table(tmp_path)], "", system.known)
    assert list(files.doubts(system.known)) == []
    system.push(table(tmp_path))
    system.take([declared((1.0, 1.5, 2.0), MODEL)])
    strange = signatures(tmp_path, module="new", freq_ghz=2.0)
    files = Files.read([table(tmp_path), strange], "", system.known)
    assert list(files.doubts(system.known)) == [
        f"no cluster of node model new is declared: there are {MODEL}",
        f"{MODEL}: clusters have 1.5 GHz, the coefficients do not",
        f"{MODEL}: they replace coefficients-{MODEL}@3, nothing adapts them",
    ]


def test_a_signature_without_p_state_is_of_the_highest_one(tmp_path: Path) -> None:
    system = System()
    files = Files.read([signatures(tmp_path)], "", system.known)
    assert [each.freq_ghz for each in files.signatures] == [2.0]
    with pytest.raises(
        RejectedError, match=r"freq_ghz: .* names no P-state, and no cluster of new"
    ):
        Files.read([signatures(tmp_path, module="new")], "", system.known)
    files = Files.read([signatures(tmp_path, module="new")], MODEL, system.known)
    assert [each.node_model for each in files.signatures] == [MODEL]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    """One that the command speaks to."""
    found = System()
    monkeypatch.setattr(kafka_topics.KafkaTopics, "topic", lambda _self, name: found.topic(name))

    def publish(_address: str, event: Envelope) -> None:
        found.take([taken(event).event])

    def order_all(address: str, events: Iterable[Envelope], _wait_s: float) -> list[CommandOutcome]:
        for event in events:
            publish(address, event)
        return []

    monkeypatch.setattr(commands, "publish", publish)
    monkeypatch.setattr(commands, "order_all", order_all)
    return found


def test_nothing_is_published_before_somebody_says_so(system: System, tmp_path: Path) -> None:
    words = ["energy", "push", str(table(tmp_path)), "--source", "operator/ada"]
    rounds = system.round
    dry = coplace(*words, "--dry-run")
    assert (dry.exit_code, system.round) == (0, rounds)
    assert "not published: 1 node models, 0 signatures" in dry.stderr
    refused = CliRunner().invoke(app, words, input="n\n")
    assert (refused.exit_code, system.round) == (1, rounds)
    agreed = CliRunner().invoke(app, words, input="y\n")
    assert (agreed.exit_code, system.round) == (0, rounds + 1)
    assert coplace(*words, "--yes").exit_code == 0
    published = [e.payload for e in system.topic("energy.coefficients")]
    assert {type(one) for one in published} == {CoefficientsPublished}
    said = [e for e in system.topic("commands") if isinstance(e.payload, CoefficientsDeclared)]
    assert [event.source for event in said] == ["operator/ada"] * 2


@pytest.mark.parametrize("text", ["x,y\n1,2\n", "", "from_ghz,to_ghz\n1,2\n"])
def test_a_file_that_is_neither_ends_in_one_line(system: System, tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.csv"
    path.write_text(text)
    assert refusal("energy", "push", path, "--yes")
    assert system.round == 1
