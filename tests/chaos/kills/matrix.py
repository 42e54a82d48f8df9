"""Every process killed, every stateful one stopped beyond its session, clocks that jump, data that
operators replace and topics that grow, run by run."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from cli.kafka_topics import StalledRunError
from cli.notes import TABLE_WIDTH
from cli.processes import STATEFUL
from cli.security import Security
from coplace_client.files import write_whole
from deploy.local.errors import LocalServersError
from deploy.local.servers import LocalServers
from lab.demo.accounts import WrongAccountsError
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from lab.demo.run import run_embedded
from lab.demo.servers import new_namespace
from shared.process.folders import path_within
from shared.process.settings import Settings
from tests.chaos.kills.blows import (
    CREDENTIALS,
    OF_PLANS,
    SHARED_TARGETS,
    TARGETS,
    Blow,
    UndealtBlowsError,
    draw,
    on_each,
    rotation_amid_kills,
    run,
)
from tests.chaos.kills.region import StuckRegionError
from tests.chaos.kills.upheavals import Upheaval, upheavals
from tests.chaos.kills.upheavals import play as play_upheaval

SAME: Final = "same files"
EVERYTHING: Final = "everything"
BALANCED: Final = "each job started and charged once"
Servers = Callable[[], AbstractContextManager[tuple[LocalServers, Security | None]]]
# A stopped worker is given up after its session; it returns when another has its units.
_SESSIONS_STOPPED: Final = 1.5


@dataclass(frozen=True, slots=True)
class Venue:
    """Where trials are played: `options` of an undisturbed run, the folder of its files, and the
    servers: one Kafka and Redis for all, or of a secure run new ones for each."""

    options: DemoOptions
    undisturbed: Path
    servers: Servers
    tell: Callable[[str], None]


class Trial(Protocol):
    """One run of the matrix. `workers` is how many processes each stateful service has."""

    @property
    def target(self) -> str:
        """What it happens to."""
        ...

    @property
    def seed(self) -> int:
        """Of what it draws."""
        ...

    @property
    def workers(self) -> int:
        """How many processes each stateful service has."""
        ...

    @property
    def name(self) -> str:
        """A folder's name."""
        ...

    @property
    def what(self) -> str:
        """What happens."""
        ...

    @property
    def expected(self) -> str:
        """Its result when all is right."""
        ...

    def play(self, venue: Venue) -> str | None:
        """How the run differs from what is expected; None when it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Struck:
    """A demo whose processes are killed or stopped, which must write the same files."""

    target: str
    seed: int
    workers: int
    blows: tuple[Blow, ...]
    # Whether services share processes.
    together: bool = False

    @property
    def name(self) -> str:
        """A folder's name."""
        what = "stopped" if self.blows[0].stopped_s else "killed"
        if self.target == CREDENTIALS:
            what = "rotated"
        shared = "-shared" if self.together else ""
        return f"{self.target}{shared}-{what}-{self.seed}"

    @property
    def what(self) -> str:
        """The blows, in their order."""
        return ", ".join(map(str, self.blows))

    @property
    def expected(self) -> str:
        """Nothing of a run depends on what its processes suffer."""
        return SAME

    def play(self, venue: Venue) -> str | None:
        """The first difference from the run that nobody disturbed."""
        out = path_within(venue.options.out, self.name)
        struck = replace(venue.options, out=out, workers=self.workers, together=self.together)
        with venue.servers() as (servers, security):
            run(struck, servers, self.blows, venue.tell, security)
        return first_difference(venue.undisturbed, out)


