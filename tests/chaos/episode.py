"""One run of a world from a seed: an adversary acts, then all is well, then the auditor judges."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final

from coplace.v1.control_pb2 import (
    ClusterReturned,
    LimitsDeclared,
    NodesResumed,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
)
from coplace.v1.jobs_pb2 import JobReleased, JobResumed

from tests.chaos import words
from tests.chaos.audit import violations
from tests.chaos.audit.evidence import Evidence
from tests.chaos.billing import BILLING, fund_all
from tests.chaos.clock import SECOND_US
from tests.chaos.declarations import DECLARATIONS
from tests.chaos.events import EVENTS, declare, publish
from tests.chaos.faults import ARMING, FAULTS, Fault
from tests.chaos.managers import Temper
from tests.chaos.neighbours import NEIGHBOURS
from tests.chaos.reservations import KEPT, remove_all
from tests.chaos.words import CAPPING, WORDS
from tests.chaos.world import Scale, World

EVENTS_AN_EPISODE: Final = 1_000
# Together the quiet periods are longer than a start may go unconfirmed and a charge waits.
_PERIOD_US: Final = 120 * SECOND_US
_QUIET_PERIODS: Final = 4
_MOST_SETTLING: Final = 200
_MOST_VIOLATIONS: Final = 20
# In each so many episodes with all that nobody has a limit or a cap, so that whoever waits does so
# for nodes.
_WITHOUT_CAPS: Final = 3
# Of each name, for all jobs, until somebody says otherwise.
_LICENCES: Final = 4
# Of ten seeds in so many operators declare rules and coefficients, and put jobs back. Another kind
# of event moves all that is drawn behind it: the other seeds show the planted bugs that they
# showed.
_WITH_DECLARATIONS: Final = 4
# And in so many of these tariffs and allocations, and in the last of these jobs that share nodes.
_WITH_BILLING: Final = 3
_WITH_NEIGHBOURS: Final = 1
# Behind these seeds, which are recorded and show planted bugs, clusters have partitions and
# features, and jobs ask for them.
_WITHOUT_PLACES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an episode. `digest` is that of every byte in every topic."""

    seed: int
    events: int
    faults: Counter[str]
    violations: tuple[str, ...]
    digest: str
    trace: tuple[str, ...]


