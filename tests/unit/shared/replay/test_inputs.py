"""Files that hold the record of a region, and those that do not."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from coplace.v1.control_pb2 import RoundEnded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    found = RecordedInputs.from_events([*events_of(inputs), late])
    assert (found.rounds, found.undecided) == (inputs.rounds, 1)


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


def test_a_torn_last_line_is_left_out_and_named(file: Path, inputs: RecordedInputs) -> None:
    text = file.read_text()
    file.write_text(text[:-30])
    found = read_inputs(file)
    assert found.rounds == inputs.rounds[:-1]
    doubt, undecided = found.doubts("F")
    assert re.match("F: .* events follow round .*, the last one that ended", undecided)
    assert "F: 1 lines are left out, so that what follows may be decided otherwise: line " in doubt
    assert f"line {text.count(chr(10))} is torn or not JSON" in doubt
    assert "`coplace tail`" in doubt


# What a line of a record can become, and what is said of it; None where it is kept.
BROKEN: Mapping[str, tuple[Callable[[bytes], bytes], str | None]] = {
    "cut": (lambda line: line[: len(line) // 2], "is torn or not JSON"),
    "empty": (lambda _line: b"", "is torn or not JSON"),
    "no text": (lambda line: line.replace(b'"id"', b'"i\xff"'), "is torn or not JSON"),
    "of another program": (lambda _line: b"job_id,user,nodes", "is torn or not JSON"),
    "no object": (lambda _line: b"[1, 2]", "is not a JSON object"),
    "no event": (lambda _line: b'{"a": 1}', "is not an event: id: must be a text"),
    "no payload": (
        lambda line: json.dumps({**json.loads(line), "data": 7}).encode(),
        "is not an event: data: must be an object",
    ),
    "of another topic": (
        lambda line: json.dumps(
            {**json.loads(line), "type": "coplace.v1.PlacementDecided", "data": {}}
        ).encode(),
        "is a coplace.v1.PlacementDecided, which placement.inputs never holds",
    ),
    "of tomorrow": (
        lambda line: json.dumps({**json.loads(line), "type": "coplace.v1.OfTomorrow"}).encode(),
        None,
    ),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(
    broken=st.dictionaries(st.integers(0, 10_000), st.sampled_from(sorted(BROKEN)), max_size=6),
    end=st.integers(1, 10_000) | st.none(),
    compressed=st.booleans(),
)
def test_of_any_broken_record_the_whole_is_read_and_all_else_is_named(
    broken: dict[int, str], end: int | None, compressed: bool, file: Path, inputs: RecordedInputs
) -> None:
    write_events(file, events_of(inputs))
    lines = file.read_bytes().splitlines()
    broken = {at % len(lines): how for at, how in broken.items()}
    wanted = [(at, e) for at, e in enumerate(events_of(inputs)) if at not in broken]
    text = [BROKEN[broken[at]][0](line) if at in broken else line for at, line in enumerate(lines)]
    bad = {at: BROKEN[how][1] for at, how in broken.items()}
    if end is not None and (end := end % len(lines)) not in broken:
        text, wanted = [*text[:end], text[end][:-1]], [one for one in wanted if one[0] < end]
        bad = {at: problem for at, problem in bad.items() if at < end} | {end: "is torn"}
    body = b"\n".join(text) + (b"\n" if end is None or end in broken else b"")
    file.write_bytes(gzip.compress(body) if compressed else body)
    whole: list[list[Event]] = [[]]
    for _, event in wanted:
        whole[-1].append(event)
        if isinstance(event.payload, RoundEnded):
            whole.append([])
    if len(whole) == 1:
        with pytest.raises(UnusableError, match="is not a record"):
            read_inputs(file)
        return
    found = read_inputs(file)
    assert [[*each.events, each.barrier] for each in found.rounds] == whole[:-1]
    assert found.undecided == len(whole[-1])
    named = {at: problem for at, problem in bad.items() if problem is not None}
    assert found.left_out.count == len(named)
    for said, at in zip(found.left_out.named, sorted(named), strict=False):
        assert said.startswith(f"line {at + 1} {named[at]}")
    assert found.passed_over.total() == len(bad) - len(named)
    assert bool([*found.doubts("F")]) >= bool(bad)


def test_what_can_be_read_of_a_damaged_archive_is_used(file: Path, inputs: RecordedInputs) -> None:
    whole = gzip.compress(file.read_bytes())
    file.write_bytes(whole[:-20])
    found = read_inputs(file)
    assert found.rounds == inputs.rounds[: len(found.rounds)]
    assert "and what follows cannot be read: " in found.left_out.named[0]
    assert "is damaged" in found.left_out.named[0]


def test_a_round_whose_end_is_missing_is_named(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    [first, *_] = [at for at, line in enumerate(lines) if "RoundEnded" in line][1:]
    file.write_text("".join([*lines[:first], *lines[first + 1 :]]))
    [doubt] = read_inputs(file).doubts("F")
    assert "F has no end of round 1 (the next one is 2): what came there is" in doubt


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
    (decided,) = read_decisions(one).made
    assert (decided.job_id, decided.round) == ("j", 3)
    assert read_decisions(other).made == [decided]
    aside = {"type": "coplace.v1.RoundEnded", "data": {"round": "4", "set_aside": True}}
    broken = ['{"type":', json.dumps({"type": 7}), json.dumps(aside), json.dumps(data)]
    other.write_text(other.read_text() + "\n".join(broken))
    found = read_decisions(other)
    assert (found.made, found.set_aside) == ([decided, decided], {4})
    [doubt] = found.left_out.doubts("the decisions")
    assert "the decisions: 1 lines are left out" in doubt
    assert "line 3 is torn or not JSON" in doubt


@pytest.mark.parametrize("line", ['{"nodes": {}, "verdict": 9e9}', '{"verdict": []}', "x", "[1]"])
def test_what_is_no_decision_is_reported_with_its_line(line: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UnusableError, match="holds no decisions: line 1"):
        read_decisions(path)
