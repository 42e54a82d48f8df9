"""The operator of a region: acts as the how-tos say, by what the system shows."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Final

from cli.seize import NothingToSeizeError, seizure
from shared.streams.restoring.unit_repair import accept, replay
from shared.streams.stages.consistency import MEND_CLOCK, InconsistentError, ahead_of_clock
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit_state import closed_at_us
from tests.chaos.managers import Grant
from tests.chaos.restoring import mend, mend_clock

if TYPE_CHECKING:
    from tests.chaos.world import World

SOURCE: Final = "chaos"


class Operator:
    """Repairs what stages refuse, as they advise, and takes back what resource managers will never
    report on."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._gone: dict[Grant, None] = {}

    def act(self) -> None:
        """Do what is to be done by now."""
        self._seize()
        for service, stages in reversed(self._world.stages.items()):
            for stage in reversed(stages):
                self._mend(service, stage)
        if self._world.accounts.refused:
            self._world.accounts.rebuild()

    def vouch(self, gone: Iterable[Grant]) -> None:
        """These neither run nor will start: their nodes lost their power."""
        self._gone.update(dict.fromkeys(gone))

    def _seize(self) -> None:
        """As `coplace seize` does: placement is asked first, and only what it shows is seized. A
        start whose report is late shows later."""
        for grant in list(self._gone):
            found = self._world.explain(grant[0])
            if found is None or (found.job_id, found.attempt, found.allocation.grant) != grant:
                continue
            try:
                event = seizure(found, "no power", SOURCE, self._world.clock.now_us)
            except NothingToSeizeError:
                continue
            self._world.network.send(event)
            del self._gone[grant]

    def _mend(self, service: str, stage: Stage) -> None:
        """What the processes say when they refuse a stage is done. Clocks are set right first."""
        refused = [worker.refused.get(stage.name) for worker in self._world.workers]
        advice = {found.advice for error in refused if error for found in error.found}
        if MEND_CLOCK in advice:
            self._mend_clocks()
        elif advice:
            self._restore(service, stage, advice)

    def _mend_clocks(self) -> None:
        world = self._world
        now_us, tolerance_us = world.clock.now_us, world.deployment.limit.round_ahead_us

        def is_ahead(state: Mapping[str, bytes]) -> bool:
            return bool(ahead_of_clock(closed_at_us(state), now_us, tolerance_us))

        if world.clock.wrong_us:
            return
        for stage in chain(*world.stages.values()):
            with suppress(InconsistentError):
                mend_clock(world.log, world.codec.topics, stage, is_ahead, now_us)

    def _restore(self, service: str, stage: Stage, advice: Collection[str]) -> None:
        """As docs/how-to/restore.md says: without the processes of the stage."""
        world, is_lost = self._world, any("coplace restore replay" in one for one in advice)
        world.stop(service)
        world.journal.mended[stage.name] += 1
        stages = [*chain(*world.stages.values())]
        for how in (replay,) if is_lost else (accept, replay):
            try:
                mend(world.log, world.codec, stages, stage, how)
                return
            except InconsistentError:
                pass  # it says so: another unit has no state, or a follower is to be repaired first
