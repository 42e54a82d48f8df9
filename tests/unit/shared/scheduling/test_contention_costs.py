"""What jobs cost each other on nodes by weights over bandwidths, beside one that keeps nothing."""

from dataclasses import replace
from math import inf, isnan, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.models.degradation import slowdown_of_shares
from shared.scheduling import sharing
from shared.scheduling.capacity import Group
from shared.scheduling.sharing import Contention, Member, pair_of_apps

CORES, PEAK_GBPS = 48, 100.0
GBPS = {app: 17.3 * number for number, app in enumerate("abcde")}
MEMBERS = st.tuples(st.sampled_from("abcdef"), st.sampled_from([6, 12, 24]))
GROUPS = st.lists(MEMBERS, min_size=1, max_size=4).map(lambda found: tuple(sorted(found)))
WEIGHTS = st.tuples(*[st.floats(-0.5, 2.0)] * 4)


def _share(member: Member) -> float:
    app, cores = member
    return GBPS.get(app, nan) * cores / CORES / PEAK_GBPS


def _plainly(weights: tuple[float, ...], group: Group, newcomer: Member) -> list[float]:
    shares = [_share(member) for member in (*group, newcomer)]
    return [
        slowdown_of_shares(weights, own, sum(shares[:place] + shares[place + 1 :]))
        for place, own in enumerate(shares)
    ]


@settings(max_examples=150, deadline=None)
@given(
    weights=WEIGHTS,
    asked=st.lists(st.tuples(MEMBERS, GROUPS), max_size=12),
    most=st.floats(1, 4),
    isolated=st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=2),
    kept=st.sampled_from([1, 99]),
)
def test_a_cost_is_the_sum_of_all_slowdowns_whatever_is_kept(
    weights: tuple[float, ...],
    asked: list[tuple[Member, Group]],
    most: float,
    isolated: set[tuple[str, str]],
    kept: int,
) -> None:
    pairs = {pair_of_apps(*pair) for pair in isolated}
    rule = Contention(GBPS, PEAK_GBPS, CORES, weights, most, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_MOST_GROUPS", kept)
        for newcomer, group in asked:
            found = _plainly(weights, group, newcomer)
            refused = any(isnan(each) or each > most for each in found)
            refused |= any(pair_of_apps(newcomer[0], app) in pairs for app, _ in group)
            # Of four summands Python 3.12 has another last digit than adding them one by one.
            wanted = inf if refused else pytest.approx(sum(found), rel=1e-15)
            assert rule.cost(newcomer, group) == wanted
            assert rule.slowdown(newcomer, group) == pytest.approx(found[-1], nan_ok=True)
            assert rule.cost(newcomer, ()) == 0.0


@given(WEIGHTS, MEMBERS, st.lists(GROUPS, min_size=1, max_size=4))
def test_a_refusal_says_the_mildest_of_what_each_group_would_suffer_most(
    weights: tuple[float, ...], newcomer: Member, groups: list[Group]
) -> None:
    rule = Contention(GBPS, PEAK_GBPS, CORES, weights, 1.5, {("a", "b")})
    together = [g for g in groups if not any({newcomer[0], app} == {"a", "b"} for app, _ in g)]
    found = [_plainly(weights, group, newcomer) for group in together]
    known = [max(each) for each in found if not any(map(isnan, each))]
    if not together:
        said = "a promised slowdown was exceeded beside each job that runs there"
    elif not known:
        said = "no slowdown is predicted for it and the jobs that run there"
    else:
        said = f"neighbours would slow down {min(known):.2f} times or more, 1.5 is most"
    assert rule.refusal(newcomer, groups) == said


def test_pairs_are_in_the_order_of_names() -> None:
    assert pair_of_apps("b", "a") == pair_of_apps("a", "b") == ("a", "b")
    assert pair_of_apps("a", "a") == ("a", "a")


def test_rules_say_the_same_where_all_that_they_follow_from_is_equal() -> None:
    weights = (1.0, 2.0, 3.0, 4.0)
    rule = Contention(GBPS, PEAK_GBPS, CORES, weights, 1.5, {("a", "b")})
    assert rule.equals(replace(rule, gbps=dict(GBPS), isolated={("a", "b")}))
    for other in (
        replace(rule, gbps=GBPS | {"a": 0.1}),
        replace(rule, peak_gbps=101.0),
        replace(rule, millicores_per_node=49),
        replace(rule, weights=None),
        replace(rule, weights=(1.0, 2.0, 3.0, 5.0)),
        replace(rule, max_slowdown=1.6),
        replace(rule, isolated=set()),
    ):
        assert not rule.equals(other)
        assert not other.equals(rule)


def test_nobody_shares_before_a_model_is_published() -> None:
    rule = Contention(GBPS, PEAK_GBPS, CORES, None, 9.0)
    assert rule.cost(("a", 6), (("b", 6),)) == inf
    assert isnan(rule.slowdown(("a", 6), (("b", 6),)))
    assert rule.cost(("a", 6), ()) == 0.0
    assert "no slowdown is predicted" in rule.refusal(("a", 6), [(("b", 6),)])


@settings(max_examples=150, deadline=None)
@given(weights=WEIGHTS, newcomer=MEMBERS, group=GROUPS, has_model=st.booleans())
def test_where_nodes_are_shared_anyway_only_what_is_not_predicted_is_accepted_by_its_number(
    weights: tuple[float, ...], newcomer: Member, group: Group, has_model: bool
) -> None:
    of = weights if has_model else None
    closed = Contention(GBPS, PEAK_GBPS, CORES, of, 1.5)
    known = tuple(member for member in group if has_model and member[0] in GBPS)
    others = len(group) - len(known)
    rule = Contention(GBPS, PEAK_GBPS, CORES, of, 1.5, is_open=True)
    if not (has_model and newcomer[0] in GBPS):
        expected: float = len(group) + 1
    else:
        expected = others + (closed.cost(newcomer, known) if known else 1)
    assert rule.cost(newcomer, group) == expected
    assert rule.accepts_anyone(newcomer[0])
    assert not rule.equals(closed)


def test_where_nodes_are_shared_anyway_what_broke_a_promise_stays_apart() -> None:
    pair = pair_of_apps("x", "y")
    rule = Contention(GBPS, PEAK_GBPS, CORES, None, 1.5, frozenset({pair}), is_open=True)
    assert rule.cost(("x", 6), (("y", 6),)) == inf
    assert rule.cost(("x", 6), (("z", 6),)) == 2
