"""The life of a service process: start, work, stop when asked, and end at once when broken."""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

import structlog
from opentelemetry.metrics import Meter as InstrumentFactory

from shared.messaging.events.topics import DLQ_PREFIX
from shared.messaging.on_kafka.driver import run_stages
from shared.messaging.stages.clock import ClockJumpedError, GuardedClock, process_clock
from shared.messaging.stages.crash import end_process
from shared.messaging.stages.stage import Stage
from shared.runtime.environment import WrongSettingsError
from shared.runtime.http import Readiness, http_server
from shared.runtime.logging import configure_logging
from shared.runtime.settings import Settings, settings
from shared.runtime.telemetry import Telemetry
from shared.runtime.topics import wait_for_topics

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Process:
    """What the main coroutine of a process works with; it returns soon after `stop` is set."""

    settings: Settings
    telemetry: Telemetry
    readiness: Readiness = field(default_factory=Readiness)
    stop: asyncio.Event = field(default_factory=asyncio.Event)


Main = Callable[[Process], Awaitable[None]]


class CannotStartError(Exception):
    """What this process needs is not there; the message says what, and what to do."""


# A service's state is many objects that live long and no cycles: at its defaults Python's collector
# of cycles goes through them so often that a fifth of all CPU time goes into it.
GC_THRESHOLDS: Final = (50_000, 20, 100)
# How soon a clock that jumped is noticed in a process that does not ask for the time.
_CLOCK_WATCH_S: Final = 1.0


def run_process(name: str, main: Main) -> None:
    """Run `main` with health, metrics, traces and logs until it returns.

    SIGTERM and SIGINT ask it to stop. An exception ends the process with exit code 1; of a
    CannotStartError and of wrong settings one line says what to do.
    """
    gc.set_threshold(*GC_THRESHOLDS)
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


def run_service(
    name: str,
    stages: Sequence[Stage],
    register: Callable[[InstrumentFactory], None] | None = None,
    beside: Callable[[Process], AbstractAsyncContextManager[None]] | None = None,
) -> None:
    """Run stages on Kafka as this process's work; `register` creates instruments of its own,
    `beside` does what shall be done while they run."""

    async def main(process: Process) -> None:
        if register is not None:
            register(process.telemetry.meter)
        await wait_for_topics(process.settings, _topics(stages), process.readiness, process.stop)
        process.readiness.wait_for("Kafka partitions and their state")
        async with beside(process) if beside else nullcontext():
            await run_stages(
                stages,
                process.settings,
                process.stop,
                process.telemetry.hooks(),
                process.readiness.ready,
                process.readiness.refuse,
            )

    run_process(name, main)


async def _run(main: Main, process: Process) -> None:
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(asked, process.stop.set)
    watching = asyncio.create_task(watch_clock(process))
    process.telemetry.watch_readiness(lambda: not process.readiness.waiting_for)
    async with http_server(process.settings, process.readiness, process.telemetry.registry):
        await main(process)
    watching.cancel()


async def watch_clock(process: Process, clock: GuardedClock | None = None) -> None:
    """Raise the alarm while the wall clock is off, and end the process when it stays so."""
    if process.settings.is_emulated:
        return
    clock = clock or process_clock()
    process.telemetry.watch_clock(lambda: clock.off_us / 1e6)
    while True:
        clock.now_us()
        off = f"the wall clock is {clock.off_us / 1e6:+.1f} s off the time that passed"
        alarm = off if clock.off_us else ""
        if bool(alarm) != bool(process.readiness.alarm):
            log.error("clock", problem=alarm or "the wall clock is right again")
        process.readiness.alarm = alarm
        try:
            clock.check()
        except ClockJumpedError as error:
            end_process("clock", error)
        await asyncio.sleep(_CLOCK_WATCH_S)


def _topics(stages: Sequence[Stage]) -> set[str]:
    return {
        name
        for stage in stages
        for name in (
            *stage.inputs,
            *stage.outputs,
            stage.changelog,
            *(DLQ_PREFIX + topic for topic in stage.inputs),
        )
    }
