"""Composition root of the accounts."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from coplace.v1.pricing_pb2 import ChargeMade
from redis.asyncio import Redis

from services.pricing.accounts.adapters import RedisAccounts
from services.pricing.accounts.model import Entry, entry_of
from shared.domain.errors import RejectedError
from shared.messaging.dead_letters import dead_letter
from shared.messaging.deployment import Deployment, now_us
from shared.messaging.faust_app import run_stateless, stateless_app
from shared.messaging.hooks import Tally
from shared.messaging.publisher import KafkaPublisher
from shared.messaging.record import Place, Record
from shared.messaging.topics import DLQ_PREFIX
from shared.runtime.security import redis_options
from shared.runtime.service import Process, run_process
from shared.runtime.topics import wait_for_topics

NAME: Final = "accounts"
LEDGER: Final = "prices.charges"


class LostPositionError(Exception):
    """Redis has forgotten what this process applied: it must be applied again from the start."""


class Projection:
    """Applies the ledger to the accounts, and remembers how far Redis must be."""

    def __init__(
        self, deployment: Deployment, accounts: RedisAccounts, dead_letters: KafkaPublisher
    ) -> None:
        self._codec = deployment.codec
        self._meter = deployment.hooks.meter
        self._accounts = accounts
        self._dead_letters = dead_letters
        self._applied: dict[Place, int] = {}

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Where to read on. Raises LostPositionError when Redis was reset under this process."""
        for place in places:
            position = await self._accounts.position(place)
            if position < self._applied.get(place, 0):
                raise LostPositionError(f"{place} was applied to {self._applied[place]}")
            self._applied[place] = position
        return {place: self._applied[place] for place in places}

    async def apply(self, records: Sequence[Record]) -> None:
        """Apply a batch; what cannot be used becomes a dead letter first."""
        began_s, tally = time.monotonic(), Tally(records_in=len(records))
        by_place: dict[Place, list[Record]] = defaultdict(list)
        for record in records:
            by_place[record.place].append(record)
        for place, batch in by_place.items():
            await self._apply_at(place, batch, tally)
        self._meter.batch(NAME, 0, tally, time.monotonic() - began_s)

    async def _apply_at(self, place: Place, batch: Sequence[Record], tally: Tally) -> None:
        entries = [
            (record.offset, entry)
            for record in batch
            if (entry := await self._entry(record, tally))
        ]
        following = max(self._applied.get(place, 0), batch[-1].offset + 1)
        await self._accounts.apply(place, self._applied.get(place, 0), following, entries)
        self._applied[place] = following

    async def _entry(self, record: Record, tally: Tally) -> Entry | None:
        """The entry of a charge; None for a round's mark and for what cannot be used."""
        try:
            payload = self._codec.decode(record).payload
            return entry_of(payload) if isinstance(payload, ChargeMade) else None
        except RejectedError as error:
            tally.dead_letters += 1
            letter = dead_letter(record, str(error), NAME, now_us())
            await self._dead_letters.send_all([letter])
            return None


async def serve(process: Process) -> None:
    """Project until the process shall stop."""
    deployment = Deployment.of(process.settings, process.telemetry.hooks())
    topics = (LEDGER, DLQ_PREFIX + LEDGER)
    await wait_for_topics(process.settings, topics, process.readiness, process.stop)
    redis = Redis.from_url(process.settings.redis_url, **redis_options(process.settings))
    async with redis, KafkaPublisher(deployment, NAME) as dead_letters:
        accounts = RedisAccounts(redis, deployment.name)
        projection = Projection(deployment, accounts, dead_letters)
        app = stateless_app(deployment, NAME, {LEDGER: projection.apply}, projection.positions)
        process.readiness.ready()
        await run_stateless(app, process.stop)


def main() -> None:
    """Run the process."""
    run_process(NAME, serve)
