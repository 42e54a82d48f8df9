"""What a compacted changelog keeps of processors, and lives that follow one another by it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from shared.catalogue.event import Event
from shared.streams.stages.stage import Processor

AnyProcessor = TypeVar("AnyProcessor", bound=Processor)


def fold(state: dict[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    """Apply what a batch changed."""
    for key, value in changes.items():
        state.pop(key, None)
        state |= {} if value is None else {key: value}


def state_of(*lives: Processor) -> dict[str, bytes]:
    """What lives that followed one another leave to the next one."""
    state: dict[str, bytes] = {}
    for life in lives:
        fold(state, life.changes())
    return state


def interrupted(
    create: Callable[[Mapping[str, bytes]], AnyProcessor], events: Sequence[Event], at: int
) -> AnyProcessor:
    """What knows all events, after a life before it was killed behind some of them."""
    before = create({})
    for event in events[:at]:
        list(before.handle(event))
    after = create(state_of(before))
    for event in events[at:]:
        list(after.handle(event))
    return after
