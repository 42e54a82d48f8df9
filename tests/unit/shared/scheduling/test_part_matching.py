"""Nodes for the parts of a gang, against all assignments."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.part_matching import NodeGroup, match_parts

_MOST_PARTS = 3


@st.composite
def asked(draw: st.DrawFn) -> tuple[list[int], list[int], list[NodeGroup]]:
    """What parts take and want, and groups of nodes."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=_MOST_PARTS))
    bits = st.integers(0, (1 << len(counts)) - 1)
    drawn = draw(st.lists(st.tuples(st.integers(1, 2), bits, st.integers(0, 3)), max_size=4))
    groups, first = list[NodeGroup](), 0
    wanted, left = [0] * len(counts), counts.copy()
    for nodes, fitting, cost in drawn:
        groups.append(NodeGroup(first, nodes, fitting, cost))
        part = draw(st.integers(-1, len(counts) - 1))
        if part >= 0 and left[part] >= nodes:
            wanted[part] |= ((1 << nodes) - 1) << first
            left[part] -= nodes
        first += nodes
    return counts, wanted, groups


def _assignments(
    counts: Sequence[int], wanted: Sequence[int], groups: Sequence[NodeGroup]
) -> Iterator[tuple[int, bool, int]]:
    """Of each way to give nodes to parts: how many, whether all wanted ones are theirs, and what
    they cost."""
    nodes = [
        (node, group) for group in groups for node in range(group.first, group.first + group.nodes)
    ]

    def go(at: int, left: tuple[int, ...], has: bool, cost: int) -> Iterator[tuple[int, bool, int]]:
        if at == len(nodes):
            yield sum(counts) - sum(left), has, cost
            return
        node, group = nodes[at]
        wants = [part for part in range(len(counts)) if wanted[part] >> node & 1]
        yield from go(at + 1, left, has and not wants, cost)
        for part in range(len(counts)):
            if group.parts >> part & 1 and left[part] and (not wants or part in wants):
                less = (*left[:part], left[part] - 1, *left[part + 1 :])
                yield from go(at + 1, less, has, cost + group.cost)

    yield from go(0, tuple(counts), True, 0)


@given(asked())
def test_parts_get_as_many_nodes_as_any_assignment_gives_them_at_its_least_cost(
    of: tuple[list[int], list[int], list[NodeGroup]],
) -> None:
    counts, wanted, groups = of
    ways = list(_assignments(counts, wanted, groups))
    found = match_parts(counts, wanted, groups)
    whole = [cost for nodes, has, cost in ways if nodes == sum(counts) and has]
    assert (not found.lacks) == bool(whole)
    most = max(nodes for nodes, _, _ in ways)
    assert found.nodes == min(most, sum(counts) - (not whole))
    if whole:
        assert found.cost == min(whole)


@given(asked())
def test_no_part_gets_nodes_that_do_not_fit_it_or_that_are_given_already(
    of: tuple[list[int], list[int], list[NodeGroup]],
) -> None:
    counts, wanted, groups = of
    taken = match_parts(counts, wanted, groups).taken
    for part, of_part in enumerate(taken):
        assert sum(of_part) <= counts[part]
        for group, nodes in zip(groups, of_part, strict=True):
            assert nodes == 0 or group.parts >> part & 1
    for at, group in enumerate(groups):
        assert 0 <= sum(of_part[at] for of_part in taken) <= group.nodes
