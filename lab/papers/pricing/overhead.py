"""What the agent costs the jobs of this machine: by equation 10, as they were stopped, and as they
got on with it and without."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import psutil

from cli.profile.kernels import compile_kernels
from coplace_agent.meter import AgentMeter
from coplace_agent.model import Timing, dilation_ratio
from coplace_agent.settings import AgentSettings
from lab.papers.pricing.kernels import (
    WARM_S,
    Agent,
    Kernel,
    Stretch,
    agent_beside,
    rates,
    running,
)
from lab.papers.pricing.pairs import APART, BOTH

_KERNELS: Final = ("gather", "triad")
_BUDGETS: Final = (0.01, 0.005)
_ROUNDS: Final = 8


class _Tally(AgentMeter):
    """What an agent counts, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.shutters = 0
        self.paused_s = 0.0
        self.shared_s = 0.0
        self.by_model_ratio: list[float] = []

    def shutter(self, jobs: int, pause_s: float, timing: Timing) -> None:
        self.shutters += 1
        self.paused_s += (jobs - 1) * pause_s
        self.by_model_ratio.append(dilation_ratio(jobs, pause_s, timing.period_s))

    def shared(self, jobs: int, time_s: float) -> None:
        self.shared_s += jobs * time_s


def rows(seconds: float) -> Iterator[Mapping[str, str]]:
    """Yield rows by budget and cores; `seconds` with the agent and as many without, in rounds by
    turns."""
    with tempfile.TemporaryDirectory() as folder:
        program = compile_kernels(Path(folder))
        for place, cores in (("a core each", APART), ("two threads, both cores", BOTH)):
            for budget in _BUDGETS:
                here = Path(folder, f"{len(cores[0])}-{budget}")
                here.mkdir()
                yield {"jobs": place, **_measured(program, here, cores, budget, seconds)}


def _measured(
    program: Path,
    folder: Path,
    cores: tuple[Sequence[int], Sequence[int]],
    budget: float,
    seconds: float,
) -> Mapping[str, str]:
    """Two kernels beside an agent of the paper's S, P and K."""
    settings = AgentSettings(
        run_dir=folder / "run", spool_dir=folder / "spool", overhead=budget, source="bench"
    )
    with ExitStack() as stack:
        kernels = [
            stack.enter_context(running(program, folder / f"beats-{place}", name, cores[place]))
            for place, name in enumerate(_KERNELS)
        ]
        agent = stack.enter_context(agent_beside(settings, kernels))
        time.sleep(WARM_S)
        return {"budget": f"{100 * budget:.1f} %", **_compared(agent, kernels, seconds)}


def _compared(agent: Agent, kernels: Sequence[Kernel], seconds: float) -> Mapping[str, str]:
    tally = _Tally()
    watchdog = psutil.Process(agent.watchdog.pid)
    ratios, cpu_s = [], 0.0
    for _ in range(_ROUNDS):
        before = rates(kernels, seconds / _ROUNDS / 2)
        began_s = _cpu_s(watchdog)
        stretch = Stretch(kernels)
        agent.work(tally, seconds / _ROUNDS)
        beside = stretch.rates()
        cpu_s += _cpu_s(watchdog) - began_s
        after = rates(kernels, seconds / _ROUNDS / 2)
        alone = [fmean(each) for each in zip(before, after, strict=True)]
        ratios += [one / other for one, other in zip(alone, beside, strict=True)]
    noise = stdev(ratios) / len(ratios) ** 0.5
    node_s = seconds * (os.cpu_count() or 1)
    return {
        "shutters": str(tally.shutters),
        "by equation 10": f"{100 * (fmean(tally.by_model_ratio) - 1):.2f} %",
        "paused": f"{100 * tally.paused_s / tally.shared_s:.2f} %",
        "got on less": f"{100 * (fmean(ratios) - 1):.2f} ± {100 * noise:.2f} %",
        "agent's own time": f"{100 * cpu_s / node_s:.2f} % of the node",
    }


def _cpu_s(watchdog: psutil.Process) -> float:
    """Of this process, in which the agent works, and of its watchdog."""
    times = watchdog.cpu_times()
    return time.process_time() + times.user + times.system
