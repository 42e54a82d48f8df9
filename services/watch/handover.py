"""One call: what is handed over, that it is alive, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from grpc.aio import ServicerContext

from services.watch.wire import response
from shared.process.grpc_calls import EndedCallError
from shared.process.grpc_errors import RefusalReason, RefusedCallError

# A table of authority that has changed counts for an open stream after so long.
_ALLOWED_FOR_S: Final = 10.0


class Handover:
    """Writes to one caller. `require` raises RefusedCallError for one that may not watch."""

    def __init__(
        self,
        context: ServicerContext[Any, Any],
        heartbeat_s: float,
        stalled_s: float,
        require: Callable[[], Awaitable[None]],
    ) -> None:
        self._context, self._require = context, require
        self._heartbeat_s, self._stalled_s = heartbeat_s, stalled_s
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._writing: asyncio.Timeout | None = None
        self._ending: RefusedCallError | None = None
        self._cursor = ""
        self._wrote_s = self._allowed_s = self._loop.time()
        self.has_fallen_behind = False

    def wake(self) -> None:
        """Note that something waits for it."""
        self._news.set()

    def end(self, code: grpc.StatusCode, why: str, reason: RefusalReason) -> None:
        """End the call, though its caller takes nothing."""
        if self._ending is not None:
            return
        # What is being written may reach it all the same.
        resume = (
            f"with the last cursor that you got, {self._cursor} or the one behind it"
            if self._cursor
            else "as before"
        )
        self._ending = RefusedCallError(code, f"{why}: ask again {resume}", reason)
        self._news.set()
        if self._writing is not None:
            self._writing.reschedule(self._loop.time())

    def fall_behind(self) -> None:
        """End the call of who takes decisions more slowly than they come."""
        self.has_fallen_behind = True
        code, reason = grpc.StatusCode.RESOURCE_EXHAUSTED, RefusalReason.FELL_BEHIND
        self.end(code, "too many decisions wait to be taken", reason)

    async def begin(self) -> None:
        """Send the headers alone: a first answer that is interrupted would leave them under way,
        and gRPC refuses to send them again with the status, which the caller would never get."""
        await self._context.send_initial_metadata(())

    async def require_allowed(self) -> None:
        """Ask whether the caller may still watch. Raises RefusedCallError."""
        await self._require()
        self._allowed_s = self._loop.time()

    async def hand(self, payload: bytes, cursor: str) -> None:
        """Hand over a decision. Raises RefusedCallError and EndedCallError."""
        await self._write(payload, cursor)

    async def beat(self, cursor: str) -> None:
        """Send a cursor alone. Raises as `hand` does."""
        await self._write(None, cursor)

    async def beat_if_quiet(self, cursor: str) -> None:
        """Send a cursor alone where nothing was sent for a while."""
        if self._loop.time() - self._wrote_s >= self._heartbeat_s:
            await self.beat(cursor)

    async def is_woken(self) -> bool:
        """Wait for something to do; return False where it is time for a heartbeat. Raises
        RefusedCallError."""
        try:
            async with asyncio.timeout_at(self._wrote_s + self._heartbeat_s):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        self._go_on()
        return True

    def _go_on(self) -> None:
        if self._ending is not None:
            raise self._ending

    async def _write(self, payload: bytes | None, cursor: str) -> None:
        self._go_on()
        if self._loop.time() - self._allowed_s >= _ALLOWED_FOR_S:
            await self.require_allowed()
        try:
            async with asyncio.timeout(self._stalled_s) as self._writing:
                await self._context.write(response(payload, cursor))
        except TimeoutError:
            self._writing = None
            code, reason = grpc.StatusCode.RESOURCE_EXHAUSTED, RefusalReason.FELL_BEHIND
            self.end(code, f"nothing taken for {self._stalled_s:g} s", reason)
            self._go_on()
        except Exception as error:
            raise EndedCallError(str(error)) from error
        finally:
            self._writing = None
        self._cursor, self._wrote_s = cursor, self._loop.time()
