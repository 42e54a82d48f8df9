"""How a plan of what waits would come out: the lanes that decide, played forward.

A plan is one queue of entries for the lanes of `lane.py`. They promise and backfill by limits;
here running jobs and entries end when they are expected to, which is earlier.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shared.scheduling.easy import serve
from shared.scheduling.forward import Coming, forward
from shared.scheduling.lane import Lane, Served, holder_of
from shared.scheduling.load import Load, NodeSet
from shared.scheduling.power import PowerBudget, milliwatts
from shared.scheduling.queue import Entry, Line


class Room(Protocol):
    """What a cluster has to give: see timeline.Pool."""

    @property
    def units(self) -> int: ...
    def budgets(self, number: int) -> list[PowerBudget]: ...


class Option(NamedTuple):
    """A job on one cluster at one P-state: the time until its limit, its power in all."""

    limit_s: float
    power_w: float
    pstate: int


class Stand(NamedTuple):
    """An entry of a plan: a job's place in the queue of one cluster, from `from_s` on."""

    order: int
    arrival: int
    cluster: int
    units: int
    option: Option
    from_s: float = 0.0

    @property
    def entry(self) -> Entry:
        """What a lane is told."""
        limit_s, power_w, _ = self.option
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

    stand: Stand
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

    def starts_now(self, plan: Iterable[Stand]) -> list[Start]:
        """What a scheduling pass over a plan starts."""
        return _Outlook(self, plan).served()

    def outlook(self, plan: Iterable[Stand], share: float) -> list[Start]:
        """All starts of a plan if its entries run for a `share` of their limits.

        Missing is what never fits.
        """
        return _Outlook(self, plan).played(share)


class _Outlook:
    def __init__(self, situation: Situation, plan: Iterable[Stand]) -> None:
        self._situation, now_s = situation, situation.now_s
        self._lanes = _lanes(situation)
        self._stands = {(stand.arrival, stand.cluster): stand for stand in plan}
        self._coming: list[Coming] = []
        for stand in self._stands.values():
            if stand.from_s > now_s:
                self._coming.append((stand.from_s, stand.cluster, stand.entry))
            else:
                self._lanes[stand.cluster].add(stand.entry)

    def served(self) -> list[Start]:
        """One pass."""
        now_s = self._situation.now_s
        return [self._start(now_s, served) for served in serve(self._lanes, now_s)]

    def played(self, share: float) -> list[Start]:
        """Until nothing is to come."""
        ends = [
            (held.expected_s, cluster, holder_of(cluster, place))
            for cluster in range(len(self._lanes))
            for place, held in enumerate(_on(self._situation, cluster))
        ]
        played = forward(self._lanes, self._situation.now_s, ends, self._coming, share)
        return [self._start(start_s, served) for start_s, served in played]

    def _start(self, start_s: float, served: Served) -> Start:
        number, entry, _, backfilled = served
        return Start(self._stands[entry.arrival, number], start_s, backfilled)


def _on(situation: Situation, cluster: int) -> list[Running]:
    return [held for held in situation.running.values() if held.cluster == cluster]


def _lanes(situation: Situation) -> list[Lane]:
    lanes = []
    for cluster, room in enumerate(situation.rooms):
        sets = [
            NodeSet(held.units, held.release_s, draw_mw=milliwatts(held.power_w))
            for held in _on(situation, cluster)
        ]
        free = room.units - sum(node_set.nodes for node_set in sets)
        load = Load(room.units, free, sets)
        lanes.append(Lane(load, Line(), number=cluster, budgets=room.budgets(cluster)))
    return lanes
