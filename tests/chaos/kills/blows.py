"""Processes that are killed or stopped in the middle of a run, which must not change its
results."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kafka.errors import KafkaError
from redis.exceptions import RedisError

from cli.believing_servers import RunningServers
from cli.processes import EMULATOR, MODULES, PLANNER, TOGETHER
from cli.rotation import Rotation
from cli.security import Security
from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from lab.demo.run import PATIENCE_S, write_files
from lab.demo.servers import playing
from shared.process.refusals import RefusedError

SERVERS: Final = ("kafka", "redis")
TARGETS: Final = (*MODULES, EMULATOR, *SERVERS)
# Where services share processes.
SHARED_TARGETS: Final = (*TOGETHER, EMULATOR)
# No process: all of a secure run's are renewed.
CREDENTIALS: Final = "credentials"
# Where plans are followed: who proposes, and who sequences and decides, each of two workers.
OF_PLANS: Final = (PLANNER, "placement", "placement-2")
# Of a rotation.
_STEPS: Final = 5
# A round takes about so long: the moment within it is drawn too.
_ROUND_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Blow:
    """A process is killed once `after_jobs` jobs have finished and `pause_s` have passed; with
    `stopped_s` it is only stopped, for so long. CREDENTIALS are rotated, and behind each step of it
    the next of `amid` is killed.

    Jobs, not seconds, place it in the middle of a run at any speed of the machine.
    """

    target: str
    after_jobs: int
    pause_s: float
    stopped_s: float = 0.0
    amid: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.target == CREDENTIALS:
            killed = f", killing {', '.join(self.amid)} between its steps" if self.amid else ""
            return f"rotate credentials {self.pause_s:.3f} s after job {self.after_jobs}{killed}"
        what = f"stop for {self.stopped_s:g} s" if self.stopped_s else "kill -9"
        return f"{what} {self.target} {self.pause_s:.3f} s after job {self.after_jobs}"


def run(
    options: DemoOptions,
    servers: LocalServers,
    blows: Sequence[Blow],
    tell: Callable[[str], None],
    security: Security | None = None,
) -> None:
    """Play a run while blows fall, and write its files.

    Raises StalledRunError when it does not get on, WrongAccountsError, or UndealtBlowsError.
    """
    with playing(options, servers, security) as system:
        chaos = _Chaos(servers, blows, tell, security)
        system.topics.follow(chaos, PATIENCE_S)
        chaos.require_over()
        write_files(system.topics, options.out)


def draw(
    targets: Sequence[str], jobs: int, count: int, seed: int, stopped_s: float = 0.0
) -> list[Blow]:
    """`count` blows at drawn targets and moments in the middle of a run, in the order of time."""
    rng = Random(f"{targets} {seed}")
    moments = sorted(rng.sample(range(jobs // 10, 8 * jobs // 10), count))
    return [
        Blow(rng.choice(targets), moment, rng.uniform(0, _ROUND_S), stopped_s) for moment in moments
    ]


def on_each(targets: Sequence[str], jobs: int, count: int, seed: int) -> list[Blow]:
    """`count` blows at each of these, at drawn moments, in the order of time."""
    blows = [blow for target in targets for blow in draw([target], jobs, count, seed)]
    return sorted(blows, key=lambda blow: blow.after_jobs)


def rotation_amid_kills(targets: Sequence[str], after_jobs: int, seed: int) -> Blow:
    """New credentials, and one of these that is drawn killed behind each of the five steps: among
    them the holders of the passwords."""
    rng = Random(f"{targets} {seed}")
    others = [target for target in targets if target not in SERVERS]
    amid = [*SERVERS, *rng.sample(others, _STEPS - len(SERVERS))]
    return Blow(CREDENTIALS, after_jobs, 0.0, amid=tuple(rng.sample(amid, _STEPS)))


class UndealtBlowsError(RuntimeError):
    """A run was over before all of its blows had fallen."""


class _Chaos:
    """Notified of finished jobs, it strikes when a blow is due."""

    def __init__(
        self,
        servers: LocalServers,
        blows: Sequence[Blow],
        tell: Callable[[str], None],
        security: Security | None,
    ) -> None:
        self._servers = servers
        self._security = security
        self._due = list(blows)
        self._tell = tell
        self._finished = 0

    def require_over(self) -> None:
        """Raise UndealtBlowsError unless every blow has fallen."""
        if self._due:
            raise UndealtBlowsError(f"the run was over before: {', '.join(map(str, self._due))}")

    def __call__(self, finished: int) -> None:
        """So many more jobs have finished."""
        self._finished += finished
        while self._due and self._due[0].after_jobs <= self._finished:
            self._strike(self._due.pop(0))

    def _strike(self, blow: Blow) -> None:
        if blow.target == CREDENTIALS:
            return self._rotate(blow)
        self._servers.wait_ready(blow.target)
        time.sleep(blow.pause_s)
        self._tell(f"{blow} ({self._finished} have finished)")
        if not blow.stopped_s:
            return self._servers.kill(blow.target)
        self._servers.kill(blow.target, signal.SIGSTOP)
        time.sleep(blow.stopped_s)
        return self._servers.kill(blow.target, signal.SIGCONT)

    def _rotate(self, blow: Blow) -> None:
        if self._security is None:
            raise ValueError("only a secure run has credentials")
        time.sleep(blow.pause_s)
        self._tell(f"{blow} ({self._finished} have finished)")
        rotation = Rotation(self._security, RunningServers(self._security, self._servers))
        victims = list(blow.amid)

        def told(step: str) -> None:
            self._tell(step)
            if victims:
                self._servers.wait_ready(victims[0])
                self._servers.kill(victims.pop(0))

        for _ in range(len(victims)):
            try:
                return rotation.run(told)
            except (KafkaError, RedisError, RefusedError, OSError) as error:
                # As an operator does.
                self._tell(f"rotate again: {error}")
                for server in SERVERS:
                    self._servers.wait_ready(server)
        return rotation.run(told)
