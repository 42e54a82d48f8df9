"""How a plan of what waits would come out: the schedulers that decide, played forward.

A plan is one queue of entries for the schedulers of `easy.py`. They reservation and backfill by
limits; here running jobs and entries end when they are expected to, which is earlier.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.scheduling.easy import EasyScheduler, Served, holder_of
from shared.scheduling.forward import Coming, forward
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.passes import serve
from shared.scheduling.power import PowerBudget, milliwatts
from shared.scheduling.wait_queue import Entry, WaitQueue


class Room(Protocol):
    """What a cluster has to give: see timeline.Pool."""

    @property
    def units(self) -> int: ...
    def budgets(self, number: int) -> list[PowerBudget]: ...


class ExecutionMode(NamedTuple):
    """A job on one cluster at one P-state: the time until its limit, its power in all."""

    limit_s: float
    power_w: float
    pstate: int


class PlannedEntry(NamedTuple):
    """An entry of a plan: a job's place in the queue of one cluster, from `from_s` on."""

    order: int
    arrival: int
    cluster: int
    units: int
    mode: ExecutionMode
    from_s: float = 0.0

    @property
    def entry(self) -> Entry:
        """What a scheduler is told."""
        limit_s, power_w, _ = self.mode
        draw_mw = milliwatts(power_w)
        return Entry(self.order, self.arrival, self.units, limit_s, draw_mw=draw_mw)


@dataclass(frozen=True, slots=True)
class Running:
    """What a job holds, until when at the latest, and when it is expected to end."""

    cluster: int
    units: int
    power_w: float
    release_s: float
    expected_s: float


class Start(NamedTuple):
    """An entry of a plan that starts; `backfilled` is before a blocked one."""

    planned: PlannedEntry
    start_s: float
    backfilled: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """The clusters at an instant: what they have, and what runs by arrival number."""

    now_s: float
    rooms: Sequence[Room]
    running: Mapping[int, Running]

    @property
    def free_units(self) -> list[int]:
        """What each cluster has free."""
        free = [room.units for room in self.rooms]
        for held in self.running.values():
            free[held.cluster] -= held.units
        return free

    @property
    def last_release_s(self) -> float:
        """When all that runs has ended, by limits."""
        ends_s = (held.release_s for held in self.running.values())
        return max(ends_s, default=self.now_s)

    def starts_now(self, plan: Iterable[PlannedEntry]) -> list[Start]:
        """What a scheduling pass over a plan starts."""
        return _Evaluation(self, plan).served()

    def evaluate(self, plan: Iterable[PlannedEntry], share: float) -> list[Start]:
        """All starts of a plan if its entries run for a `share` of their limits.

        Missing is what never fits.
        """
        return _Evaluation(self, plan).played(share)


class _Evaluation:
    def __init__(self, situation: Situation, plan: Iterable[PlannedEntry]) -> None:
        self._situation, now_s = situation, situation.now_s
        self._schedulers = _schedulers(situation)
        self._planned = {(planned.arrival, planned.cluster): planned for planned in plan}
        self._coming: list[Coming] = []
        for planned in self._planned.values():
            if planned.from_s > now_s:
                self._coming.append((planned.from_s, planned.cluster, planned.entry))
            else:
                self._schedulers[planned.cluster].add(planned.entry)

    def served(self) -> list[Start]:
        """One pass."""
        now_s = self._situation.now_s
        return [self._start(now_s, served) for served in serve(self._schedulers, now_s)]

    def played(self, share: float) -> list[Start]:
        """Until nothing is to come."""
        ends = [
            (held.expected_s, cluster, holder_of(cluster, place))
            for cluster in range(len(self._schedulers))
            for place, held in enumerate(_on(self._situation, cluster))
        ]
        played = forward(self._schedulers, self._situation.now_s, ends, self._coming, share)
        return [self._start(start_s, served) for start_s, served in played]

    def _start(self, start_s: float, served: Served) -> Start:
        number, entry, _, backfilled = served
        return Start(self._planned[entry.arrival, number], start_s, backfilled)


def _on(situation: Situation, cluster: int) -> list[Running]:
    return [held for held in situation.running.values() if held.cluster == cluster]


def _schedulers(situation: Situation) -> list[EasyScheduler]:
    schedulers = []
    for cluster, room in enumerate(situation.rooms):
        sets = [
            NodeSet(held.units, held.release_s, draw_mw=milliwatts(held.power_w))
            for held in _on(situation, cluster)
        ]
        free = room.units - sum(node_set.nodes for node_set in sets)
        load = Load(room.units, free, sets)
        schedulers.append(
            EasyScheduler(load, WaitQueue(), number=cluster, budgets=room.budgets(cluster))
        )
    return schedulers
