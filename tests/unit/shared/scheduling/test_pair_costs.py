"""What jobs cost each other on nodes by trees of pairs, beside one that keeps nothing."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from math import inf, isnan, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coplace_client.signature import Signature
from shared.models.pair_trees import PairTrees, Side
from shared.scheduling import sharing
from shared.scheduling.capacity import Group
from shared.scheduling.sharing import Contention, Member, PairCosts
from tests.unit.shared.models.test_pair_trees import grown

CORES, PEAK_GBPS = 48, 100.0
TREES = PairTrees("pair-trees@1", grown(3))
SIGNATURES = {
    app: Signature(app, "gold", 2.4, 1.0, 200.0, 0.2 * number, 1.0, 30.0 * number, "x")
    for number, app in enumerate("abcde", 1)
}
MEMBERS = st.tuples(st.sampled_from("abcdef"), st.sampled_from([6, 12, 24]))
GROUPS = st.lists(MEMBERS, max_size=3).map(lambda found: tuple(sorted(found)))


def contention(most: float, weights: tuple[float, ...] | None = None) -> Contention:
    gbps = {app: each.mem_gbps for app, each in SIGNATURES.items()}
    costs = PairCosts(TREES, SIGNATURES, CORES, PEAK_GBPS)
    return Contention(gbps, PEAK_GBPS, CORES, weights, most, pairs=costs)


def plainly(one: Member, others: Group) -> float:
    """1 more than what each neighbour costs; no row is kept."""
    sides = []
    for app, cores in (one, *others):
        if app not in SIGNATURES:
            return nan
        sides.append(Side.from_signature(SIGNATURES[app], cores / CORES, PEAK_GBPS))
    return 1.0 + sum(TREES.excess(sides[0], other) for other in sides[1:])


def all_slowdowns(members: Group) -> Iterator[float]:
    for place, member in enumerate(members):
        yield plainly(member, members[:place] + members[place + 1 :])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MEMBERS, GROUPS), max_size=12), st.floats(1, 6), st.sampled_from([4, 99]))
def test_what_is_kept_says_what_asking_anew_does(
    asked: list[tuple[Member, Group]], most: float, kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_MOST_PAIRS", kept)
        patch.setattr(sharing, "_MOST_GROUPS", kept)
        rule = contention(most)
        for newcomer, group in asked:
            found = list(all_slowdowns((*group, newcomer)))
            refused = any(isnan(each) or each > most for each in found)
            if group:
                assert rule.cost(newcomer, group) == (inf if refused else sum(found))
                slowdown = rule.slowdown(newcomer, group)
                assert slowdown == found[-1] or (isnan(slowdown) and isnan(found[-1]))
            said = rule.refusal(newcomer, [group])
            assert f" {max(found):.2f} times" in said or (any(map(isnan, found)) and "no s" in said)


@settings(max_examples=60, deadline=None)
@given(MEMBERS, GROUPS, st.floats(1, 6))
def test_whom_a_group_accepts_its_parts_accept(newcomer: Member, group: Group, most: float) -> None:
    rule = contention(most)
    if group and rule.cost(newcomer, group) < inf:
        for count in range(1, len(group)):
            for part in combinations(group, count):
                assert rule.cost(newcomer, part) < inf


def test_trees_say_it_where_there_are_weights_too_and_who_has_no_signature_stays_alone() -> None:
    rule = contention(100.0, (9.0, 0.0, 0.0, 0.0))
    one, other = ("a", 24), ("b", 24)
    assert rule.slowdown(one, (other,)) == plainly(one, (other,)) < 10
    assert rule.accepts_anyone("a")
    assert not rule.accepts_anyone("f")
    assert rule.cost(one, (("f", 24),)) == inf
    assert "no slowdown is predicted" in rule.refusal(("f", 24), [(other,)])


def test_slowdowns_are_those_of_all_on_a_node_and_none_is_known_beside_a_stranger() -> None:
    costs = PairCosts(TREES, SIGNATURES, CORES, PEAK_GBPS)
    group = ("a", 6), ("b", 12), ("c", 6)
    assert costs.slowdowns(group, ("d", 24)) == list(all_slowdowns((*group, ("d", 24))))
    assert costs.slowdowns((), ("d", 24)) == [1.0]
    for strange in (
        costs.slowdowns(group, ("f", 6)),
        costs.slowdowns((*group[:2], ("f", 6)), group[2]),
    ):
        assert [isnan(each) for each in strange] == [True] * 4


def test_costs_say_the_same_of_one_version_of_trees_and_of_equal_signatures() -> None:
    costs = PairCosts(TREES, SIGNATURES, CORES, PEAK_GBPS)
    assert costs.equals(PairCosts(TREES, dict(SIGNATURES), CORES, PEAK_GBPS))
    others = (
        PairCosts(PairTrees("pair-trees@2", grown(3)), SIGNATURES, CORES, PEAK_GBPS),
        PairCosts(TREES, {"a": SIGNATURES["a"]}, CORES, PEAK_GBPS),
        None,
    )
    assert not any(costs.equals(other) for other in others)
    by_trees, by_weights = contention(2.0), replace(contention(2.0), pairs=None)
    assert by_trees.equals(contention(2.0))
    assert not by_trees.equals(by_weights)
    assert not by_weights.equals(by_trees)
    assert not by_trees.equals(replace(by_trees, max_slowdown=3.0))
