"""When jobs come often enough for plans."""

from collections.abc import Sequence

import numpy as np

from lab.simulation.arrival_switch import ArrivalSwitch
from shared.scheduling.list_scheduling import CappedSituation, FreeNodes, Planned


class Said:
    """A planner that says that it was asked, and under which cap."""

    def __init__(self, place: int) -> None:
        self._place = place

    def plan(self, at: CappedSituation) -> Sequence[Planned]:
        return [(float(at.cap_mw), self._place)]


def planned(submit_s: Sequence[float], now_s: float) -> Sequence[Planned]:
    free = FreeNodes.build(np.ones((1, 1), dtype=np.int64))
    switch = ArrivalSwitch(submit_s, often=Said(0), seldom=Said(1))
    return switch.plan(CappedSituation(now_s, 300, free, [], []))


def test_one_job_every_two_minutes_is_often() -> None:
    every_two_minutes = [120.0 * n for n in range(20)]
    assert planned(every_two_minutes, 1200.0) == [(300.0, 0)]
    assert planned([140.0 * n for n in range(20)], 1200.0) == [(300.0, 1)]


def test_what_came_long_ago_counts_no_more() -> None:
    assert planned([0.0] * 50, 1199.0) == [(300.0, 0)]
    assert planned([0.0] * 50, 1200.0) == [(300.0, 1)]
