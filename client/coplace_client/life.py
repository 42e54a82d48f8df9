"""The life of a process: it stops when it is asked to, says how it is, and minds its clock."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from coplace_client.clock import ClockJumpedError, GuardedClock
from coplace_client.health import ShownReadiness, http_server

# How soon a clock that jumped is noticed in a process that does not ask for the time.
_CLOCK_WATCH_S: Final = 1.0

log = logging.getLogger(__name__)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Let SIGTERM and SIGINT set `stop`; called in the loop that waits for it."""
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(asked, stop.set)


async def pause(stop: asyncio.Event, pause_s: float) -> None:
    """Wait for so long, or until `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await stop.wait()


@asynccontextmanager
async def observed(
    address: tuple[str, int],
    readiness: ShownReadiness,
    metrics: Callable[[], bytes],
    clock: GuardedClock | None,
    end: Callable[[ClockJumpedError], None],
) -> AsyncIterator[None]:
    """Serve health and metrics, and watch the clock where there is one; `end` is to end the process
    whose clock stays off."""
    watching = asyncio.create_task(watch_clock(readiness, clock, end)) if clock else None
    async with http_server(*address, readiness, metrics):
        yield
    if watching:
        watching.cancel()


async def watch_clock(
    readiness: ShownReadiness, clock: GuardedClock, end: Callable[[ClockJumpedError], None]
) -> None:
    """Raise the alarm while the wall clock is off, and call `end` when it stays so."""
    while True:
        clock.now_us()
        off = f"the wall clock is {clock.off_us / 1e6:+.1f} s off the time that passed"
        alarm = off if clock.off_us else ""
        if bool(alarm) != bool(readiness.alarm):
            log.error("clock", extra={"problem": alarm or "the wall clock is right again"})
        readiness.alarm = alarm
        try:
            clock.check()
        except ClockJumpedError as error:
            end(error)
        await asyncio.sleep(_CLOCK_WATCH_S)
