"""Composition root of the node agent."""

import asyncio
import os
import sys
import threading
from functools import partial
from pathlib import Path

from services.agent.adapters.ingest import Sender
from services.agent.adapters.jobs import AttachedJobs, JobFolder
from services.agent.adapters.pausing import Pauser
from services.agent.adapters.spool import Spool
from services.agent.adapters.watchdog import Watchdog
from services.agent.clocks import Clocks
from services.agent.controller import Controller
from services.agent.meter import AgentMeter
from services.agent.settings import AgentSettings
from shared.messaging.stages.clock import process_clock
from shared.messaging.stages.crash import end_process
from shared.runtime.service import CannotStartError, Process, run_process

# The controller waits no longer than this for other threads while jobs are paused.
_SWITCH_S = 0.0005


def job_folder(settings: AgentSettings) -> JobFolder:
    """Where jobs are attached."""
    return JobFolder(settings.run_dir / "jobs")


def pauses_file(settings: AgentSettings) -> Path:
    """Where the watchdog notes what is paused."""
    return settings.run_dir / "paused"


async def serve(process: Process) -> None:
    """Shutter the jobs of this node until the process shall stop."""
    sys.setswitchinterval(_SWITCH_S)
    own = AgentSettings()
    spool, watchdog = _prepared(own)
    sender = Sender(spool, own.ingest_address, process.settings)
    meter = AgentMeter(process.telemetry.meter)
    meter.watch_spool(lambda: len(spool), lambda: sender.refused)
    table = AttachedJobs(job_folder(own), frozenset({os.getpid(), watchdog.pid}))
    pauser = Pauser(watchdog, own.standstill_s)
    clocks = Clocks(process_clock().now_us)
    controller = Controller(own, table, pauser, spool, meter, clocks)
    stop = threading.Event()
    at_work = threading.Thread(target=partial(_control, controller, stop), name="controller")
    at_work.start()
    process.readiness.ready()
    await sender.run(process.stop)
    stop.set()
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


def _control(controller: Controller, stop: threading.Event) -> None:
    try:
        controller.run(stop)
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        end_process("controller", error)


def main() -> None:
    """Run the process of the node agent."""
    run_process("agent", serve)
