"""The process that keeps balances, over a Redis in memory that runs the real Lua."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import fakeredis

from services.pricing.accounts.adapters import LEDGER, RedisAccounts
from services.pricing.accounts.app import entry
from services.pricing.accounts.model import AccountEntry
from shared.catalogue.codec import Codec
from shared.catalogue.event import Publish
from shared.catalogue.record import Record
from shared.streams.in_memory.facts import facts_of_partitions
from shared.streams.in_memory.log import InMemoryLog
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.read_models.read_model import LostPositionError
from shared.streams.read_models.service import Applier
from shared.streams.stages.consistency import (
    Inconsistency,
    InconsistentError,
    read_model_differences,
)
from tests.chaos.journal import Journal

T = TypeVar("T")
_BATCH: Final = 50
Snapshot = Mapping[bytes, bytes]


class _DeadLetters:
    """Where records go that are no entries."""

    def __init__(self, log: InMemoryLog, codec: Codec) -> None:
        self._log, self._codec = log, codec

    async def send_all(self, publishes: Iterable[Publish]) -> None:
        """Append them."""
        self._log.append([self._codec.encode(publish) for publish in publishes])


class Accounts:
    """A consumer of charges that is killed, goes on as a zombie, and meets Redis or the charges
    changed."""

    def __init__(self, log: InMemoryLog, deployment: Deployment, journal: Journal) -> None:
        self._log, self._journal = log, journal
        self._loop = asyncio.new_event_loop()
        self._redis = fakeredis.FakeAsyncRedis()
        self._model = RedisAccounts(self._redis, deployment.name)
        self._stalled: list[tuple[Applier[AccountEntry], list[Record]]] = []
        self.refused: list[Inconsistency] = []
        self.deploy(deployment)

    def deploy(self, deployment: Deployment) -> None:
        """The process starts with other settings."""
        self._deployment = deployment
        self._places = deployment.topics.partitions(LEDGER)
        self._letters = _DeadLetters(self._log, deployment.codec)
        self.restart()

    def rebuild(self) -> None:
        """`coplace restore rebuild accounts`, then a new process."""
        self._stalled.clear()
        self._run(self._model.clear(self._places))
        self.restart()

    def restart(self) -> None:
        """A new process: it goes on at Redis's positions, unless they do not belong to the
        charges."""
        self._applier: Applier[AccountEntry] = Applier(
            self._deployment,
            "accounts",
            self._model,
            entry,
            self._letters,  # type: ignore[arg-type]
            self._check,
            lambda topic: self._log.identity(topic, 0).topic_id,
        )
        self.refused, self._next = [], {}
        with suppress(InconsistentError):
            self._next = dict(self._run(self._applier.positions(self._places)))

    def step(self) -> None:
        """Apply what is new; a Redis that was reset under the process ends it, as in production."""
        if self.refused:
            self.restart()
        try:
            self._run(self._apply())
        except InconsistentError:
            return  # it stays up and says so
        except LostPositionError:
            self.restart()

    def stall(self) -> None:
        """The process stops with a batch in its hands; another takes over."""
        batch = self._batch()
        if batch:
            self._stalled.append((self._applier, batch))
            self.restart()

    def resume(self) -> None:
        """Zombies apply what they held."""
        stalled, self._stalled = self._stalled, []
        for applier, batch in stalled:
            try:
                self._run(applier.apply(batch))
            except LostPositionError:
                continue  # Redis is behind what it had applied: the process ends

    def flush(self) -> None:
        """Redis loses everything."""
        self._run(self._redis.flushall())

    def snapshot(self) -> Snapshot:
        """A backup of Redis."""
        keys = self._run(self._redis.keys())
        return {key: self._run(self._redis.dump(key)) for key in sorted(keys)}

    def restore(self, backup: Snapshot) -> None:
        """Redis is what it was then."""
        self.flush()
        for key, value in backup.items():
            self._run(self._redis.restore(key, 0, value))

    def spent_micro_su(self) -> Mapping[str, int]:
        """Balances."""
        spent: Mapping[str, int] = self._run(self._model.spent_micro_su())
        return spent

    def close(self) -> None:
        """Leave nothing open."""
        self._run(self._redis.aclose())
        self._loop.close()

    async def _apply(self) -> None:
        await self._check()
        await self._applier.check()
        batch = self._batch()
        if batch:
            await self._applier.apply(batch)

    async def _check(self) -> None:
        """As the production's `ReadModelCheck` does. Raises InconsistentError."""
        known = await self._model.provenance(self._places)
        declared = {LEDGER: len(self._places)}
        places = {*known.positions, *known.last_read}
        found = facts_of_partitions(self._log, declared, known, places)
        self.refused = read_model_differences(known, found, frozenset())
        if self.refused:
            error = InconsistentError("accounts", self.refused)
            self._journal.refusals.append(str(error))
            raise error

    def _batch(self) -> list[Record]:
        batch: list[Record] = []
        for place, position in self._next.items():
            found = self._log.read(place, position, _BATCH)
            if found:
                self._next[place] = found[-1].offset + 1
                batch += found
        return batch

    def _run(self, work: Coroutine[Any, Any, T] | Any) -> Any:
        return self._loop.run_until_complete(work)
