"""The clusters of a region as a scheduling pass takes them."""

from collections.abc import Mapping, Sequence

from services.placement.occupancy import Occupancy
from services.placement.room import Room
from shared.scheduling.capacity import Capacity
from shared.scheduling.consumable import ConsumableLane
from shared.scheduling.easy import AnyLane
from shared.scheduling.lane import Lane
from shared.scheduling.power import PowerBudget
from shared.scheduling.queue import Line
from shared.scheduling.sharing import Neighbours


def lanes_of(
    occupancy: Mapping[str, Occupancy],
    room: Room,
    neighbours: Mapping[str, Neighbours],
    budgets: Mapping[str, Sequence[PowerBudget]],
    *,
    apart: bool = False,
) -> dict[str, AnyLane]:
    """Every cluster with what runs and what waits; a pass takes what starts out of the queue, but
    out of a copy of it where they are to be `apart`."""
    lanes: dict[str, AnyLane] = {}
    for number, (name, held) in enumerate(occupancy.items()):
        line = room.queue.line(name)
        line = line.copy() if apart else line
        under = budgets[name]
        capacity = held.capacity.copy(apart=apart)
        lanes[name] = _lane(held, capacity, line, room, neighbours[name], under, name, number)
    return lanes


def _lane(
    held: Occupancy,
    capacity: Capacity,
    line: Line,
    room: Room,
    neighbours: Neighbours,
    budgets: Sequence[PowerBudget],
    name: str,
    number: int,
) -> AnyLane:
    """Counting nodes is enough, and faster, where nobody runs or waits who has parts of them."""
    if not (line.in_parts or held.is_in_parts):
        return Lane(held.load, line, number, budgets)
    return ConsumableLane(
        capacity,
        held.held,
        line,
        room.kinds.on(name),
        neighbours,
        number,
        budgets,
        factors=held.factors,
    )
