"""Pairs of kernels on this machine: slowdowns by shutters against those of long stretches."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final

from opentelemetry.metrics import NoOpMeter

from services.agent import client
from services.agent.adapters.jobs import AttachedJobs, JobFile, JobFolder
from services.agent.adapters.pausing import Pauser
from services.agent.adapters.processes import ProcessTree
from services.agent.adapters.progress import Heartbeats
from services.agent.adapters.spool import Spool
from services.agent.adapters.watchdog import Watchdog
from services.agent.app import job_folder, pauses_file
from services.agent.clocks import Clocks
from services.agent.controller import Controller
from services.agent.meter import AgentMeter
from services.agent.model import rate
from services.agent.settings import AgentSettings
from shared.messaging.clock import now_us
from shared.models.shutters import (
    Shutter,
    filtered_slowdown,
    interference,
    unfiltered_slowdown,
)
from tests.benchmarks.pricing.discounts import discounts

_SOURCE: Final = Path(__file__).with_name("kernels.c")
_STRETCH_S: Final = 0.4
_ROUNDS: Final = 5
_WARM_S: Final = 0.3
# Both kernels on both cores, or each on a core of its own.
_BOTH: Final = ((0, 1), (0, 1))
_APART: Final = ((0,), (1,))
PAIRS: Final = (
    *(("triad", "gather", cores) for cores in (_APART, _BOTH)),
    *(("triad", "matrix", cores) for cores in (_APART, _BOTH)),
    *(("gather", "sort", cores) for cores in (_APART, _BOTH)),
    *(("compress", "triad", cores) for cores in (_APART, _BOTH)),
    *(("pages", "matrix", cores) for cores in (_APART, _BOTH)),
    *(("pages", "triad", cores) for cores in (_APART, _BOTH)),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One kernel beside another."""

    kernel: str
    beside: str
    threads: int
    true_ratio: float
    noise: float
    filtered_ratio: float
    unfiltered_ratio: float
    used: int
    shutters: int


@dataclass(frozen=True, slots=True)
class _Kernel:
    name: str
    pid: int
    beats: Path


