"""Composition root of the node agent."""

import asyncio
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import NoReturn

from coplace_agent.adapters.ingest import Sender
from coplace_agent.adapters.jobs import AttachedJobs, JobFolder
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.spool import Spool
from coplace_agent.adapters.watchdog import Watchdog
from coplace_agent.clocks import Clocks
from coplace_agent.controller import Controller
from coplace_agent.log import configure_logging
from coplace_agent.meter import AgentMeter
from coplace_agent.settings import PREFIX, SHARED_PREFIX, AgentSettings, SharedSettings
from coplace_client.clock import GuardedClock
from coplace_client.errors import CannotStartError
from coplace_client.health import Readiness
from coplace_client.life import observed, stop_on_signals

# The controller waits no longer than this for other threads while jobs are paused.
_SWITCH_S = 0.0005

log = logging.getLogger(__name__)


def agent_settings() -> AgentSettings:
    """Read the settings from the environment. Raises WrongSettingsError."""
    return AgentSettings.of_environment(PREFIX, os.environ)


def job_folder(settings: AgentSettings) -> JobFolder:
    """Return the folder where jobs are attached."""
    return JobFolder(settings.run_dir / "jobs")


def pauses_file(settings: AgentSettings) -> Path:
    """Return the file where the watchdog notes what is paused."""
    return settings.run_dir / "paused"


def run() -> None:
    """Run the agent of this node until a signal ends it.

    Raises WrongSettingsError. What cannot start exits with 1, and so does what fails.
    """
    own, shared = agent_settings(), SharedSettings.of_environment(SHARED_PREFIX, os.environ)
    configure_logging("agent", shared.log_level)
    try:
        asyncio.run(_serve(own, shared))
    except CannotStartError as error:
        log.critical("cannot start", extra={"problem": str(error)})
        raise SystemExit(1) from None
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        end_process("agent", error)
    log.info("stopped")


async def _serve(own: AgentSettings, shared: SharedSettings) -> None:
    """Shutter the jobs of this node until the process shall stop."""
    sys.setswitchinterval(_SWITCH_S)
    tolerance_us, patience_us = shared.clock_tolerance_s * 1e6, shared.clock_patience_s * 1e6
    clock = GuardedClock(None, round(tolerance_us), round(patience_us))
    stop, readiness, meter = asyncio.Event(), Readiness(), AgentMeter()
    meter.watch_process(lambda: not readiness.waiting_for, lambda: clock.off_us / 1e6)
    address = (shared.http_host, shared.http_port)
    end = partial(end_process, "clock")
    stop_on_signals(stop)
    async with observed(address, readiness, meter.exposition, clock, end):
        await _shutter(own, shared, Clocks(clock.now_us), meter, readiness, stop)


async def _shutter(
    own: AgentSettings,
    shared: SharedSettings,
    clocks: Clocks,
    meter: AgentMeter,
    readiness: Readiness,
    stop: asyncio.Event,
) -> None:
    spool, watchdog = _prepared(own)
    sender = Sender(spool, own.ingest_address, shared)
    meter.watch_spool(lambda: len(spool), lambda: sender.refused)
    table = AttachedJobs(job_folder(own), frozenset({os.getpid(), watchdog.pid}))
    pauser = Pauser(watchdog, own.standstill_s)
    controller, ended = Controller(own, table, pauser, spool, meter, clocks), threading.Event()
    at_work = threading.Thread(target=partial(_control, controller, ended), name="controller")
    at_work.start()
    readiness.ready()
    await sender.run(stop)
    ended.set()
    await asyncio.to_thread(at_work.join)
    watchdog.close()
    await sender.flush()


def _prepared(own: AgentSettings) -> tuple[Spool, Watchdog]:
    """Raises CannotStartError where the agent's folders cannot be written."""
    try:
        (own.run_dir / "jobs").mkdir(parents=True, exist_ok=True)
        spool = Spool(own.spool_dir, own.most_spool_mib << 20)
    except OSError as error:
        advice = "set COPLACE_AGENT_RUN_DIR and COPLACE_AGENT_SPOOL_DIR to folders of its own"
        raise CannotStartError(f"{error}: {advice}") from error
    return spool, Watchdog(pauses_file(own), own.most_pause_s)


def _control(controller: Controller, ended: threading.Event) -> None:
    try:
        controller.run(ended)
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        end_process("controller", error)


def end_process(where: str, error: BaseException) -> NoReturn:
    """Log what happened and end the process at once: the watchdog continues what is paused, and
    what is spooled is sent by the next one."""
    log.critical("process ends", extra={"where": where, "error": repr(error)}, exc_info=error)
    os._exit(1)
