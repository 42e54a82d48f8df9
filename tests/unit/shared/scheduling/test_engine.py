"""The event loop where what runs changes its pace."""

from functools import partial
from math import inf

import numpy as np
import pytest

from shared.models.power_reduction import duration_ratio
from shared.scheduling.backfill import Backfill
from shared.scheduling.capacity import Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Served
from shared.scheduling.engine import Engine
from shared.scheduling.power import Cap, Scope
from shared.scheduling.power_sharing import PowerSharing, Sharer
from shared.scheduling.problem import CORES, MEMORY, Kind, NodeTable, Shape
from shared.scheduling.wait_queue import Entry, WaitQueue
from shared.simulation.eurora import Anybody

# Everybody wants all of it, so that n jobs run at 1/n of the pace each.
CAP_MW = 60_000
CAP = Cap(Scope.CLUSTER, "", ((-inf, CAP_MW),))
KIND = Kind("", Shape((1, 1), exclusive=False, most_per_node=0))


def ends_s(arrive_s: list[float], run_s: list[float]) -> list[float]:
    jobs = range(len(run_s))

    def runs_s(served: Served) -> float:
        return run_s[served[1].arrival]

    def sharer(number: int) -> Sharer:
        return Sharer(1, CAP_MW, partial(duration_ratio, factor=1.0), 100.0)

    nodes = Capacity(NodeTable((CORES, MEMORY), np.array([[16], [16]], dtype=np.int64)))
    scheduler = ConsumableScheduler(nodes, [], WaitQueue(), [KIND], Anybody())
    entries = (((0, Entry(n, n, 1, 1000.0, True, 0)),) for n in jobs)
    dispatcher = PowerSharing(Backfill([scheduler], entries), sharer, CAP)
    engine, ends = Engine(dispatcher, arrive_s, runs_s, arrive_s[0]), dict[int, float]()
    while len(ends) < len(run_s):
        engine.step()
        assert not ends.keys() & set(engine.ended)
        ends |= dict.fromkeys(engine.ended, engine.now_s)
    assert engine.next_s == inf
    return [ends[n] for n in jobs]


def test_what_runs_at_half_the_pace_takes_twice_as_long() -> None:
    assert ends_s([0.0, 0.0], [10.0, 10.0]) == [20.0, 20.0]


def test_only_what_is_left_takes_longer() -> None:
    # The first has 6 of 10 s done when the second comes, and 4 s take 8; then the other has 6 left.
    assert ends_s([0.0, 6.0], [10.0, 10.0]) == [14.0, 20.0]


def test_a_pace_that_comes_back_ends_nothing_twice() -> None:
    # All together have 22.5 s to do, and somebody always runs.
    assert max(ends_s([0.0, 1.0, 2.0, 2.0], [20.0, 1.0, 0.5, 1.0])) == pytest.approx(22.5)
