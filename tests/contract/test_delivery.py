"""What both logs promise to every stage."""

from collections.abc import Callable

import pytest

from shared.messaging.hooks import POINTS
from shared.messaging.record import NewRecord
from shared.messaging.topics import ROUND_ENDED
from tests.contract.backends import Backend, Plan
from tests.support.messaging import TOPICS, encoded, marks, submission

JOBS = 120
ROUNDS = 3


def work(rounds: int = ROUNDS) -> list[NewRecord]:
    """Submissions of a few users, some of them sent twice, with the marks of their rounds."""
    records = []
    for number in range(rounds):
        fresh = [submission(f"j{number}-{i}", user=f"u{i % 7}") for i in range(JOBS)]
        records += encoded(*fresh, *fresh[::10])
        records += marks(number, "jobs.events")
    return records


def charges(backend: Backend) -> list[list[tuple[str, bytes]]]:
    """Id and content of every record of every place of the output topic."""
    return [
        [(dict(record.headers)["ce_id"].decode(), record.value or b"") for record in found]
        for found in map(backend.read, TOPICS.places("prices.charges"))
    ]


def state(backend: Backend, stage: str = "counting") -> dict[tuple[int, str], bytes | None]:
    """What the changelog says, latest value a key."""
    return {
        (number, record.key.decode()): record.value
        for number in range(4)
        for record in backend.read(
            TOPICS.places("jobs.events")[number]._replace(topic=f"changelog.{stage}")
        )
    }


def expected(
    records: list[NewRecord],
) -> tuple[list[list[tuple[str, bytes]]], dict[tuple[int, str], bytes | None]]:
    """Outputs and state of an undisturbed run in memory."""
    from tests.contract.in_memory import MemoryBackend

    clean = MemoryBackend()
    clean.append(records)
    clean.start(Plan())
    clean.until(rounds_closed(clean, ROUNDS))
    return charges(clean), state(clean)


def rounds_closed(backend: Backend, rounds: int) -> Callable[[], bool]:
    """Whether every place of the output topic has the marks of so many rounds."""

    def closed() -> bool:
        found = [backend.read(place) for place in TOPICS.places("prices.charges")]
        return all(
            sum(dict(r.headers)["ce_type"] == ROUND_ENDED.encode() for r in records) >= rounds
            for records in found
        )

    return closed


def test_outputs_keep_the_order_of_their_key(backend: Backend) -> None:
    backend.append(work())
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (charges(backend), state(backend)) == expected(work())


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_loses_and_doubles_nothing(backend: Backend, point: str) -> None:
    backend.append(work())
    dying = backend.start(Plan(point=point))
    backend.until(lambda: dying.ended)
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (charges(backend), state(backend)) == expected(work())
