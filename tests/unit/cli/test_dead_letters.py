"""Not every dead letter may go back to where its record was."""

import json
from collections.abc import Iterable
from contextlib import nullcontext

import pytest
from coplace.v1.control_pb2 import DeadLetter
from typer.testing import CliRunner

from cli.dlq import dead_letters
from cli.dlq.dead_letters import CannotReplayError, DeadLetters
from cli.main import app
from shared.catalogue.record import NewRecord
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment

LETTERS = DeadLetters(Deployment.of(Settings()))


def test_a_record_of_which_only_the_head_is_kept_cannot_be_replayed() -> None:
    letter = DeadLetter(topic="jobs.events", value=b"head", value_size_bytes=5)
    with pytest.raises(CannotReplayError, match="had 5 bytes, 4 are kept"):
        LETTERS.replay(letter)


def test_nothing_is_appended_behind_the_back_of_the_sequencer() -> None:
    letter = DeadLetter(topic="placement.inputs", value=b"whole", value_size_bytes=5)
    with pytest.raises(CannotReplayError, match=r"only the sequencer writes placement\.inputs"):
        LETTERS.replay(letter)


def test_letters_are_listed_with_their_kind_on_one_line_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = [
        DeadLetter(topic="jobs.events", offset=1, stage="pricing", reason="nodes: must\nbe 1"),
        DeadLetter(
            topic="jobs.events",
            offset=2,
            stage="placement",
            reason="ValueError: free to start",
            kind="quarantined",
            stack_digest="0123456789abcdef",
        ),
    ]
    monkeypatch.setattr(DeadLetters, "of", lambda _self, _topic: iter(letters))
    refused = "jobs.events/0/1\tpricing\trefused\tnodes: must be 1"
    held = "jobs.events/0/2\tplacement\tquarantined 0123456789ab\tValueError: free to start"
    for options, lines in (
        ([], [refused, held]),
        (["--kind", "refused"], [refused]),
        (["--kind", "quarantined"], [held]),
    ):
        done = CliRunner().invoke(app, ["dlq", "list", "jobs.events", *options])
        assert done.stdout.splitlines() == lines


def test_a_quarantined_record_is_shown_with_its_stack_and_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letter = DeadLetter(
        topic="jobs.events", offset=2, value=b"whole", value_size_bytes=5, kind="quarantined",
        stack="processor.handle\nexplanation.of",
    )  # fmt: skip
    appended: list[NewRecord] = []

    class Recorded(nullcontext[None]):
        def __enter__(self) -> "Recorded":  # type: ignore[override]
            return self

        def append(self, records: Iterable[NewRecord]) -> None:
            appended.extend(records)

    monkeypatch.setattr(DeadLetters, "of", lambda _self, _topic: iter([letter]))
    monkeypatch.setattr(dead_letters, "Publisher", lambda _deployment: Recorded())
    shown = CliRunner().invoke(app, ["dlq", "show", "jobs.events/0/2"])
    assert json.loads(shown.stdout)["stack"] == "processor.handle\nexplanation.of"
    assert CliRunner().invoke(app, ["dlq", "replay", "jobs.events/0/2"]).exit_code == 0
    assert [(each.partition.topic, each.value) for each in appended] == [("jobs.events", b"whole")]


def test_what_is_no_letter_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetters, "of", lambda _self, _topic: iter([]))
    done = CliRunner().invoke(app, ["dlq", "replay", "jobs.events/0/2"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: there is no dead letter of jobs.events/0/2: ")
