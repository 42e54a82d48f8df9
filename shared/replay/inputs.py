"""The record of a region: the events of `placement.inputs`, round by round."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Any, Final

import orjson
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.json_format import ParseDict, ParseError

from coplace_client.errors import RejectedError, UnusableError
from shared.catalogue.event import Event
from shared.catalogue.event_json import UnknownKindError, event_of
from shared.catalogue.topics import load_topics
from shared.process.user_files import lines
from shared.streams.stages.stage import Round

TOPIC: Final = "placement.inputs"
# A message has 1 MiB at most, of which JSON makes some times as much; 10 million jobs take 20 GiB.
_LONGEST_LINE: Final = 16 * 1024 * 1024
_MOST_CHARACTERS: Final = 64 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """What placement learned in one round, in its order, and the barrier that ended it."""

    events: tuple[Event, ...]
    barrier: Event

    @property
    def round(self) -> Round:
        """Return which one it is, and when it ended."""
        ended = self.barrier.payload
        assert isinstance(ended, RoundEnded)
        return Round(ended.round, ended.ended_at_us, ended.last)


@dataclass(frozen=True)
class RecordedInputs:
    """A whole record. `passed_over` counts the events of kinds that this version does not know.

    Raises UnusableError for one without a round, and for one whose rounds do not ascend or have
    several writers: that is no record of one region.
    """

    rounds: tuple[RecordedRound, ...]
    passed_over: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if not self.rounds:
            raise UnusableError("it holds no round that ended (coplace.v1.RoundEnded)")
        before, writer = None, self.rounds[0].barrier.source
        for recorded in self.rounds:
            ended = recorded.round
            if recorded.barrier.source != writer:
                raise UnusableError(
                    f"round {ended.number} was ended by {recorded.barrier.source[:80]!r}, those "
                    f"before it by {writer[:80]!r}: give the record of one region"
                )
            if before is not None and not (
                ended.number > before.number and ended.ended_at_us > before.ended_at_us
            ):
                raise UnusableError(
                    f"round {ended.number} comes after round {before.number}: the record is of "
                    "several regions, or was put together: give that of one region"
                )
            before = ended

    @classmethod
    def from_events(
        cls, events: Iterable[Event], passed_over: Counter[str] | None = None
    ) -> "RecordedInputs":
        """Read the rounds of events as the topic has them; what follows the last barrier was not
        decided on and is left out. Raises UnusableError for events that the topic does not hold."""
        kinds = load_topics()[TOPIC].messages
        found: list[RecordedRound] = []
        pending: list[Event] = []
        for event in events:
            if event.type not in kinds:
                raise UnusableError(
                    f"{event.id[:80]!r} is a {event.type}, which {TOPIC} never holds"
                )
            if isinstance(event.payload, RoundEnded):
                found.append(RecordedRound(tuple(pending), event))
                pending = []
            else:
                pending.append(event)
        return cls(tuple(found), passed_over or Counter())

    @property
    def events(self) -> Iterator[Event]:
        """Yield all but the barriers, in their order."""
        return (event for recorded in self.rounds for event in recorded.events)

    @cached_property
    def grid_us(self) -> int:
        """Return what all times from one round's end to another's are multiples of: the length of
        emulated rounds; where a clock closed them, a microsecond or so."""
        ends_us = [recorded.round.ended_at_us for recorded in self.rounds]
        return gcd(*(end_us - ends_us[0] for end_us in ends_us)) or 1


def read_inputs(path: Path) -> RecordedInputs:
    """Read a record as `coplace tail placement.inputs` prints it and `coplace demo` writes it.

    Events of kinds that this version does not know are passed over and counted. Raises OSError, and
    UnusableError, which names the line, for what is no such record.
    """
    passed_over: Counter[str] = Counter()

    def events() -> Iterator[Event]:
        for number, fields in _objects(path):
            try:
                yield event_of(fields)
            except UnknownKindError as error:
                passed_over[error.kind] += 1
            except RejectedError as error:
                raise UnusableError(f"line {number} is not an event: {error}") from error

    try:
        return RecordedInputs.from_events(events(), passed_over)
    except UnusableError as error:
        raise UnusableError(f"{path} is not a record of {TOPIC}: {error}") from error


def read_decisions(path: Path) -> list[PlacementDecided]:
    """Read decisions, as `coplace tail placement.decisions` prints them or as the demo's
    `decisions.jsonl` has them. Raises OSError, and UnusableError, which names the line."""
    found = []
    try:
        for number, fields in _objects(path):
            kind = PlacementDecided.DESCRIPTOR.full_name
            if fields.get("type", kind) != kind:
                continue
            try:
                data = fields.get("data", fields)
                found.append(ParseDict(data, PlacementDecided(), ignore_unknown_fields=True))
            except (ParseError, AttributeError, TypeError, ValueError) as error:
                problem = " ".join(str(error).split())[:200]
                raise UnusableError(f"line {number} is not a decision: {problem}") from error
    except UnusableError as error:
        raise UnusableError(f"{path} holds no decisions: {error}") from error
    return found


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object of each line, and the number of the line."""
    for number, line in enumerate(lines(path, most=_MOST_CHARACTERS, longest=_LONGEST_LINE), 1):
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            problem = f"line {number} is torn or not JSON: {error}"
            raise UnusableError(problem) from error
        if not isinstance(fields, dict):
            raise UnusableError(f"line {number} is not a JSON object")
        if "rejected" in fields:
            continue  # what `coplace tail` says of a record that no stage could read
        yield number, fields
