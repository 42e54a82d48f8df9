"""More Kafka partitions for a keyed stage: its state moves with its keys. Pure."""

from collections.abc import Callable, Mapping

from coplace.v1.control_pb2 import RoundEnded

from shared.messaging import early
from shared.messaging.topics import ROUND_ENDED, partition_of
from shared.messaging.unit_state import OWN_KEYS

State = Mapping[str, bytes]
KeyedBy = Callable[[str, bytes], str]


def moved(
    states: Mapping[int, State], keyed_by: KeyedBy, kafka_partitions: int
) -> dict[int, dict[str, bytes | None]]:
    """What to write to each unit's changelog: what comes to it, and the end of what leaves it.

    Every unit goes on with the latest round of all of them: none may close a round a second time.
    """
    changes: dict[int, dict[str, bytes | None]] = {n: {} for n in range(kafka_partitions)}
    for number, state in states.items():
        for key, value in state.items():
            if key in OWN_KEYS:
                changes[number][key] = None
                continue
            about = early.job_of(value) if key.startswith(early.PREFIX) else keyed_by(key, value)
            goes_to = partition_of(about.encode(), kafka_partitions)
            if goes_to != number:
                changes[number][key] = None
                changes[goes_to][key] = value
    if (latest := _latest_round(states)) is not None:
        for each in changes.values():
            each[ROUND_ENDED] = latest
    return changes


def _latest_round(states: Mapping[int, State]) -> bytes | None:
    marks = [state[ROUND_ENDED] for state in states.values() if ROUND_ENDED in state]
    return max(marks, key=lambda mark: RoundEnded.FromString(mark).round, default=None)
