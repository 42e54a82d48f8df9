"""One play: a region opens, everybody acts and lies, then all that runs ends, and the auditor
judges."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from coplace.v1.jobs_pb2 import JobCancelled, JobResumed

from tests.chaos.clock import SECOND_US
from tests.chaos.managers import Temper
from tests.chaos.rights.audit import Auditor
from tests.chaos.rights.cast import OPERATOR
from tests.chaos.rights.lawful import LAWFUL, open_region
from tests.chaos.rights.lies import LIES
from tests.chaos.rights.region import Act, Region

EVENTS_A_PLAY: Final = 1_500
_MOST_SETTLING: Final = 60
_QUIET_PERIODS: Final = 4
_PERIOD_US: Final = 120 * SECOND_US
_LAGS_US: Final = (0, 0, SECOND_US, 60 * SECOND_US)

Doing = Callable[[Region], None]


@dataclass(frozen=True, slots=True)
class PlayReport:
    """What came of a play; `events` are those that reached the door."""

    seed: int
    events: int
    violations: tuple[str, ...]
    acts: Counter[tuple[Act, bool]]
    checks: int
    runs: int
    unjust: Counter[tuple[str, str]]


class Play:
    """Plays one seed until so many events reached the door; `lies` are those that are reported."""

    def __init__(
        self, seed: int, events: int = EVENTS_A_PLAY, lies: Mapping[Doing, float] = LIES
    ) -> None:
        self.seed, self._events = seed, events
        self._rng = Random(seed)
        self.region = Region(self._rng, self._rng.choice(_LAGS_US))
        self._doings = {**LAWFUL, **lies}
        self._auditor = Auditor(self.region)

    def run(self) -> PlayReport:
        """The whole of it; it ends at the first violation."""
        region = self.region
        try:
            open_region(region)
            region.let_pass(SECOND_US)
            found = self._act()
            if not found:
                self._calm()
                found = self._settle() or list(self._auditor.close())
            return PlayReport(
                seed=self.seed,
                events=region.mail.delivered,
                violations=tuple(dict.fromkeys(found)),
                acts=region.mail.acts,
                checks=self._auditor.checks,
                runs=len(region.journal.runs),
                unjust=region.mail.unjust,
            )
        finally:
            region.close()

    def _act(self) -> Sequence[str]:
        region, rng = self.region, self._rng
        kinds, weights = list(self._doings), list(self._doings.values())
        while region.mail.delivered < self._events:
            for doing in rng.choices(kinds, weights, k=rng.choice([2, 5, 10, 30])):
                region.events += 1
                doing(region)
            for _ in range(rng.choice([1, 1, 2])):
                region.let_pass(rng.choice([SECOND_US, 60 * SECOND_US, 300 * SECOND_US]))
            if rng.random() < 0.01:
                rng.choice(region.workers).kill(is_expelled=True)
                for worker in region.workers:
                    worker.start()
            if found := list(self._auditor.look()):
                return found
        return ()

    def _calm(self) -> None:
        """Nobody hinders anybody, and the operator has what waits cancelled."""
        region, now_us = self.region, self.region.clock.now_us
        for manager in region.managers.found.values():
            manager.temper = Temper(requeues=0.0, declines=0.0, refuses=0.0)
        ended = {job_id for job_id, _ in region.journal.finishes}
        standing = {run.job_id for run in region.journal.runs if run.ended_us is None}
        for job_id in dict.fromkeys([*region.journal.submissions, *region.journal.own]):
            region.ordered.add(job_id)
            if job_id in standing:
                resumed = JobResumed(job_id=job_id, resumed_at_us=now_us)
                region.say(OPERATOR, "resume", is_rightful=True, job_resumed=resumed)
            elif job_id not in ended:
                told = JobCancelled(job_id=job_id, cancelled_at_us=now_us)
                region.say(OPERATOR, "cancel", is_rightful=True, job_cancelled=told)

    def _settle(self) -> Sequence[str]:
        """Until nothing runs any more and all that waited for its charge has one."""
        region, quiet = self.region, 0
        for _ in range(_MOST_SETTLING):
            region.settle(_PERIOD_US)
            if found := list(self._auditor.look()):
                return found
            for manager in region.managers.found.values():
                manager.end_all()
            idle = all(manager.is_idle for manager in region.managers.found.values())
            is_over = idle and region.network.is_empty and not region.unheard
            quiet = quiet + 1 if is_over else 0
            if quiet == _QUIET_PERIODS:
                return ()
        return ["all ends: something runs after two hours in which all was to end"]
