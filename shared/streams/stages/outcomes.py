"""What came of commands, as the stage that owns them says (`owner` in the schemas).

A refusal is published at once. What was applied is published when its round has ended, since it
holds from then on; until then it is a row of the unit's state. So each outcome is in one
transaction with what it is about. Of commands that set the same in one round the last one is in
force, whichever order they came in.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_IN_FORCE,
    COMMAND_RESULT_REFUSED,
    CommandOutcome,
    CommandResult,
)

from shared.catalogue.event import Event, Publish
from shared.catalogue.options import owners, set_by
from shared.streams.stages.stage import Round, Stage
from shared.streams.state.state import State

TOPIC: Final = "command.outcomes"
_TABLE: Final = "applied-command"
# By what is set, the command that set it last in the open round.
_SETS: Final = "applied-command-sets"
# Of the keys of both.
PREFIX: Final = _TABLE
_MOST_REASON: Final = 1_024
# As ingest takes them: nobody can ask for another one.
_MOST_ID: Final = 1_024
_WORDS: Final[Mapping[CommandResult.ValueType, str]] = {
    COMMAND_RESULT_IN_FORCE: "in-force",
    COMMAND_RESULT_REFUSED: "refused",
    COMMAND_RESULT_EARLY: "early",
}


class Command(NamedTuple):
    """An event by its attributes: of what cannot be decoded, these may be known all the same."""

    id: str
    type: str
    source: str

    @classmethod
    def from_event(cls, event: Event) -> Self:
        """Return the command that an event is."""
        return cls(event.id, event.type, event.source)

    @classmethod
    def from_headers(cls, headers: Mapping[str, bytes]) -> Self:
        """Return the command of a record; what its headers do not say is empty."""
        read = (headers.get(name, b"") for name in ("ce_id", "ce_type", "ce_source"))
        return cls(*(each.decode(errors="replace") for each in read))


class Outcomes:
    """The outcomes of one unit's commands."""

    def __init__(self, stage: Stage, restored: Mapping[str, bytes]) -> None:
        self._stage = stage
        self._owned = frozenset(name for name, owner in owners().items() if owner == stage.name)
        passed = frozenset(name for name, owner in owners().items() if owner == stage.passes_to)
        self._refused = self._owned | passed
        own = {key: value for key, value in restored.items() if key.startswith(PREFIX)}
        self._state = State(own)
        self._applied = self._state.table(_TABLE, CommandOutcome)
        self._set_by = self._state.table(_SETS, str)

    def apply(self, event: Event, *, is_copy: bool = False) -> bool:
        """Note that an event was applied, or was before; return whether it is an own command,
        which is in force when the round has ended."""
        if event.type not in self._owned:
            return False
        command = Command.from_event(event)
        if not _can_be_asked_for(command):
            return False
        if command.id not in self._applied:
            self._applied.put(command.id, _outcome(command, COMMAND_RESULT_IN_FORCE))
        if not is_copy:
            self._replace(command.id, set_by(event.payload))
        return True

    def _replace(self, command_id: str, sets: Sequence[str]) -> None:
        """Note what a command sets: those of the round that set nothing else are replaced."""
        before = {self._set_by[each] for each in sets if each in self._set_by} - {command_id}
        for each in sets:
            self._set_by.put(each, command_id)
        for replaced in sorted(before.difference(self._set_by.values()) if before else ()):
            outcome = self._applied[replaced]
            outcome.result = COMMAND_RESULT_REFUSED
            outcome.reason = f"replaced by {command_id[:256]} in the same round"
            self._applied.changed(replaced)

    def refuse(self, command: Command, reason: str, number: int, us: int) -> Iterator[Publish]:
        """Yield that a command was refused in this round, after the last one ended then."""
        if command.type in self._refused and _can_be_asked_for(command):
            outcome = _outcome(command, COMMAND_RESULT_REFUSED, reason)
            yield self._told(outcome, number, us)

    def defer(self, event: Event, reason: str, number: int, us: int) -> Iterator[Publish]:
        """Yield that an own command is early in this round, after the last one ended then."""
        command = Command.from_event(event)
        if command.type in self._owned and _can_be_asked_for(command):
            yield self._told(_outcome(command, COMMAND_RESULT_EARLY, reason), number, us)

    def end_round(self, ended: Round) -> Iterator[Publish]:
        """Yield what is in force from this round on."""
        for outcome in self._applied.values():
            yield self._told(outcome, ended.number, ended.ended_at_us)
        self._applied.clear()
        self._set_by.clear()

    def changes(self) -> Mapping[str, bytes | None]:
        """Return rows that changed since the last call; None for those that were published."""
        return self._state.changes()

    def _told(self, outcome: CommandOutcome, number: int, us: int) -> Publish:
        outcome.round, outcome.told_at_us = number, us
        name, kind = self._stage.name, outcome.DESCRIPTOR.full_name
        event_id = f"{name}/{kind}/{outcome.command_id}/{_WORDS[outcome.result]}"
        return Publish(TOPIC, Event(event_id, name, us, outcome.command_id, outcome))


def are_told_by(stage: Stage) -> bool:
    """Return whether a stage owns commands, or refuses those of the next one."""
    return not {stage.name, stage.passes_to}.isdisjoint(owners().values())


def _outcome(command: Command, result: CommandResult.ValueType, reason: str = "") -> CommandOutcome:
    return CommandOutcome(
        command_id=command.id,
        command_type=command.type,
        command_source=command.source,
        result=result,
        owner=owners()[command.type],
        reason=reason[:_MOST_REASON],
    )


def _can_be_asked_for(command: Command) -> bool:
    return 0 < len(command.id) <= _MOST_ID
