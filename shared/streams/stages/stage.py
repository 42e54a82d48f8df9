"""Stages: processors, where they read, and how their Kafka partitions group into units."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.domain.rounds import RoundSource

# Of stages for whose outputs no decision waits: learned models, readings, charges.
RELAXED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Round:
    """A closed round: everything up to `ended_at_us` is in."""

    number: int
    ended_at_us: int
    last: bool = False

    @property
    def now_s(self) -> float:
        """Return the only clock that a processor knows, s since the epoch."""
        return self.ended_at_us / 1e6


class AlreadyAppliedError(Exception):
    """Raised by a processor's `handle` for a copy of an event that it has applied: the copy is
    dropped and counted."""


class OvertakenError(AlreadyAppliedError):
    """Raised by a processor's `handle` for a command that counts no more, since a newer one is in
    force: it is dropped and counted as a copy is, and its outcome has this reason."""


class EarlyError(RejectedError):
    """Raised by a processor's `handle` for a fact about a job, if it has not heard enough of the
    job or its cluster yet: the unit keeps it and hands it over again behind what is applied of the
    same job, and behind each declaration of a cluster. One that stays early for too long is refused
    with this reason."""


class Processor(Protocol):
    """A sans-IO fold over events: no clock, no environment, no randomness of its own.

    Raises RejectedError from `handle` for input that cannot be used (it becomes a dead letter) and
    AlreadyAppliedError for a copy; any other exception ends the process. After either, the state
    must be as before the call.
    """

    def handle(self, event: Event) -> Iterable[Publish]:
        """Apply one event; what follows from it at once."""
        ...

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Decide what waits for all events of a round."""
        ...

    def changes(self) -> Mapping[str, bytes | None]:
        """Return state that changed since the last call, by key; None where a key was removed."""
        ...


@runtime_checkable
class Waking(Protocol):
    """A processor with something that falls due although nothing happens."""

    def wake_us(self) -> int | None:
        """Return when the earliest of it is due, None when nothing is; asked at the end of a
        round."""
        ...


Recall = Callable[[Mapping[str, bytes], Iterable[Event], int], Mapping[str, bytes | None]]
Repair = Callable[[Mapping[str, bytes], int], Mapping[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One processor's place in the flow.

    Unit n of a stage owns Kafka partition n of every input, and restores its state from partition n
    of the changelog. A `single` stage has one unit that owns every partition of every input: its
    other group members are standbys. `create` gets the unit's number and the restored state.
    `puts_barriers` False writes no round's barriers: nobody downstream closes rounds by them.
    `wakes` is the output by which a `Waking` processor has a stage that goes by the clock close a
    round; empty where none could. `repair` is what to change in a restored state so that nothing in
    it lies in the future, given the time, us. `given_up` gets the number of a unit whose processor
    is not used any more. `keyed_by` is the key of the events that a record of the state (key,
    value) belongs to: with it the state of a keyed stage moves to where its keys go with more Kafka
    partitions. `recall` is what to change in a state that is older than the outputs, given these
    and the number of the first round that the state does not know: what was published must not be
    published otherwise. `consumes` are the types of events that the processor takes, by their full
    names: others are skipped by their header and counted, those of a later release too. None: all
    of its inputs. `passes_to` is the stage that takes what this one passes on: a command of that
    stage which is refused here has its outcome from here. `relaxed_s` is how long a round lasts at
    least where a clock closes it: no decision waits for what comes of it, and a transaction costs
    the same with little in it."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    create: Callable[[int, Mapping[str, bytes]], Processor]
    single: bool = False
    rounds: RoundSource = RoundSource.BARRIERS
    puts_barriers: bool = True
    wakes: str = ""
    repair: Repair = lambda _state, _us: {}
    given_up: Callable[[int], None] = lambda _number: None
    keyed_by: Callable[[str, bytes], str] | None = None
    recall: Recall | None = None
    consumes: frozenset[str] | None = None
    passes_to: str = ""
    relaxed_s: float = 0.0

    @property
    def late_s(self) -> float:
        """Return how late its work may be, s: barriers that others wait for are never late."""
        return self.relaxed_s if self.rounds is RoundSource.CLOCK else 0.0

    @property
    def changelog(self) -> str:
        """Return the compacted topic of this stage's state."""
        return f"changelog.{self.name}"
