"""EASY backfill over all clusters of a region on one priority queue.

Lifka (1995) for one cluster; D'Amico and Corbalan (2021), section 4.2.1, for job-cluster entries:
entries are served in order, each cluster keeps one reservation, for its first blocked entry, and
the holes that it reserves are that cluster's alone. Starting a job removes all its entries at
once; where one of them held a reservation, the entries behind it get their turn again.

A shareable entry first tries to join a running shareable job without co-runner, then free nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from shared.scheduling.lane import DONE, Lane, Served
from shared.scheduling.load import Load, NodeSet, Reservation
from shared.scheduling.pairing import Pairing
from shared.scheduling.power import PowerBudget
from shared.scheduling.queue import Entry, Queue

_NEXT_ORDER: Final = attrgetter("next_order")


@dataclass(frozen=True, slots=True)
class Start:
    """An entry that starts now, on free nodes or beside the job `host`.

    `slowdown_ratio` is what is predicted for it; `backfilled` means before a blocked entry.
    """

    cluster: str
    entry: Entry
    host: str
    slowdown_ratio: float
    backfilled: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a pass: starts in the order of the queue, a host before its guest.

    `lanes` answer why other entries did not start.
    """

    now_s: float
    starts: tuple[Start, ...]
    lanes: Mapping[str, Lane]

    @property
    def is_relieved(self) -> bool:
        """True when another pass may start more: see Lane."""
        return any(lane.is_relieved for lane in self.lanes.values())

    def reservations(self) -> dict[str, Reservation]:
        """What was promised, by cluster."""
        promises = {name: lane.standing.reservation for name, lane in self.lanes.items()}
        return {name: promise for name, promise in promises.items() if promise is not None}


def schedule(
    now_s: float,
    queue: Queue,
    loads: Mapping[str, Load],
    pairings: Mapping[str, Pairing],
    job_ids: Mapping[int, str],
    budgets: Mapping[str, Sequence[PowerBudget]] | None = None,
) -> Plan:
    """One pass over the queue, which what starts leaves; `job_ids` are by arrival number, `budgets`
    of power by cluster."""
    under = budgets or {}
    lanes = {
        name: Lane(load, queue.line(name), pairings[name], number, job_ids, under.get(name, ()))
        for number, (name, load) in enumerate(loads.items())
    }
    by_number = list(lanes.items())
    starts = tuple(
        _start(*by_number[number], entry, host, backfilled)
        for number, entry, host, backfilled in one_pass(list(lanes.values()), now_s)
    )
    return Plan(now_s, starts, lanes)


class Turns(Protocol):
    """A lane of any discipline: see Lane."""

    next_order: int

    @property
    def is_relieved(self) -> bool: ...

    def begin(self, now_s: float) -> None: ...
    def turn(self) -> None: ...
    def serve(self) -> Served | None: ...
    def pass_alone(self, now_s: float) -> list[Served]: ...
    def drop(self, arrival: int) -> None: ...


def serve(lanes: Sequence[Turns], now_s: float) -> list[Served]:
    """Passes over several lanes until no more starts: what starts leaves all lines."""
    if len(lanes) == 1:
        return lanes[0].pass_alone(now_s)
    started = one_pass(lanes, now_s)
    while any(lane.is_relieved for lane in lanes):
        started += one_pass(lanes, now_s)
    return started


def one_pass(lanes: Sequence[Turns], now_s: float) -> list[Served]:
    """One pass over several lanes as one queue."""
    for lane in lanes:
        lane.begin(now_s)
    for lane in lanes:
        lane.turn()
    started: list[Served] = []
    while lanes and (lane := min(lanes, key=_NEXT_ORDER)).next_order != DONE:
        served = lane.serve()
        if served is not None:
            for other in lanes:
                if other is not lane:
                    other.drop(served[1].arrival)
            started.append(served)
    return started


def _start(cluster: str, lane: Lane, entry: Entry, host: NodeSet | None, backfilled: bool) -> Start:
    if host is None or lane.pairing is None:
        return Start(cluster, entry, "", 1.0, backfilled)
    slowdown = lane.pairing.slowdown(entry.app, host.app)
    return Start(cluster, entry, host.host, slowdown, backfilled)
