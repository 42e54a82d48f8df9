"""The clusters of a region as a scheduling pass takes them."""

from collections.abc import Mapping, Sequence

from shared.placement.occupancy import Occupancy
from shared.placement.waiting import WaitingJobs
from shared.scheduling.backfill import ClusterScheduler
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.easy import EasyScheduler
from shared.scheduling.power import PowerBudget
from shared.scheduling.sharing import Neighbours
from shared.scheduling.wait_queue import WaitQueue


def schedulers_of(
    occupancy: Mapping[str, Occupancy],
    waiting_jobs: WaitingJobs,
    neighbours: Mapping[str, Neighbours],
    budgets: Mapping[str, Sequence[PowerBudget]],
    *,
    apart: bool = False,
) -> dict[str, ClusterScheduler]:
    """Every cluster with what runs and what waits; a pass takes what starts out of the queue, but
    out of a copy of it where they are to be `apart`."""
    schedulers: dict[str, ClusterScheduler] = {}
    for number, (name, held) in enumerate(occupancy.items()):
        queue = waiting_jobs.queues.of(name)
        queue = queue.copy() if apart else queue
        under = budgets[name]
        schedulers[name] = _scheduler(
            held, queue, waiting_jobs, neighbours[name], under, name, number, apart=apart
        )
    return schedulers


def _scheduler(
    held: Occupancy,
    queue: WaitQueue,
    waiting_jobs: WaitingJobs,
    neighbours: Neighbours,
    budgets: Sequence[PowerBudget],
    name: str,
    number: int,
    *,
    apart: bool,
) -> ClusterScheduler:
    """Counting nodes is enough, and faster, where nobody runs or waits who has parts of them."""
    if not (queue.in_parts or held.is_in_parts):
        return EasyScheduler(held.load, queue, number, budgets)
    capacity, holds = held.available(number, apart=apart)
    return ConsumableScheduler(
        capacity,
        holds,
        queue,
        waiting_jobs.kinds.on(name),
        neighbours,
        number,
        budgets,
        factors=held.factors,
    )