def measured(seconds: float) -> Iterator[Measured]:
    """All pairs, each shuttered for so long."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "kernels")
        include = str(Path(client.__file__).parent)
        command = ["gcc", "-O2", "-pthread", "-I", include, str(_SOURCE), "-o", str(program)]
        subprocess.run(command, check=True)
        for number, (one, other, cores) in enumerate(PAIRS):
            place = Path(folder, str(number))
            place.mkdir()
            yield from _pair(program, place, (one, other), cores, seconds)


def _pair(
    program: Path,
    folder: Path,
    names: tuple[str, str],
    cores: tuple[Sequence[int], Sequence[int]],
    seconds: float,
) -> Iterator[Measured]:
    settings = AgentSettings(
        run_dir=folder / "run",
        spool_dir=folder / "spool",
        measurement_s=0.02,
        period_s=0.05,
        overhead=0.2,
        standstill_s=0.05,
        interval_s=3600,
        source="bench",
    )
    with ExitStack() as stack:
        kernels = [
            stack.enter_context(_running(program, folder / f"beats-{place}", name, cores[place]))
            for place, name in enumerate(names)
        ]
        settings.run_dir.mkdir()
        spool = Spool(settings.spool_dir, 1 << 30)
        watchdog = Watchdog(pauses_file(settings), 5.0)
        stack.callback(watchdog.close)
        pauser = Pauser(watchdog, settings.standstill_s)
        time.sleep(_WARM_S)
        truths = _truths(kernels, pauser)
        _shuttered(settings, kernels, pauser, watchdog, spool, seconds)
        told = {event.shutters_measured.job_id: event for _, event in spool.waiting()}
    for kernel, beside in (kernels, kernels[::-1]):
        event = told[str(kernel.pid)].shutters_measured
        seen = [Shutter(s.ipc_before, s.ipc_during, s.ipc_after) for s in event.shutters]
        ratio, noise = truths[kernel.pid]
        yield Measured(
            kernel.name,
            beside.name,
            len(cores[0]),
            ratio,
            noise,
            filtered_slowdown(seen),
            unfiltered_slowdown(seen),
            interference(seen).shutters_used,
            len(seen),
        )


@contextmanager
def _running(program: Path, beats: Path, name: str, cores: Sequence[int]) -> Iterator[_Kernel]:
    environment = {**os.environ, "COPLACE_HEARTBEATS": str(beats)}
    command = [str(program), name, *map(str, cores)]
    with subprocess.Popen(command, env=environment, cwd=beats.parent) as process:
        try:
            while not (beats.exists() and beats.stat().st_size):
                time.sleep(0.01)
            yield _Kernel(name, process.pid, beats)
        finally:
            process.send_signal(signal.SIGKILL)


def _truths(kernels: Sequence[_Kernel], pauser: Pauser) -> dict[int, tuple[float, float]]:
    """T_co / T_solo of each, and the standard deviation of its own mean, from stretches alone and
    together by turns: the two of a round lie beside each other."""
    trees = {kernel.pid: ProcessTree(kernel.pid) for kernel in kernels}
    ratios: dict[int, list[float]] = {kernel.pid: [] for kernel in kernels}
    for _ in range(_ROUNDS):
        together = _rates(kernels)
        for kernel in kernels:
            others = [tree for pid, tree in trees.items() if pid != kernel.pid]
            with pauser.paused(others):
                [alone] = _rates([kernel])
            ratios[kernel.pid].append(alone / together[kernels.index(kernel)])
    return {
        pid: (median(each), stdev(each) / len(each) ** 0.5 / median(each))
        for pid, each in ratios.items()
    }


def _rates(kernels: Sequence[_Kernel]) -> list[float]:
    sources = [Heartbeats(kernel.beats) for kernel in kernels]
    begins = [source.read() for source in sources]
    time.sleep(_STRETCH_S)
    found = [rate(begin, each.read()) for begin, each in zip(begins, sources, strict=True)]
    for source in sources:
        source.close()
    return found


def _shuttered(
    settings: AgentSettings,
    kernels: Sequence[_Kernel],
    pauser: Pauser,
    watchdog: Watchdog,
    spool: Spool,
    seconds: float,
) -> None:
    """The agent at work on the pair, as its service puts it together."""
    folder = job_folder(settings)
    for kernel in kernels:
        job = JobFile(job_id=str(kernel.pid), pid=kernel.pid, heartbeats=kernel.beats)
        folder.attach(job)
    own = frozenset({os.getpid(), watchdog.pid})
    table = AttachedJobs(JobFolder(settings.run_dir / "jobs"), own)
    meter = AgentMeter(NoOpMeter("agent"))
    controller = Controller(settings, table, pauser, spool, meter, Clocks(now_us))
    stop = threading.Event()
    threading.Timer(seconds, stop.set).start()
    controller.run(stop)


def rows(found: Sequence[Measured]) -> list[Mapping[str, str]]:
    """As a table shows them."""
    return [
        {
            "kernel": each.kernel,
            "beside": each.beside,
            "threads of each": str(each.threads),
            "true slowdown": f"{each.true_ratio:.2f} ± {each.true_ratio * each.noise:.2f}",
            "filtered": f"{each.filtered_ratio:.2f}",
            "unfiltered": f"{each.unfiltered_ratio:.2f}",
            "shutters used": f"{each.used} of {each.shutters}",
        }
        for each in found
    ]


def summary(found: Sequence[Measured]) -> list[Mapping[str, str]]:
    """Mean absolute errors of the predicted runtime, by threads."""
    return [{"jobs": name, **_errors(group)} for name, group in _groups(found)]


def prices(found: Sequence[Measured]) -> list[Mapping[str, str]]:
    """What they pay over what they would pay alone, by threads."""
    return [
        {
            "jobs": name,
            **discounts(
                [each.true_ratio for each in group], [each.filtered_ratio for each in group]
            ),
        }
        for name, group in _groups(found)
    ]


def _groups(found: Sequence[Measured]) -> list[tuple[str, list[Measured]]]:
    """The jobs of one thread, of two, and all; none that is empty."""
    groups = [
        ("one thread, a core each", [each for each in found if each.threads == 1]),
        ("two threads, both cores", [each for each in found if each.threads == 2]),
        ("all", list(found)),
    ]
    return [(name, group) for name, group in groups if group]


def _errors(found: Sequence[Measured]) -> Mapping[str, str]:
    truths = [each.true_ratio for each in found]
    estimates = {
        "filtered": [each.filtered_ratio for each in found],
        "unfiltered": [each.unfiltered_ratio for each in found],
        "always 1": [1.0] * len(found),
        "always the mean": [fmean(truths)] * len(found),
    }
    shown = {name: _error(each, truths) for name, each in estimates.items()}
    slowed = sum(each.true_ratio >= 1 / 0.85 for each in found)
    noise = fmean(each.noise for each in found)
    return {
        "degraded by 15 % or more": f"{slowed} of {len(found)}",
        "noise of the truth": f"{100 * noise:.1f} %",
        **shown,
    }


def _error(estimates: Sequence[float], truths: Sequence[float]) -> str:
    errors = [abs(one / other - 1) for one, other in zip(estimates, truths, strict=True)]
    return f"{100 * fmean(errors):.1f} %"
