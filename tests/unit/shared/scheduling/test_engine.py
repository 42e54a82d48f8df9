"""The event loop where what runs is slowed down."""

from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulation.eurora import Anybody
from lab.simulation.power_reduction import duration_ratio
from shared.scheduling.backfill import Backfill
from shared.scheduling.capacity import Capacity
from shared.scheduling.consumable import ConsumableScheduler
from shared.scheduling.dispatch import Dispatcher, Served
from shared.scheduling.engine import Engine
from shared.scheduling.power import Cap, Scope
from shared.scheduling.power_sharing import PowerSharing, Sharer
from shared.scheduling.problem import CORES, MEMORY, Kind, NodeTable, Shape
from shared.scheduling.progress import ENDED, SUSPENDED, Progress
from shared.scheduling.wait_queue import Entry, WaitQueue

# Everybody wants all of it, so that n jobs take n times as long each.
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


def test_what_is_slowed_down_twofold_takes_twice_as_long() -> None:
    assert ends_s([0.0, 0.0], [10.0, 10.0]) == [20.0, 20.0]


def test_only_what_is_left_takes_longer() -> None:
    # The first has 6 of 10 s done when the second comes, and 4 s take 8; then the other has 6 left.
    assert ends_s([0.0, 6.0], [10.0, 10.0]) == [14.0, 20.0]


def test_a_slowdown_that_comes_back_ends_nothing_twice() -> None:
    # All together have 22.5 s to do, and somebody always runs.
    assert max(ends_s([0.0, 1.0, 2.0, 2.0], [20.0, 1.0, 0.5, 1.0])) == pytest.approx(22.5)


class _Slowed(Dispatcher):
    """One job at a time, slowed down as it is said at each instant at which it asks to be asked."""

    def __init__(self, said: dict[float, float]) -> None:
        self._said, self._now_s, self._arrived = said, -inf, False

    @property
    def waits(self) -> bool:
        return self._arrived

    def arrive(self) -> None:
        self._arrived = True

    def end(self, number: int, holder: int) -> None:
        pass

    def decide(self, now_s: float) -> list[Served]:
        self._now_s = now_s
        arrived, self._arrived = self._arrived, False
        return [(0, Entry(0, 0, 1, 1e6), None, False)] if arrived else []

    def wake_s(self, now_s: float) -> float:
        return min((at_s for at_s in self._said if at_s > now_s), default=inf)

    def slowdowns(self) -> dict[int, float]:
        return {0: self._said[self._now_s]} if self._now_s in self._said else {}


def end_s(said: dict[float, float], run_s: float, ticks_per_s: int = 0) -> float:
    """When a job ends that is slowed down like this."""
    engine = Engine(_Slowed(said), [0.0], lambda _served: run_s, 0.0, ticks_per_s=ticks_per_s)
    while not engine.ended:
        engine.step()
    assert engine.ended == [0]
    return engine.now_s


@given(st.dictionaries(st.floats(0, 1e4), st.floats(1, 5), max_size=20), st.floats(0.1, 1e4))
def test_it_integrates_progress_to_the_last_digit(said: dict[float, float], run_s: float) -> None:
    said = {0.0: 1.0} | said
    progress, as_of_s, expected_s = Progress(run_s), 0.0, run_s
    for at_s, slowdown_ratio in sorted(said.items()):
        if at_s < expected_s:
            progress.advance(at_s - as_of_s)
            progress.slowdown_ratio, as_of_s = slowdown_ratio, at_s
            expected_s = at_s + progress.remaining_s
    assert end_s(said, run_s) == expected_s


@pytest.mark.parametrize(
    ("said", "run_s", "expected_s"),
    [
        ({4.0: SUSPENDED, 1000.0: 2.0}, 10.0, 1012.0),
        ({4.0: ENDED}, 10.0, 4.0),
        ({4.0: ENDED}, inf, 4.0),
    ],
    ids=["suspended", "ended", "ended without an end"],
)
def test_what_is_suspended_does_nothing_and_what_is_ended_ends_at_once(
    said: dict[float, float], run_s: float, expected_s: float
) -> None:
    assert end_s(said, run_s) == expected_s


@pytest.mark.parametrize(("run_s", "expected_s"), [(1.0, 0.333334), (1e-7, 0.000001)])
def test_ends_that_move_are_whole_ticks_and_at_least_one_ahead(
    run_s: float, expected_s: float
) -> None:
    assert end_s({0.0: 1.0, 0.000001: 1 / 3}, run_s, ticks_per_s=1_000_000) == expected_s
