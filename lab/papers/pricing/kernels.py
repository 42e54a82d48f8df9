"""Kernels that count heartbeats, and an agent at work on them as its service puts it together."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_agent.adapters.jobs import AttachedJobs, JobFile
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.progress import Heartbeats
from coplace_agent.adapters.spool import Spool
from coplace_agent.adapters.watchdog import Watchdog
from coplace_agent.app import job_folder, pauses_file
from coplace_agent.clocks import Clocks
from coplace_agent.controller import Controller
from coplace_agent.meter import AgentMeter
from coplace_agent.model import rate
from coplace_agent.settings import AgentSettings
from shared.process.clock import now_us

_WATCHED_S: Final = 5.0
_FOR_EVER: Final = "0"
WARM_S: Final = 0.3
"""Until what they read and write is where it stays."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One that runs."""

    name: str
    pid: int
    beats: Path


@contextmanager
def running(program: Path, beats: Path, name: str, cores: Sequence[int]) -> Iterator[Kernel]:
    """Run a kernel with a thread on each of these cores, killed behind it."""
    environment = {**os.environ, "COPLACE_HEARTBEATS": str(beats)}
    command = [str(program), name, _FOR_EVER, *map(str, cores)]
    with subprocess.Popen(command, env=environment, cwd=beats.parent) as process:
        try:
            while not (beats.exists() and beats.stat().st_size):
                time.sleep(0.01)
            yield Kernel(name, process.pid, beats)
        finally:
            process.send_signal(signal.SIGKILL)


class Stretch:
    """Heartbeats from now on."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._sources = [Heartbeats(kernel.beats) for kernel in kernels]
        self._begins = [source.read() for source in self._sources]

    def rates(self) -> list[float]:
        """Return the heartbeats a second of each, up to now, when the stretch ends."""
        both = zip(self._begins, self._sources, strict=True)
        found = [rate(begin, source.read()) for begin, source in both]
        for source in self._sources:
            source.close()
        return found


def rates(kernels: Sequence[Kernel], stretch_s: float) -> list[float]:
    """Measure heartbeats a second of each over a stretch of so long."""
    stretch = Stretch(kernels)
    time.sleep(stretch_s)
    return stretch.rates()


@dataclass(frozen=True, slots=True)
class Agent:
    """The parts of an agent, which works on request."""

    settings: AgentSettings
    spool: Spool
    watchdog: Watchdog
    pauser: Pauser

    def work(self, meter: AgentMeter, seconds: float) -> None:
        """Shutter the attached jobs for so long."""
        table = AttachedJobs(job_folder(self.settings), frozenset({os.getpid(), self.watchdog.pid}))
        controller = Controller(
            self.settings, table, self.pauser, self.spool, meter, Clocks(now_us)
        )
        stop = threading.Event()
        threading.Timer(seconds, stop.set).start()
        controller.run(stop)


@contextmanager
def agent_beside(settings: AgentSettings, kernels: Sequence[Kernel]) -> Iterator[Agent]:
    """Run an agent to which these are attached."""
    settings.run_dir.mkdir()
    spool = Spool(settings.spool_dir, 1 << 30)
    watchdog = Watchdog(pauses_file(settings), _WATCHED_S)
    try:
        for kernel in kernels:
            job = JobFile(job_id=str(kernel.pid), pid=kernel.pid, heartbeats=kernel.beats)
            job_folder(settings).attach(job)
        yield Agent(settings, spool, watchdog, Pauser(watchdog, settings.standstill_s))
    finally:
        watchdog.close()
