"""EASY backfill over all clusters of a region on one priority queue.

Lifka (1995) for one cluster; D'Amico and Corbalan (2021), section 4.2.1, for job-cluster entries:
entries are served in order, each cluster keeps one reservation, for its first blocked entry, and
the holes that it reserves are that cluster's alone. Starting a job removes all its entries at
once; where one of them held a reservation, the entries behind it get their turn again.

A shareable entry first tries to join a running shareable job without co-runner, then free nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from shared.policies.lane import Lane
from shared.policies.load import Load, Reservation
from shared.policies.pairing import Pairing
from shared.policies.queue import Entry, Queue


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
) -> Plan:
    """One pass over the queue, which it leaves as it is; `job_ids` are by arrival number."""
    lanes = {
        name: Lane(now_s, load, queue.block(name), pairings[name]) for name, load in loads.items()
    }
    starts: list[Start] = []
    while (turn := _next_turn(lanes)) is not None:
        start = _serve(turn, lanes[turn], job_ids)
        if start is not None:
            starts.append(start)
            for name in lanes.keys() - {turn}:
                lanes[name].drop(start.entry.arrival)
    return Plan(now_s, tuple(starts), lanes)


def _next_turn(lanes: Mapping[str, Lane]) -> str | None:
    """The cluster whose next entry stands first in the queue."""
    turns = [(lane.next_order, name) for name, lane in lanes.items()]
    return min(((order, name) for order, name in turns if order is not None), default=(0, None))[1]


def _serve(cluster: str, lane: Lane, job_ids: Mapping[int, str]) -> Start | None:
    """Let the next entry of a cluster join, start or reserve."""
    entry, backfilled = lane.next_entry(), lane.standing.reservation is not None
    host = lane.host_for(entry)
    if host is not None:
        lane.join(entry, host)
        slowdown = lane.pairing.slowdown(entry.app, host.app)
        return Start(cluster, entry, host.host, slowdown, backfilled)
    if lane.fits(entry):
        lane.start(entry, job_ids[entry.arrival])
        return Start(cluster, entry, "", 1.0, backfilled)
    lane.reserve(entry)
    return None
