"""The life of a service process: start, work, stop when asked, and end at once when broken."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from coplace_client.errors import CannotStartError, WrongSettingsError
from coplace_client.health import Readiness
from coplace_client.life import observed, pause, stop_on_signals
from shared.process.clock import process_clock
from shared.process.crash import end_process
from shared.process.logging import configure_logging
from shared.process.memory import collect_rarely
from shared.process.settings import Settings, settings
from shared.process.telemetry import Telemetry

_LOOK_AGAIN_S: Final = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """What the main coroutine of a process works with; it returns soon after `stop` is set."""

    settings: Settings
    telemetry: Telemetry
    readiness: Readiness = field(default_factory=Readiness)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_usable(self, what: str, problem: Callable[[], Awaitable[str]]) -> None:
        """Return when nothing is wrong with what the process needs, or when it shall stop.

        Until then it stays up and says what is wrong: `problem` returns that, empty where nothing
        is.
        """
        self.readiness.wait_for(what)
        while not self.stop.is_set():
            found = await problem()
            if not found:
                return
            if found not in self.readiness.waiting_for:
                log.error("refused", problem=found)
            self.readiness.refuse(found)
            await pause(self.stop, _LOOK_AGAIN_S)

    async def run_until_stopped(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Work until the process shall stop; return once the work has ended, so that what it uses
        can be closed. What nobody expected ends the process at once: it goes on where it was."""

        def ended(running: asyncio.Task[None]) -> None:
            if not running.cancelled() and (error := running.exception()):
                end_process(name, error)

        running = asyncio.create_task(work)
        running.add_done_callback(ended)
        await self.stop.wait()
        running.cancel()
        await asyncio.wait([running])


Main = Callable[[Process], Awaitable[None]]


def run_process(name: str, main: Main) -> None:
    """Run `main` with health, metrics, traces and logs until it returns.

    SIGTERM and SIGINT ask it to stop. An exception ends the process with exit code 1; of a
    CannotStartError and of wrong settings one line says what to do.
    """
    collect_rarely()
    config = settings()
    configure_logging(name, config.log_level)
    telemetry = Telemetry(name, config)
    try:
        asyncio.run(_run(main, Process(config, telemetry)))
    except (CannotStartError, WrongSettingsError) as error:
        telemetry.close()
        log.critical("cannot start", problem=str(error))
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        telemetry.close()
        end_process(name, error)
    telemetry.close()
    log.info("stopped")


async def _run(main: Main, process: Process) -> None:
    config, telemetry = process.settings, process.telemetry
    clock = None if config.is_emulated else process_clock()
    if clock is not None:
        telemetry.watch_clock(lambda: clock.off_us / 1e6)
    telemetry.watch_readiness(lambda: not process.readiness.waiting_for)
    stop_on_signals(process.stop)
    address, end = (config.http_host, config.http_port), partial(end_process, "clock")
    async with observed(address, process.readiness, telemetry.exposition, clock, end):
        await main(process)
