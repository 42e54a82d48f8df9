"""Files that hold the record of a region, and those that do not."""

import gzip
import json
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from shared.catalogue.event import Event
from shared.catalogue.event_json import plain, write_events
from shared.replay.inputs import RecordedInputs, read_decisions, read_inputs
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import end_us
from tests.unit.shared.replay.records import barrier, recorded


def events_of(inputs: RecordedInputs) -> list[Event]:
    return [event for each in inputs.rounds for event in (*each.events, each.barrier)]


@pytest.fixture
def inputs() -> RecordedInputs:
    return recorded([region.submitted("j"), region.submitted("k")], {"j": 50.0, "k": 99.0})[0]


@pytest.fixture
def file(inputs: RecordedInputs, tmp_path: Path) -> Path:
    path = tmp_path / "placement.inputs.jsonl"
    write_events(path, events_of(inputs))
    return path


def test_a_record_returns_also_compressed(file: Path, inputs: RecordedInputs) -> None:
    assert read_inputs(file) == inputs
    file.write_bytes(gzip.compress(file.read_bytes()))
    assert read_inputs(file) == inputs
    late = region.submitted("late", end_us(500))
    assert RecordedInputs.from_events([*events_of(inputs), late]) == inputs, "it was not decided on"


def test_events_of_kinds_of_a_newer_version_are_passed_over_and_counted(
    file: Path, inputs: RecordedInputs
) -> None:
    line = json.dumps(plain(region.submitted("new")) | {"type": "coplace.v1.OfTomorrow"}) + "\n"
    unreadable = '{"rejected":"placement.inputs/0/1","problem":"no"}\n'  # as tail says it
    file.write_text(unreadable + line + file.read_text() + line)
    found = read_inputs(file)
    assert found.rounds == inputs.rounds
    assert found.passed_over == {"coplace.v1.OfTomorrow": 2}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no round that ended"),
        ("\n", "line 1 is torn or not JSON"),
        ("[]\n", "line 1 is not a JSON object"),
        ("7\n", "line 1 is not a JSON object"),
        ("job_id,user\n1,2\n", "line 1 is torn or not JSON"),
        ("{}\n", "line 1 is not an event: id: must be a text"),
        ('{"verdict": "VERDICT_START"}\n', "line 1 is not an event: id: must be a text"),
        ("[" * 100_000, "line 1 is torn or not JSON"),
        ('{"a":' * 100_000, "line 1 is torn or not JSON"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_record_is_reported_with_its_line(
    text: str, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "no.jsonl"
    path.write_text(text)
    with pytest.raises(UnusableError) as caught:
        read_inputs(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_torn_last_line_is_refused(file: Path) -> None:
    text = file.read_text()
    file.write_text(text[:-30])
    with pytest.raises(UnusableError, match=f"line {text.count(chr(10))} is torn"):
        read_inputs(file)


def test_a_file_of_another_topic_is_refused(tmp_path: Path, file: Path) -> None:
    decided = {"type": "coplace.v1.PlacementDecided", "data": {"job_id": "j"}}
    line = plain(region.submitted("j")) | decided
    file.write_text(json.dumps(line) + "\n")
    with pytest.raises(UnusableError, match=r"PlacementDecided, which placement\.inputs never"):
        read_inputs(file)


def test_two_records_and_rounds_of_two_writers_are_refused(
    inputs: RecordedInputs,
) -> None:
    other = barrier(900, end_us(900), "placement.sequencer.1")
    with pytest.raises(UnusableError, match="the record of one region"):
        RecordedInputs.from_events([*events_of(inputs), other])
    with pytest.raises(UnusableError, match="comes after round"):
        RecordedInputs.from_events([*events_of(inputs), *events_of(inputs)])


def test_decisions_are_read_as_tail_prints_them_and_as_the_demo_keeps_them(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    data = {"job_id": "j", "attempt": 1, "round": "3", "verdict": "VERDICT_START"}
    line = {"type": "coplace.v1.PlacementDecided", "data": data}
    mark = {"type": "coplace.v1.RoundEnded", "data": {"round": "3"}}
    one.write_text(json.dumps(data) + "\n")
    other.write_text(json.dumps(line) + "\n" + json.dumps(mark) + "\n")
    (decided,) = read_decisions(one)
    assert (decided.job_id, decided.round) == ("j", 3)
    assert read_decisions(other) == [decided]


@pytest.mark.parametrize("line", ['{"nodes": {}, "verdict": 9e9}', '{"verdict": []}', "x", "[1]"])
def test_what_is_no_decision_is_reported_with_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UnusableError, match="holds no decisions: line 1"):
        read_decisions(path)
