"""Every process killed, and every stateful one stopped beyond its session, run by run."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.demo.accounts import WrongAccountsError
from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from cli.demo.run import run_embedded
from cli.demo.servers import STATEFUL
from cli.kafka_topics import StalledRunError
from cli.telling import TABLE_WIDTH
from deploy.local.errors import LocalServersError
from deploy.local.servers import LocalServers
from shared.runtime.folders import within, written
from shared.runtime.settings import Settings
from tests.chaos.kills.blows import TARGETS, Blow, UndealtBlowsError, draw, run

SAME: Final = "same files"
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
) -> Iterator[Outcome]:
    """Play all trials on one Kafka and Redis, and compare each with the embedded run; what came of
    each as soon as it is over."""
    alone = replace(options, out=within(options.out, "embedded"))
    run_embedded(alone, console)
    with LocalServers(run_dir) as servers:
        for trial in every:
            yield _play(trial, options, alone.out, servers, console.print)


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """The matrix as far as it is known, as Markdown."""
    console = Console(width=TABLE_WIDTH)
    with console.capture() as captured:
        console.print(table(outcomes))
    with written(path) as fresh:
        fresh.write_text(captured.get(), encoding="utf-8")


def table(outcomes: Iterable[Outcome]) -> Table:
    """The matrix as people read it, in Markdown."""
    rows = Table("process", "seed", "workers", "blows", "result", "s", box=MARKDOWN)
    for outcome in outcomes:
        trial = outcome.trial
        rows.add_row(
            trial.target,
            str(trial.seed),
            str(trial.workers),
            ", ".join(map(str, trial.blows)),
            outcome.difference or SAME,
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
    difference = _difference(struck, expected, trial, servers, tell)
    duration_s = time.monotonic() - began_s
    tell(f"{trial.name}: {difference or SAME} after {duration_s:.0f} s")
    return Outcome(trial, difference, duration_s)


def _difference(
    struck: DemoOptions,
    expected: Path,
    trial: Trial,
    servers: LocalServers,
    tell: Callable[[str], None],
) -> str | None:
    """A run that does not come to its end is a result too: the others are still played."""
    try:
        run(struck, servers, trial.blows, tell)
    except (StalledRunError, UndealtBlowsError, WrongAccountsError, LocalServersError) as error:
        return f"{type(error).__name__}: {error}"
    return first_difference(expected, struck.out)
