"""The processes of the services: members of their groups that crash, stall and return."""

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from coplace_client.clock import ClockJumpedError, GuardedClock
from shared.catalogue.codec import Codec
from shared.domain.rounds import RoundSource
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import FencedError, InMemoryLog
from shared.streams.stages.consistency import InconsistentError
from shared.streams.stages.hooks import Hooks
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import EventTimeLimit
from tests.chaos.clock import SECOND_US, Clock
from tests.chaos.journal import Death, Journal
from tests.support.deaths import SIMULATED, KilledError

SIMULATED.add(os.getpid())


class CrashedError(KilledError):
    """Ends a worker between two steps, by no fault of what it does."""


class Fate(Enum):
    """What befalls a worker the next time that it reaches a point."""

    CRASH = "crash"
    STALL = "stall"


# How often in a row a service may end by the same error before it counts as dead: the quarantine
# needs some restarts to find what it fails on.
MOST_SAME_DEATHS: Final = 12


# As often as in production: how soon data that were replaced under a stage are noticed, and how
# soon one that is refused looks again.
_CHECK_US: Final = 10 * SECOND_US
_LOOK_AGAIN_US: Final = 5 * SECOND_US


@dataclass(frozen=True, slots=True)
class Plant:
    """What the workers of one simulated region share. `while_stalled` lets the others go on."""

    log: InMemoryLog
    codec: Codec
    limit: EventTimeLimit
    clock: Clock
    journal: Journal
    rng: Random
    while_stalled: Callable[[], None]


class Worker:
    """One process: a member of the groups of its service's stages, on a host with a wall clock."""

    def __init__(self, plant: Plant, service: str, name: str, stages: Sequence[Stage]) -> None:
        self.service, self.name = service, name
        self.stages = stages
        self._plant = plant
        self._armed: dict[str, Fate] = {}
        self._runtimes: dict[str, EmbeddedRuntime] = {}
        self._clock: GuardedClock | None = None
        self._next_check_us = 0
        self._look_again_us: dict[str, int] = {}
        self.refused: dict[str, InconsistentError] = {}
        self.is_stalled = False
        self.is_doomed = False
        self._same_deaths = 0

    @property
    def is_up(self) -> bool:
        """Whether it works."""
        return self._clock is not None and not self.is_stalled

    def arm(self, point: str, fate: Fate) -> None:
        """Let something befall it at a point."""
        self._armed[point] = fate

    def disarm(self) -> None:
        """Let it live."""
        self._armed.clear()

    def start(self) -> None:
        """The supervisor starts it, unless it works."""
        if self._clock is not None or self._plant.clock.is_far_ahead(self.name):
            return
        self._clock = self._plant.clock.guarded(self.name)
        for stage in self.stages:
            self._join(stage)

    def step(self) -> bool:
        """One batch of each of its units; False when there was nothing to do."""
        return self._work(lambda _stage, runtime, now_us: runtime.step(now_us))

    def close_rounds(self) -> None:
        """The end of a round in each stage whose rounds a clock closes."""

        def close(stage: Stage, runtime: EmbeddedRuntime, now_us: int) -> bool:
            if stage.rounds is RoundSource.CLOCK:
                runtime.close_rounds(stage.name, now_us)
            return True

        self._work(close)

    def kill(self, *, is_expelled: bool) -> None:
        """End it at once. Unless its session ends with it, it stays a member of its groups and its
        transaction stays open: nobody takes its units over before it is started again."""
        if self._clock is not None:
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
            raise CrashedError(point)
        self._stall()

    def _work(self, what: Callable[[Stage, EmbeddedRuntime, int], bool]) -> bool:
        if self._clock is None or self.is_stalled:
            return False
        try:
            busy = self._work_by(self._clock, what)
        except CrashedError:
            self.kill(is_expelled=self._plant.rng.random() < 0.5)
            return True
        except (FencedError, ClockJumpedError):
            self.kill(is_expelled=True)
            return True
        except (KilledError, Exception) as error:  # noqa: BLE001 a process ends by any error
            self._die(error)
            return True
        self._same_deaths = 0
        if self.is_doomed:
            self.is_doomed = False
            self.kill(is_expelled=True)
        return busy

    def _work_by(
        self, clock: GuardedClock, what: Callable[[Stage, EmbeddedRuntime, int], bool]
    ) -> bool:
        now_us = clock.now_us()
        clock.check()
        self._look_again(now_us)
        is_due, busy = now_us >= self._next_check_us, False
        for stage in self.stages:
            runtime = self._runtimes.get(stage.name)
            try:
                if runtime is not None:
                    if is_due:
                        runtime.check()
                    busy |= what(stage, runtime, now_us)
            except InconsistentError as error:
                self._refuse(stage, error, now_us)
        if is_due:
            self._next_check_us = now_us + _CHECK_US
        return busy

    def _refuse(self, stage: Stage, error: InconsistentError, now_us: int) -> None:
        """The stage does not work, the others of the process do."""
        self._runtimes.pop(stage.name).leave()
        self.refused[stage.name] = error
        self._plant.journal.refusals.append(str(error))
        self._look_again_us[stage.name] = now_us + _LOOK_AGAIN_US

    def _look_again(self, now_us: int) -> None:
        for stage in self.stages:
            if self._look_again_us.get(stage.name, now_us + 1) <= now_us:
                del self._look_again_us[stage.name], self.refused[stage.name]
                self._join(stage)

    def _join(self, stage: Stage) -> None:
        self._runtimes[stage.name] = EmbeddedRuntime(
            self._plant.log,
            [stage],
            codec=self._plant.codec,
            member=self.name,
            limit=self._plant.limit,
            hooks=Hooks(step=self),
        )

    def _stall(self) -> None:
        """The others take over meanwhile. One that returns and was not fenced has lost its session
        and joins anew."""
        self._expel()
        self.is_stalled = True
        self._plant.while_stalled()
        self.is_stalled = False
        self.is_doomed = True

    def _die(self, error: BaseException) -> None:
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
        self._clock, self._next_check_us = None, 0
        self._runtimes.clear()
        self.refused.clear()
        self._look_again_us.clear()
        for stage in self.stages:
            stage.given_up(0)

    def _expel(self) -> None:
        for stage in self.stages:
            self._plant.log.leave(stage.name, self.name)
