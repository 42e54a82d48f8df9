"""Pairs of kernels on this machine: slowdowns by shutters against those of long stretches."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final

from cli.profile.kernels import compile_kernels
from coplace_agent.adapters.pausing import Pauser
from coplace_agent.adapters.processes import ProcessTree
from coplace_agent.meter import AgentMeter
from coplace_agent.settings import AgentSettings
from lab.papers.pricing.discounts import discounts
from lab.papers.pricing.kernels import WARM_S, Kernel, agent_beside, rates, running
from shared.models.shutters import (
    Shutter,
    filtered_slowdown,
    interference,
    unfiltered_slowdown,
)

_STRETCH_S: Final = 0.4
_ROUNDS: Final = 5
# Both kernels on both cores, or each on a core of its own.
BOTH: Final = ((0, 1), (0, 1))
APART: Final = ((0,), (1,))
PAIRS: Final = (
    *(("triad", "gather", cores) for cores in (APART, BOTH)),
    *(("triad", "matrix", cores) for cores in (APART, BOTH)),
    *(("gather", "sort", cores) for cores in (APART, BOTH)),
    *(("compress", "triad", cores) for cores in (APART, BOTH)),
    *(("pages", "matrix", cores) for cores in (APART, BOTH)),
    *(("pages", "triad", cores) for cores in (APART, BOTH)),
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


def measured(seconds: float) -> Iterator[Measured]:
    """Measure all pairs, each shuttered for so long."""
    with tempfile.TemporaryDirectory() as folder:
        program = compile_kernels(Path(folder))
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
        both = [
            stack.enter_context(running(program, folder / f"beats-{place}", name, cores[place]))
            for place, name in enumerate(names)
        ]
        agent = stack.enter_context(agent_beside(settings, both))
        time.sleep(WARM_S)
        truths = _truths(both, agent.pauser)
        agent.work(AgentMeter(), seconds)
        told = {event.shutters_measured.job_id: event for _, event in agent.spool.waiting()}
    for kernel, beside in (both, both[::-1]):
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


def _truths(kernels: Sequence[Kernel], pauser: Pauser) -> dict[int, tuple[float, float]]:
    """T_co / T_solo of each, and the standard deviation of its own mean, from stretches alone and
    together by turns: the two of a round lie beside each other."""
    trees = {kernel.pid: ProcessTree(kernel.pid) for kernel in kernels}
    ratios: dict[int, list[float]] = {kernel.pid: [] for kernel in kernels}
    for _ in range(_ROUNDS):
        together = rates(kernels, _STRETCH_S)
        for kernel in kernels:
            others = [tree for pid, tree in trees.items() if pid != kernel.pid]
            with pauser.paused(others):
                [alone] = rates([kernel], _STRETCH_S)
            ratios[kernel.pid].append(alone / together[kernels.index(kernel)])
    return {
        pid: (median(each), stdev(each) / len(each) ** 0.5 / median(each))
        for pid, each in ratios.items()
    }


def tables(seconds: float) -> list[tuple[str, list[Mapping[str, str]]]]:
    """Return all pairs, their errors and their prices."""
    found = list(measured(seconds))
    return [
        ("pairs", rows(found)),
        ("pairs-errors", summary(found)),
        ("pairs-prices", prices(found)),
    ]


def rows(found: Sequence[Measured]) -> list[Mapping[str, str]]:
    """Return rows as a table shows them."""
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
    """Return mean absolute errors of the predicted runtime, by threads."""
    return [{"jobs": name, **_errors(group)} for name, group in _groups(found)]


def prices(found: Sequence[Measured]) -> list[Mapping[str, str]]:
    """Return what they pay over what they would pay alone, by threads."""
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
