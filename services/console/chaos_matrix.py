"""Every process killed, and every stateful one stopped beyond its session, run by run."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from deploy.local.servers import LocalServers
from services.console.chaos import TARGETS, Blow, draw, run
from services.console.demo.parity import first_difference
from services.console.demo.run import run_embedded
from services.console.options import DemoOptions
from services.console.servers import STATEFUL
from shared.runtime.folders import within
from shared.runtime.settings import Settings

# A stopped worker is given up after its session; it comes back when another has its units.
_SESSIONS_STOPPED: Final = 1.5


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the matrix. `workers` is how many processes each stateful service has."""

    target: str
    seed: int
    workers: int
    blows: tuple[Blow, ...]

    @property
    def name(self) -> str:
        """A folder's name."""
        what = "stopped" if self.blows[0].stopped_s else "killed"
        return f"{self.target}-{what}-{self.seed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a trial came to; `difference` is from the run that nobody disturbed."""

    trial: Trial
    difference: str | None
    duration_s: float


def trials(jobs: int, kills: int, repeats: int, session_s: float) -> list[Trial]:
    """`repeats` runs with `kills` for each process, and one with a stop for each stateful one."""
    stopped_s = _SESSIONS_STOPPED * session_s
    seeds = range(1, repeats + 1)
    killed = [
        Trial(target, seed, 1, tuple(draw([target], jobs, kills, seed)))
        for target in TARGETS
        for seed in seeds
    ]
    stopped = [
        Trial(target, seed, 2, tuple(draw([target, f"{target}-2"], jobs, 2, seed, stopped_s)))
        for target in STATEFUL
        for seed in seeds
    ]
    return killed + stopped


def play(
    options: DemoOptions, every: Iterable[Trial], run_dir: Path, console: Console
) -> list[Outcome]:
    """Play all trials on one Kafka and Redis, and compare each with the embedded run."""
    alone = replace(options, out=within(options.out, "embedded"))
    run_embedded(alone, console)
    with LocalServers(run_dir) as servers:
        return [_play(trial, options, alone.out, servers, console.print) for trial in every]


def table(outcomes: Iterable[Outcome]) -> Table:
    """The matrix as people read it."""
    rows = Table("process", "seed", "workers", "blows", "result", "s", title="chaos")
    for outcome in outcomes:
        trial = outcome.trial
        rows.add_row(
            trial.target,
            str(trial.seed),
            str(trial.workers),
            "\n".join(map(str, trial.blows)),
            outcome.difference or "same files",
            f"{outcome.duration_s:.0f}",
        )
    return rows


def session_timeout_s() -> float:
    """The session of the services' processes, which read the same environment."""
    return Settings().session_timeout_s


def _play(
    trial: Trial,
    options: DemoOptions,
    expected: Path,
    servers: LocalServers,
    tell: Callable[[str], None],
) -> Outcome:
    tell(f"{trial.name}:")
    began_s = time.monotonic()
    struck = replace(options, out=within(options.out, trial.name), workers=trial.workers)
    run(struck, servers, trial.blows, tell)
    difference = first_difference(expected, struck.out)
    return Outcome(trial, difference, time.monotonic() - began_s)
