"""The processes of the services: members of their groups that crash, stall and come back."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from shared.messaging.codec import Codec
from shared.messaging.embedded import EmbeddedRuntime
from shared.messaging.hooks import Hooks
from shared.messaging.memory import FencedError, InMemoryLog
from shared.messaging.stage import RoundSource, Stage
from shared.messaging.unit import EventTimeLimit
from tests.chaos.clock import Clock
from tests.chaos.journal import Death, Journal


class KilledError(Exception):
    """Ends a worker where a process would be killed."""


class Fate(Enum):
    """What befalls a worker the next time that it reaches a point."""

    CRASH = "crash"
    STALL = "stall"


# How often in a row a service may end by the same error before it counts as dead: the quarantine
# needs some restarts to find what it fails on.
MOST_SAME_DEATHS: Final = 12


@dataclass(frozen=True, slots=True)
class Plant:
    """What the workers of one simulated region share. `while_stalled` lets the others go on."""

    log: InMemoryLog
    codec: Codec
    clock: Clock
    journal: Journal
    while_stalled: Callable[[], None]


class Worker:
    """One process: a member of the groups of its service's stages."""

    def __init__(self, plant: Plant, service: str, name: str, stages: Sequence[Stage]) -> None:
        self.service, self.name = service, name
        self._plant = plant
        self._stages = stages
        self._clocked = [s.name for s in stages if s.rounds is RoundSource.CLOCK]
        self._armed: dict[str, Fate] = {}
        self._runtime: EmbeddedRuntime | None = None
        self.is_stalled = False
        self.is_doomed = False
        self._same_deaths = 0
        self._last_death = ""

    @property
    def is_up(self) -> bool:
        """Whether it works."""
        return self._runtime is not None and not self.is_stalled

    def arm(self, point: str, fate: Fate) -> None:
        """Let something befall it at a point."""
        self._armed[point] = fate

    def disarm(self) -> None:
        """Let it live."""
        self._armed.clear()

    def start(self) -> None:
        """The supervisor starts it, unless it works."""
        if self._runtime is not None:
            return
        now_us = self._plant.clock.wall_us(self.name)
        self._runtime = EmbeddedRuntime(
            self._plant.log,
            self._stages,
            codec=self._plant.codec,
            member=self.name,
            limit=EventTimeLimit.of_wall_clock(now_us),
            hooks=Hooks(step=self),
        )

    def step(self) -> bool:
        """One batch of each of its units; False when there was nothing to do."""
        return self._work(lambda runtime, now_us: runtime.step(now_us))

    def close_rounds(self) -> None:
        """The end of a round in each stage whose rounds a clock closes."""

        def close(runtime: EmbeddedRuntime, now_us: int) -> bool:
            for stage in self._clocked:
                runtime.close_rounds(stage, now_us)
            return True

        self._work(close)

    def kill(self, *, is_expelled: bool) -> None:
        """End it at once. It stays a member of its groups until its session ends."""
        if self._runtime is not None:
            self._end()
            if is_expelled:
                self._expel()

    def reached(self, point: str) -> None:
        """Called by the driver between the steps of a commit."""
        fate = self._armed.pop(point, None)
        if fate is None:
            return
        self._plant.journal.faults[f"{fate.value} when {point}"] += 1
        if fate is Fate.CRASH:
            raise KilledError(point)
        self._stall()

    def _work(self, what: Callable[[EmbeddedRuntime, int], bool]) -> bool:
        if self._runtime is None or self.is_stalled:
            return False
        try:
            busy = what(self._runtime, self._plant.clock.wall_us(self.name))
        except (KilledError, FencedError):
            self.kill(is_expelled=True)
            return True
        except Exception as error:  # noqa: BLE001 a process ends by any error
            self._die(error)
            return True
        self._same_deaths = 0
        if self.is_doomed:
            self.is_doomed = False
            self.kill(is_expelled=True)
        return busy

    def _stall(self) -> None:
        """The others take over meanwhile. Who comes back and was not fenced has lost its session
        and joins anew."""
        self._expel()
        self.is_stalled = True
        self._plant.while_stalled()
        self.is_stalled = False
        self.is_doomed = True

    def _die(self, error: Exception) -> None:
        trace = "".join(traceback.format_exception(error))
        death = Death(self.service, repr(error)[:300], trace, self._plant.clock.now_us)
        self._plant.journal.deaths.append(death)
        self._same_deaths += 1
        self.kill(is_expelled=True)
        if self._same_deaths == MOST_SAME_DEATHS:
            self._plant.journal.violations.append(
                f"no stage is dead: {self.service} ends again and again by {death.error}\n{trace}"
            )

    def _end(self) -> None:
        """Nobody answers any more for what it had."""
        self._runtime = None
        for stage in self._stages:
            stage.given_up(0)

    def _expel(self) -> None:
        for stage in self._stages:
            self._plant.log.leave(stage.name, self.name)
