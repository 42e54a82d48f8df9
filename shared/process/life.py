"""The life of a service process: start, work, stop when asked, and end at once when broken."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog
from structlog.contextvars import bind_contextvars

from coplace_client.clock import GuardedClock
from coplace_client.errors import CannotStartError, WrongSettingsError
from coplace_client.health import JointReadiness, Readiness
from coplace_client.life import observed, pause, stop_on_signals
from shared.process.clock import process_clock
from shared.process.crash import end_process
from shared.process.logging import configure_logging
from shared.process.memory import collect_rarely
from shared.process.settings import Settings, settings
from shared.process.telemetry import Telemetry, exposition

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
    run_together(name, {name: main})


def run_together(name: str, mains: Mapping[str, Main]) -> None:
    """Run several services in the process `name`, as `run_process` runs one, until all have
    returned. Each keeps its logs, metrics and traces; what ends one ends all."""
    collect_rarely()
    config, stop = settings(), asyncio.Event()
    configure_logging(name, config.log_level)
    measured = {each: Telemetry(each, config) for each in mains}
    processes = {each: Process(config, own, stop=stop) for each, own in measured.items()}
    try:
        with ExitStack() as stack:
            for telemetry in measured.values():
                stack.callback(telemetry.close)
            asyncio.run(_run(mains, processes))
    except WrongSettingsError:  # `run` says so
        raise
    except CannotStartError as error:
        log.critical("cannot start", problem=str(error))
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        end_process(name, error)
    log.info("stopped")


async def _run(mains: Mapping[str, Main], processes: Mapping[str, Process]) -> None:
    """Run each main in a task, whose logs say its name."""
    first, *_ = processes.values()
    config, stop = first.settings, first.stop
    clock = None if config.is_emulated else process_clock()
    for process in processes.values():
        _watch(process, clock)
    stop_on_signals(stop)
    address, end = (config.http_host, config.http_port), partial(end_process, "clock")
    readiness = JointReadiness({name: each.readiness for name, each in processes.items()})
    measured = {name: each.telemetry for name, each in processes.items()}
    async with observed(address, readiness, partial(exposition, measured), clock, end):
        await asyncio.gather(*(_named(name, mains[name], each) for name, each in processes.items()))


def _watch(process: Process, clock: GuardedClock | None) -> None:
    telemetry, readiness = process.telemetry, process.readiness
    if clock is not None:
        telemetry.watch_clock(lambda: clock.off_us / 1e6)
    telemetry.watch_readiness(lambda: not readiness.waiting_for)


async def _named(name: str, main: Main, process: Process) -> None:
    bind_contextvars(service=name)
    await main(process)
