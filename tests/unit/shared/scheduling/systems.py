"""What tests of schedulers are made of: queues, jobs of one pool, and neighbours by pairs."""

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np

from lab.simulation.eurora import Anybody
from shared.scheduling.capacity import Group
from shared.scheduling.sharing import Member
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.scheduling.workload import Workload
from tests.unit.shared.scheduling.plain_one_pool import PlainJob


class Pairs(Anybody):
    """Neighbours by a table of pairs: all must accept each other."""

    def __init__(self, *refused: tuple[str, str]) -> None:
        self._refused = refused

    def cost(self, newcomer: Member, group: Group) -> float:
        pairs = ((min(newcomer[0], app), max(newcomer[0], app)) for app, _ in group)
        return inf if any(pair in self._refused for pair in pairs) else float(len(group))


def queue_of(entries: Iterable[Entry]) -> WaitQueue:
    queue = WaitQueue()
    for entry in entries:
        queue.add(entry)
    return queue


def one_pool(jobs: Sequence[PlainJob]) -> Workload:
    """Jobs by submission; a unit draws 100 W."""
    submit_s, units, limit_s, run_s = map(np.array, zip(*jobs, strict=True))
    column = (slice(None), np.newaxis)
    return Workload(
        submit_s=submit_s,
        order=np.arange(len(jobs))[column],
        units=units[column],
        limit_s=limit_s[column],
        run_s=run_s[column],
        power_w=units[column] * 100.0,
    )
