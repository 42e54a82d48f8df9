"""What is free of nodes, against arrays that are added up plainly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.capacity import Capacity
from shared.scheduling.problem import Allocation, Kind, NodeTable, Shape

NODES = 6
TABLE = NodeTable(("cores", "memory_mib"), np.array([[8] * NODES, [64] * NODES]))
shapes = st.builds(
    Shape, st.tuples(st.integers(1, 4), st.integers(0, 16)), st.booleans(), st.just(0)
)
kinds = st.builds(Kind, st.sampled_from(["a", "b"]), shapes)


@st.composite
def held(draw: st.DrawFn) -> tuple[Kind, Allocation]:
    nodes = draw(st.lists(st.integers(0, NODES - 1), min_size=1, unique=True).map(sorted))
    units = draw(st.lists(st.integers(1, 3), min_size=len(nodes), max_size=len(nodes)))
    return draw(kinds), Allocation(tuple(nodes), tuple(units))


@given(st.lists(held(), max_size=6))
def test_it_counts_what_is_held_and_forgets_what_left(jobs: list[tuple[Kind, Allocation]]) -> None:
    capacity, free = Capacity(TABLE), TABLE.amounts.copy()
    holders, closed = np.zeros(NODES, dtype=int), np.zeros(NODES, dtype=int)
    for kind, (nodes, units) in jobs:
        capacity.take(kind, Allocation(nodes, units))
        free[:, nodes] -= np.outer(kind.shape.needs, units)
        holders[[*nodes]] += 1
        closed[[*nodes]] += kind.shape.exclusive
    assert capacity.free == free.tolist()
    assert capacity.holders == holders.tolist()
    assert capacity.closed == closed.tolist()
    everywhere = tuple(range(NODES))
    assert capacity.is_shared(everywhere) == bool((holders > 1).any())
    crowded = ((closed > 0) & (holders > 1)).any() or (free < 0).any()
    assert capacity.is_overcommitted(everywhere) == crowded
    for kind, allocation in reversed(jobs):
        capacity.give(kind, allocation)
    fresh = Capacity(TABLE)
    for name in ("free", "holders", "closed", "group"):
        assert getattr(capacity, name) == getattr(fresh, name)


@given(st.lists(held(), max_size=4), held())
def test_a_copy_is_changed_by_itself(
    jobs: list[tuple[Kind, Allocation]], more: tuple[Kind, Allocation]
) -> None:
    capacity = Capacity(TABLE)
    for kind, allocation in jobs:
        capacity.take(kind, allocation)
    before = [row.copy() for row in capacity.free]
    capacity.copy().take(*more)
    assert capacity.free == before


def test_nodes_that_lack_all_give_nothing_whatever_is_held_there() -> None:
    capacity = Capacity(TABLE)
    capacity.take(Kind("a", Shape((4, 8), False, 0)), Allocation((1,), (1,)))
    capacity.lack([1, 2])
    assert [row[1:4] for row in capacity.free] == [[-4, 0, 8], [-8, 0, 64]]
    assert capacity.table.amounts[:, 1:4].tolist() == [[0, 0, 8], [0, 0, 64]]
    assert TABLE.amounts.min() > 0


def test_a_node_is_overcommitted_where_there_is_less_or_somebody_is_beside_one_who_is_alone() -> (
    None
):
    capacity = Capacity(TABLE)
    alone, small, half = (
        Kind("a", Shape((cores, 1), exclusive, 0))
        for cores, exclusive in ((1, True), (1, False), (4, False))
    )
    for kind, node in ((alone, 0), (half, 1), (half, 1)):
        capacity.take(kind, Allocation((node,), (1,)))
    assert not capacity.is_overcommitted(range(NODES))
    assert [capacity.is_shared((node,)) for node in (0, 1)] == [False, True]
    for node in (0, 1):
        capacity.take(small, Allocation((node,), (1,)))
        assert capacity.is_overcommitted([node])
    assert not capacity.is_overcommitted(range(2, NODES))
