"""What came of commands, as their owners say: kept for callers that ask, and wait."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

from coplace.v1.control_pb2 import COMMAND_RESULT_EARLY, CommandOutcome

from shared.authority.following import Followed, following
from shared.catalogue.event import Event
from shared.catalogue.schemas import names_of
from shared.process.clock import now_us
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.outcomes import TOPIC

_DAY_US: Final = 86_400_000_000
# Of each some 300 bytes are kept.
_MOST_KNOWN: Final = 100_000
# Beyond that the answer is what is known now: calls that wait take the place of others.
_MOST_WAITING: Final = 200


class KnownOutcomes:
    """The outcomes that were published last, by the ids of commands. Of several of one command the
    first counts that is not EARLY: later ones are about copies."""

    def __init__(self, most: int = _MOST_KNOWN, most_waiting: int = _MOST_WAITING) -> None:
        self._most, self._most_waiting = most, most_waiting
        self._outcomes: OrderedDict[str, CommandOutcome] = OrderedDict()
        self._awaited: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._waiting = 0

    def fold(self, event: Event) -> None:
        """Take in what an owner said, and wake up the calls that wait for it."""
        outcome = event.payload
        assert isinstance(outcome, CommandOutcome)
        if _is_final(self._outcomes.get(outcome.command_id)):
            return
        self._outcomes[outcome.command_id] = outcome
        if len(self._outcomes) > self._most:
            self._outcomes.popitem(last=False)
        if _is_final(outcome):
            for woken in self._awaited.get(outcome.command_id, ()):
                if not woken.done():
                    woken.set_result(None)

    async def of(self, command_id: str, within_s: float) -> CommandOutcome | None:
        """Return what came of a command, None where nothing is known; waits for what is final."""
        is_known = _is_final(self._outcomes.get(command_id))
        if not is_known and within_s > 0 and self._waiting < self._most_waiting:
            await self._wait_for(command_id, within_s)
        return self._outcomes.get(command_id)

    async def _wait_for(self, command_id: str, within_s: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._awaited[command_id].add(woken)
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await woken
        finally:
            self._waiting -= 1
            self._awaited[command_id].discard(woken)
            if not self._awaited[command_id]:
                del self._awaited[command_id]


def _is_final(outcome: CommandOutcome | None) -> bool:
    return outcome is not None and outcome.result != COMMAND_RESULT_EARLY


class OutcomesFollowed:
    """The outcomes of the last days, read from Kafka from the first question on. A context."""

    def __init__(
        self, deployment: Deployment, remember_days: float, crash: Callable[[Exception], object]
    ) -> None:
        self._deployment, self._remember_us = deployment, round(remember_days * _DAY_US)
        self._crash = crash
        self._known = KnownOutcomes()
        self._stack = AsyncExitStack()
        self._starting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "OutcomesFollowed":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    async def of(self, command_id: str, within_s: float) -> CommandOutcome | None:
        """Return what came of a command, None where nothing is known in time."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)
        return await self._known.of(command_id, within_s)

    async def _start(self) -> None:
        since_us = {TOPIC: now_us() - self._remember_us}
        kinds = names_of(CommandOutcome)
        followed = Followed(self._deployment, [TOPIC], kinds, self._known.fold, since_us)
        await self._stack.enter_async_context(following(followed, self._crash))