@dataclass(frozen=True, slots=True)
class Overturned:
    """A region in production mode whose clocks or data are changed under it."""

    upheaval: Upheaval
    seed: int
    workers: int = 1

    @property
    def target(self) -> str:
        """What it happens to."""
        return self.upheaval.target

    @property
    def name(self) -> str:
        """What is printed of it."""
        return f"{self.target}, {self.what}, {self.seed}"

    @property
    def what(self) -> str:
        """What happens, and how it is repaired."""
        return str(self.upheaval)

    @property
    def expected(self) -> str:
        """What its books say."""
        return BALANCED

    def play(self, venue: Venue) -> str | None:
        """What is wrong with its books."""
        with venue.servers() as (servers, _):
            return play_upheaval(self.upheaval, servers, self.seed)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial; `difference` is from what is expected of it."""

    trial: Trial
    difference: str | None
    duration_s: float


def trials(
    jobs: int,
    kills: int,
    repeats: int,
    session_s: float,
    *,
    planned: bool = False,
    secure: bool = False,
) -> list[Trial]:
    """`repeats` runs with `kills` for each process, with stops for each stateful one, and of each
    upheaval; where plans are followed also of all who make and follow them together. Of secure
    runs credentials are rotated in place of the upheavals, and one has a blow of each kind."""
    stopped_s = _SESSIONS_STOPPED * session_s
    seeds = range(1, repeats + 1)
    killed = [
        Struck(target, seed, 1, tuple(draw([target], jobs, kills, seed)))
        for target in TARGETS
        for seed in seeds
    ]
    stopped = [
        Struck(target, seed, 2, tuple(draw([target, f"{target}-2"], jobs, 2, seed, stopped_s)))
        for target in STATEFUL
        for seed in seeds
    ]
    of_plans = [
        Struck("+".join(OF_PLANS), seed, 2, tuple(on_each(OF_PLANS, jobs, 1, seed)))
        for seed in seeds
        if planned
    ]
    rotated = [
        Struck(CREDENTIALS, seed, 1, tuple(draw([CREDENTIALS], jobs, 1, seed))) for seed in seeds
    ]
    if secure:
        of_all = [Struck(EVERYTHING, seed, 1, _of_everything(jobs, seed)) for seed in seeds]
        return [*of_plans, *of_all, *killed, *stopped, *rotated]
    shared = [
        Struck(target, seed, 1, tuple(draw([target], jobs, kills, seed)), together=True)
        for target in SHARED_TARGETS
        for seed in seeds
    ]
    overturned = [Overturned(upheaval, seed) for seed in seeds for upheaval in upheavals()]
    return [*of_plans, *killed, *shared, *stopped, *overturned]


def _of_everything(jobs: int, seed: int) -> tuple[Blow, ...]:
    """A kill of each, then new credentials with kills between their steps: the run goes on while
    these are made, and would be over before a kill that comes later."""
    kills = on_each(TARGETS, jobs, 1, seed)
    return (*kills, rotation_amid_kills(TARGETS, kills[-1].after_jobs, seed))


def play(
    options: DemoOptions, every: Iterable[Trial], run_dir: Path, console: Console
) -> Iterator[Outcome]:
    """Play all trials on one Kafka and Redis, and compare each with the embedded run; what came of
    each as soon as it is over."""
    alone = replace(options, out=path_within(options.out, "embedded"))
    run_embedded(alone, console)
    with ExitStack() as stack:
        servers: Servers = partial(secure_servers, run_dir)
        if not options.secure:
            shared = stack.enter_context(LocalServers(run_dir))
            servers = partial(_of_all, shared)
        venue = Venue(options, alone.out, servers, console.print)
        for trial in every:
            yield _play(trial, venue)


@contextmanager
def _of_all(servers: LocalServers) -> Iterator[tuple[LocalServers, None]]:
    yield servers, None


@contextmanager
def secure_servers(run_dir: Path) -> Iterator[tuple[LocalServers, Security]]:
    """New ones, with credentials for a namespace of their own."""
    security = Security(run_dir / new_namespace("secure"), new_namespace("secure"))
    security.prepare()
    with LocalServers(security.credentials.folder.parent, secure=security.redis) as servers:
        yield servers, security
    shutil.rmtree(servers.run_dir)


def write(outcomes: Sequence[Outcome], path: Path) -> None:
    """The matrix as far as it is known, as Markdown."""
    console = Console(width=TABLE_WIDTH)
    with console.capture() as captured:
        console.print(table(outcomes))
    with write_whole(path) as fresh:
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
            trial.what,
            outcome.difference or trial.expected,
            f"{outcome.duration_s:.0f}",
        )
    return rows


def session_timeout_s() -> float:
    """The session of the services' processes, which read the same environment."""
    return Settings().session_timeout_s


def _play(trial: Trial, venue: Venue) -> Outcome:
    venue.tell(f"{trial.name}:")
    began_s = time.monotonic()
    difference = _difference(trial, venue)
    duration_s = time.monotonic() - began_s
    venue.tell(f"{trial.name}: {difference or trial.expected} after {duration_s:.0f} s")
    return Outcome(trial, difference, duration_s)


def _difference(trial: Trial, venue: Venue) -> str | None:
    """A run that does not end is a result too: the others are still played."""
    try:
        return trial.play(venue)
    except (
        StalledRunError,
        StuckRegionError,
        UndealtBlowsError,
        WrongAccountsError,
        LocalServersError,
    ) as error:
        return f"{type(error).__name__}: {error}"
