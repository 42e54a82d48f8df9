"""The record of a region: the events of `placement.inputs`, round by round."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import gcd
from pathlib import Path
from typing import Any, Final

import orjson
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

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
# So many of the lines that cannot be used are named; all are counted.
_MOST_NAMED: Final = 5


@dataclass
class LeftOut:
    """The lines of a file that cannot be used, the first ones with what is wrong."""

    count: int = 0
    named: list[str] = field(default_factory=list)

    def add(self, number: int, problem: str) -> None:
        """Leave out a line."""
        self.count += 1
        if len(self.named) < _MOST_NAMED:
            self.named.append(f"line {number} {problem}")

    def doubts(self, name: str) -> Iterator[str]:
        """Yield what is wrong with a file, where, and what to do."""
        if self.count:
            others = self.count - len(self.named)
            more = f"; and {others:,} more" if others else ""
            yield (
                f"{name}: {self.count:,} lines are left out, so that what follows may be decided "
                f"otherwise: {'; '.join(self.named)}{more}. Write the file again with `coplace "
                "tail`, or fetch it again where it was copied"
            )


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
    """A record. `passed_over` counts the events of kinds that this version does not know,
    `left_out` are lines that are no events of the topic, and `undecided` counts the events behind
    the last round.

    Raises UnusableError for one without a round, and for one whose rounds do not ascend or have
    several writers: that is no record of one region.
    """

    rounds: tuple[RecordedRound, ...]
    passed_over: Counter[str] = field(default_factory=Counter)
    left_out: LeftOut = field(default_factory=LeftOut)
    undecided: int = 0

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
        cls,
        events: Iterable[Event],
        passed_over: Counter[str] | None = None,
        left_out: LeftOut | None = None,
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
        return cls(tuple(found), passed_over or Counter(), left_out or LeftOut(), len(pending))

    def doubts(self, name: str) -> Iterator[str]:
        """Yield what of a record is missing or not known, where, and what to do."""
        yield from self.left_out.doubts(name)
        for kind, count in self.passed_over.items():
            yield (
                f"{count} events passed over: this version does not know {kind}. Replay them with "
                "the release that wrote them"
            )
        for one, other in pairwise(each.round.number for each in self.rounds):
            if other > one + 1:
                yield (
                    f"{name} has no end of round {one + 1} (the next one is {other}): what came "
                    f"there is decided in round {other}"
                )
        if self.undecided:
            last = self.rounds[-1].round.number
            yield (
                f"{name}: {self.undecided:,} events follow round {last}, the last one that ended, "
                "and are left out: if the file was cut, fetch the rest"
            )

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

    Events of kinds that this version does not know are passed over and counted, and lines that are
    no events of the topic are left out. Raises OSError, and UnusableError, which names the first
    such line, where no whole round is left.
    """
    passed_over: Counter[str] = Counter()
    left_out, kinds = LeftOut(), load_topics()[TOPIC].messages

    def events() -> Iterator[Event]:
        for number, fields in _objects(path, left_out):
            try:
                event = event_of(fields)
            except UnknownKindError as error:
                passed_over[error.kind] += 1
            except RejectedError as error:
                left_out.add(number, f"is not an event: {error}")
            else:
                if event.type in kinds:
                    yield event
                else:
                    left_out.add(number, f"is a {event.type}, which {TOPIC} never holds")

    try:
        return RecordedInputs.from_events(events(), passed_over, left_out)
    except UnusableError as error:
        problem = "; ".join([*left_out.named[:1], str(error)])
        raise UnusableError(f"{path} is not a record of {TOPIC}: {problem}") from error


@dataclass
class RecordedDecisions:
    """What was decided on a record, the rounds that were `set_aside`, and the lines that are
    neither."""

    made: list[PlacementDecided] = field(default_factory=list)
    set_aside: set[int] = field(default_factory=set)
    left_out: LeftOut = field(default_factory=LeftOut)

    def add(self, message: Message) -> None:
        """Take in a message of the topic of decisions; of other kinds than these nothing is
        known."""
        match message:
            case PlacementDecided():
                self.made.append(message)
            case RoundEnded() if message.set_aside:
                self.set_aside.add(message.round)


def read_decisions(path: Path) -> RecordedDecisions:
    """Read decisions, as `coplace tail placement.decisions` prints them or as the demo's
    `decisions.jsonl` has them; other lines are left out. Raises OSError, and UnusableError,
    which names the first such line, where none is left."""
    found = RecordedDecisions()
    kinds: dict[str, type[PlacementDecided] | type[RoundEnded]] = {
        "": PlacementDecided,
        PlacementDecided.DESCRIPTOR.full_name: PlacementDecided,
        RoundEnded.DESCRIPTOR.full_name: RoundEnded,
    }
    for number, fields in _objects(path, found.left_out):
        kind = fields.get("type", "")
        if not isinstance(kind, str) or kind not in kinds:
            continue
        try:
            data = fields.get("data", fields)
            found.add(ParseDict(data, kinds[kind](), ignore_unknown_fields=True))
        except (ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
            found.left_out.add(number, f"is not a decision: {' '.join(str(error).split())[:200]}")
    if found.left_out.count and not found.made:
        raise UnusableError(f"{path} holds no decisions: {found.left_out.named[0]}")
    return found


def _objects(path: Path, left_out: LeftOut) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object of each line, and the number of the line; behind what cannot be read
    any further, as of a damaged archive, nothing."""
    number, most, longest = 0, _MOST_CHARACTERS, _LONGEST_LINE
    try:
        for line in lines(path, most=most, longest=longest, errors="surrogateescape"):
            number += 1
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                left_out.add(number, f"is torn or not JSON: {error}")
                continue
            if not isinstance(fields, dict):
                left_out.add(number, "is not a JSON object")
            elif "rejected" not in fields:  # as `coplace tail` says of what no stage could read
                yield number, fields
    except UnusableError as error:
        left_out.add(number + 1, f"and what follows cannot be read: {error}")
