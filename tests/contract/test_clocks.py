"""A clock that was wrong, on real Kafka: the state that it dragged along is refused, and
repaired."""

import asyncio

import pytest
from aiokafka.errors import ProducerFenced
from kafka.errors import CoordinatorNotAvailableError

from coplace_client.clock import GuardedClock
from shared.domain.rounds import RoundSource
from shared.process.clock import now_us
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.facts import KafkaFacts
from shared.streams.on_kafka.unit import KafkaUnit
from shared.streams.restoring.clock_repair import repair_clock
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import Commit
from tests.contract.on_kafka import KafkaBackend
from tests.support.messaging import counting

HOUR_US = 3_600_000_000


def clocked(backend: KafkaBackend, *, ahead_us: int = 0) -> Deployment:
    """A production deployment on a machine whose clock is ahead."""
    found = Deployment.from_settings(
        backend.deployment.settings.model_copy(update={"rounds": RoundSource.CLOCK})
    )
    clock = GuardedClock(lambda: (now_us() + ahead_us, now_us()))
    return Deployment(found.settings, found.codec, found.limit, clock=clock)


async def opened(place: Deployment, stage: Stage) -> KafkaUnit:
    """Unit 0 of the stage. A new broker has no coordinator yet, which a member would wait for."""
    while True:
        facts = KafkaFacts(place)
        try:
            return await KafkaUnit.open(place, stage, 0, facts)
        except CoordinatorNotAvailableError:
            await asyncio.sleep(0.5)
        finally:
            await asyncio.to_thread(facts.close)


async def close_a_round(unit: KafkaUnit) -> None:
    """Let it work until its first round is closed and committed."""
    task = asyncio.create_task(unit.run())
    async with asyncio.timeout(30):
        while not unit.unit.closed_us:  # noqa: ASYNC110 a unit notifies nobody
            await asyncio.sleep(0.02)
    await unit.close(task)


async def test_a_state_from_the_future_is_refused_until_it_is_repaired(
    on_kafka: KafkaBackend,
) -> None:
    wrong, right = clocked(on_kafka, ahead_us=HOUR_US), clocked(on_kafka)
    stage = counting(rounds=RoundSource.CLOCK)
    await close_a_round(await opened(wrong, stage))
    with pytest.raises(InconsistentError, match=r"ahead of the clock: .*`coplace clock mend`"):
        await opened(right, stage)
    owner = await opened(wrong, stage)
    mended_us = now_us()
    assert await repair_clock(right, [stage], mended_us) == ["counting/0"]
    with pytest.raises(ProducerFenced):
        await owner._transactions.commit(Commit(changelog={"x": b"late"}))
    await owner.discard()
    heir = await opened(right, stage)
    assert (heir.unit.closed_us, heir.unit.next_round) == (mended_us, 1)
    await heir.discard()
    assert await repair_clock(right, [stage], now_us()) == []
