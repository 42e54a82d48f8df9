"""Not every dead letter may go back to where its record was."""

import json
from collections.abc import Iterable
from contextlib import nullcontext

import pytest
from coplace.v1.control_pb2 import DeadLetter

from cli.dlq import dead_letters
from cli.dlq.dead_letters import CannotReplayError, DeadLetters
from shared.catalogue.record import NewRecord
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.unit.cli.command_line import refusal, said

LETTERS = DeadLetters(Deployment.from_settings(Settings()))


@pytest.mark.parametrize(
    ("topic", "value", "told"),
    [
        # A record of which only the head is kept; and nothing goes behind the sequencer's back.
        ("jobs.events", b"head", "had 5 bytes, 4 are kept"),
        ("placement.inputs", b"whole", r"only the sequencer writes placement\.inputs"),
    ],
)
def test_what_cannot_be_replayed_says_why(topic: str, value: bytes, told: str) -> None:
    with pytest.raises(CannotReplayError, match=told):
        LETTERS.replay(DeadLetter(topic=topic, value=value, value_size_bytes=5))


def test_letters_are_listed_with_their_kind_on_one_line_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = [
        DeadLetter(topic="jobs.events", offset=1, stage="pricing", reason="nodes: must\nbe 1"),
        DeadLetter(topic="jobs.events", offset=2, stage="placement", kind="quarantined"),
    ]
    letters[1].reason, letters[1].stack_digest = "ValueError: free to start", "0123456789abcdef"
    monkeypatch.setattr(DeadLetters, "of", lambda _self, _topic: iter(letters))
    refused = "jobs.events/0/1\tpricing\trefused\tnodes: must be 1"
    held = "jobs.events/0/2\tplacement\tquarantined 0123456789ab\tValueError: free to start"
    for options, lines in (
        ([], [refused, held]),
        (["--kind", "refused"], [refused]),
        (["--kind", "quarantined"], [held]),
    ):
        assert said("dlq", "list", "jobs.events", *options).splitlines() == lines


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
    shown = json.loads(said("dlq", "show", "jobs.events/0/2"))
    assert shown["stack"] == "processor.handle\nexplanation.of"
    said("dlq", "replay", "jobs.events/0/2")
    assert [(each.partition.topic, each.value) for each in appended] == [("jobs.events", b"whole")]


def test_what_is_no_letter_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetters, "of", lambda _self, _topic: iter([]))
    told = refusal("dlq", "replay", "jobs.events/0/2")
    assert told.startswith("error: there is no dead letter of jobs.events/0/2: ")
