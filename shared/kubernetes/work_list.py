"""Objects that something may have to be done about, each looked at by one worker at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import chain
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkList(Generic[K]):
    """Keeps which objects were touched, and which are to be looked at again later: each once,
    however often that was said. What is urgent goes before all else."""

    def __init__(self, look: Callable[[K], Awaitable[None]]) -> None:
        self._look = look
        self._urgent: dict[K, None] = {}
        self._touched: dict[K, None] = {}
        self._at_hand: set[K] = set()
        self._due: dict[K, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()

    def touch(self, key: K, *, is_urgent: bool = False) -> None:
        """Note that something may have to be done about an object."""
        (self._urgent if is_urgent else self._touched)[key] = None
        self._wake.set()

    def later(self, key: K, wait_s: float) -> None:
        """Look at an object again after some time, s, unless it is looked at before."""
        loop = asyncio.get_running_loop()
        before = self._due.get(key)
        if before is not None and before.when() <= loop.time() + wait_s:
            return
        if before is not None:
            before.cancel()
        self._due[key] = loop.call_later(wait_s, self._again, key)

    async def work(self) -> None:
        """Look at touched objects, until cancelled. Several may work at once."""
        while True:
            await self._wake.wait()
            await self.work_off()

    async def work_off(self) -> None:
        """Look at touched objects, until none is left. What is touched while it is looked at is
        looked at again by the same worker, so that others go on with other objects."""
        while (key := self._next()) is not None:
            self._urgent.pop(key, None)
            self._touched.pop(key, None)
            self._at_hand.add(key)
            try:
                await self._look(key)
            finally:
                self._at_hand.remove(key)
        self._wake.clear()

    def _next(self) -> K | None:
        waiting = chain(self._urgent, self._touched)
        return next((key for key in waiting if key not in self._at_hand), None)

    def _again(self, key: K) -> None:
        self._due.pop(key, None)
        self.touch(key)