class Episode:
    """Plays one seed, where it is `planned` with planners at work, where it is `timed` with jobs
    that say when they may start, and nodes that are reserved, where it is `asking` with jobs that
    ask for all that a job can too; `faults` happen with other weights than they usually do."""

    def __init__(
        self,
        seed: int,
        events: int = EVENTS_AN_EPISODE,
        *,
        planned: bool = False,
        timed: bool = False,
        asking: bool = False,
        faults: Mapping[Fault, float] = MappingProxyType({}),
    ) -> None:
        self.seed = seed
        self._most_events = events
        self._rng = Random(seed)
        size = self._rng.choice([1, 2, 3]), self._rng.choice([1, 2, 2, 3])
        has_places = asking or seed > _WITHOUT_PLACES
        scale = Scale(*size, planned, timed or asking, has_places, asking)
        self.world = World(self._rng, scale)
        self._ill_will = self._rng.choice([0.1, 0.2, 0.3])
        self._faults = {**FAULTS, **faults}
        declares = (seed - 1) % 10 >= 10 - _WITH_DECLARATIONS
        bills = (seed - 1) % 10 >= 10 - _WITH_BILLING
        shares = (seed - 1) % 10 >= 10 - _WITH_NEIGHBOURS
        self._events = {
            **EVENTS,
            **(DECLARATIONS if declares else {}),
            **(BILLING if bills else {}),
            **(NEIGHBOURS if shares else {}),
            **(KEPT if timed or asking else {}),
            **(WORDS if asking else {}),
        }
        if asking and seed % _WITHOUT_CAPS == 0:
            self._events = {
                event: each for event, each in self._events.items() if event not in CAPPING
            }

    def play(self) -> Report:
        """The whole of it."""
        try:
            self._open()
            while self.world.events < self._most_events and not self.world.journal.violations:
                self._turn()
            self._calm()
            self._settle()
            return self._report()
        finally:
            self.world.close()

    def _open(self) -> None:
        for _ in range(self._rng.randint(1, 4)):
            self.world.events += 1
            declare(self.world)
        if self.world.scale.asking:
            words.license_all(self.world, _LICENCES)

    def _turn(self) -> None:
        """A burst of events, some faults, and some time."""
        world, rng = self.world, self._rng
        burst = rng.choice([1, 2, 5, 10, 30])
        kinds = self._events
        for event in rng.choices(list(kinds), list(kinds.values()), k=burst):
            world.events += 1
            event(world)
        count = sum(rng.random() < self._ill_will for _ in range(burst))
        for fault in rng.choices(list(self._faults), list(self._faults.values()), k=count):
            world.journal.trace.append(f"{world.clock.now_us} {world.events} {fault.__name__}")
            fault(world)
            if fault not in ARMING:
                world.journal.faults[fault.__name__] += 1
        for _ in range(rng.choice([1, 1, 2, 3])):
            world.let_pass(rng.choice([SECOND_US, 60 * SECOND_US, 600 * SECOND_US]))

    def _calm(self) -> None:
        """From here on nothing goes wrong, and nobody hinders a job."""
        world = self.world
        for worker in world.workers:
            worker.disarm()
        world.clock.wrong_us.clear()
        for manager in world.managers.found.values():
            manager.temper = Temper()
        now_us = world.clock.now_us
        for name in sorted(world.lost):
            returned = ClusterReturned(cluster=name, returned_at_us=now_us)
            publish(world, name, f"{now_us}-calm", cluster_returned=returned)
        self._declare_again()
        for event in list(world.journal.events.values()):
            if isinstance(event.payload, LimitsDeclared):
                self._lift_limits(event.payload)
            if isinstance(event.payload, PowerCapDeclared):
                self._lift(event.payload)
        fund_all(world)
        remove_all(world)
        if world.scale.asking:
            words.calm(world)
        self._be_patient()

    def _declare_again(self) -> None:
        """Clusters are there, and their partitions up."""
        world, now_us = self.world, self.world.clock.now_us
        is_down = {c.cluster for c in world.clusters.values() if any(p.down for p in c.partitions)}
        for name in sorted(world.undeclared | is_down):
            again = world.clusters[name]
            for partition in again.partitions:
                partition.down = False
            publish(world, name, f"{now_us}-calm", cluster_declared=again)

    def _be_patient(self) -> None:
        """Starts are confirmed once in a period, which is longer than some policies wait."""
        now_us, events = self.world.clock.now_us, self.world.journal.events.values()
        if any(isinstance(event.payload, PolicyDeclared) for event in events):
            as_started = PolicyDeclared(reset=["start_timeout_s"], declared_at_us=now_us)
            publish(self.world, "policy", "calm", policy_declared=as_started)

    def _lift_limits(self, declared: LimitsDeclared) -> None:
        lifted = LimitsDeclared(subject=declared.subject, name=declared.name, each=declared.each)
        of = f"{lifted.subject}-{lifted.each}" if lifted.each else f"{lifted.subject}"
        publish(self.world, lifted.name, f"{of}-calm", limits_declared=lifted)

    def _lift(self, cap: PowerCapDeclared) -> None:
        now_us = self.world.clock.now_us
        none = PowerCapDeclared(
            scope=cap.scope,
            name=cap.name,
            steps=[PowerCapStep(from_us=now_us)],
            declared_at_us=now_us,
        )
        publish(self.world, f"{cap.scope}/{cap.name}", "calm", power_cap_declared=none)

    def _settle(self) -> None:
        """Until nothing more happens, and again after all that was held was released."""
        for _ in range(_MOST_SETTLING // 2):
            before = self._progress
            self._release()
            self._run_to_rest()
            if self._progress == before or self.world.journal.violations:
                return

    def _run_to_rest(self) -> None:
        quiet, before = 0, None
        for _ in range(_MOST_SETTLING):
            self.world.settle(_PERIOD_US)
            for manager in self.world.managers.found.values():
                manager.end_all()
            quiet = quiet + 1 if self._is_at_rest and self._progress == before else 0
            before = self._progress
            if quiet == _QUIET_PERIODS or self.world.journal.violations:
                return

    @property
    def _progress(self) -> tuple[int, int]:
        return len(self.world.journal.finishes), len(self.world.journal.runs)

    @property
    def _is_at_rest(self) -> bool:
        idle = all(manager.is_idle for manager in self.world.managers.found.values())
        return idle and self.world.network.is_empty

    def _release(self) -> None:
        world, now_us = self.world, self.world.clock.now_us
        if world.scale.asking:
            words.stay_alive(world)
        ended = {job_id for job_id, _ in world.journal.finishes}
        for name in sorted(world.clusters):
            resumed = NodesResumed(cluster=name, resumed_at_us=now_us)
            publish(world, name, f"{now_us}-calm", nodes_resumed=resumed)
        # Some that run were submitted by nobody: past the door, or to the resource manager alone.
        known = dict.fromkeys(world.journal.submissions)
        for job_id in known | dict.fromkeys(run.job_id for run in world.journal.runs):
            if job_id not in ended:
                released = JobReleased(job_id=job_id, released_at_us=now_us)
                publish(world, job_id, f"{now_us}-calm", job_released=released)
                runs_on = JobResumed(job_id=job_id, resumed_at_us=now_us)
                publish(world, job_id, f"{now_us}-calm", job_resumed=runs_on)

    def _report(self) -> Report:
        world = self.world
        found = [*world.journal.violations]
        if not found:
            found += violations(Evidence.of(world))
        return Report(
            seed=self.seed,
            events=world.events,
            faults=world.journal.faults,
            violations=tuple(found[:_MOST_VIOLATIONS]),
            digest=digest_of(world),
            trace=tuple(world.journal.trace),
        )


def digest_of(world: World) -> str:
    """SHA-256 of all records at all places."""
    digest = hashlib.sha256()
    for place in world.log.partitions():
        for record in world.log.read(place, 0, 1 << 60):
            digest.update(repr((place, record)).encode())
    return digest.hexdigest()
