"""EASY backfill over all clusters of a region on one priority queue.

Lifka (1995) for one cluster; D'Amico and Corbalan (2021), section 4.2.1, for job-cluster entries:
entries are served in order, each cluster keeps one reservation, for its first blocked entry, and
the holes that it reserves are that cluster's alone. Starting a job removes all its entries at
once; where one of them held a reservation, the entries behind it get their turn again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from shared.scheduling.consumable import ConsumableLane
from shared.scheduling.lane import DONE, Lane, Served
from shared.scheduling.load import Reservation
from shared.scheduling.problem import Allocation
from shared.scheduling.queue import Entry

# A cluster that gives out whole nodes, or parts of them.
AnyLane = Lane | ConsumableLane
_NEXT_ORDER: Final = attrgetter("next_order")


@dataclass(frozen=True, slots=True)
class Start:
    """An entry that starts now, on the nodes of its `allocation`; None where any free ones will do.

    `backfilled` means before a blocked entry.
    """

    cluster: str
    entry: Entry
    allocation: Allocation | None
    backfilled: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a pass: starts in the order of the queue, neighbours in that of their coming.

    `lanes` answer why other entries did not start.
    """

    now_s: float
    starts: tuple[Start, ...]
    lanes: Mapping[str, AnyLane]

    @property
    def is_relieved(self) -> bool:
        """True when another pass may start more: see Lane."""
        return any(lane.is_relieved for lane in self.lanes.values())

    def reservations(self) -> dict[str, Reservation]:
        """What was promised, by cluster."""
        promises = {name: lane.reservation for name, lane in self.lanes.items()}
        return {name: promise for name, promise in promises.items() if promise is not None}


def schedule(now_s: float, lanes: Mapping[str, AnyLane]) -> Plan:
    """One pass over the queue, which what starts leaves; lanes are numbered by their place."""
    names = list(lanes)
    starts = tuple(
        Start(names[number], entry, allocation, backfilled)
        for number, entry, allocation, backfilled in one_pass(list(lanes.values()), now_s)
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
