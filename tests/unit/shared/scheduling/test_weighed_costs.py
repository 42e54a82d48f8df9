"""What jobs cost each other on nodes by weights over bandwidths, beside one that keeps nothing."""

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
    apart=st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=2),
    kept=st.sampled_from([1, 99]),
)
def test_a_cost_is_the_sum_of_all_slowdowns_whatever_is_kept(
    weights: tuple[float, ...],
    asked: list[tuple[Member, Group]],
    most: float,
    apart: set[tuple[str, str]],
    kept: int,
) -> None:
    pairs = {pair_of_apps(*pair) for pair in apart}
    rule = Contention(GBPS, PEAK_GBPS, CORES, weights, most, pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharing, "_MOST_GROUPS", kept)
        for newcomer, group in asked:
            found = _plainly(weights, group, newcomer)
            refused = any(isnan(each) or each > most for each in found)
            refused |= any(pair_of_apps(newcomer[0], app) in pairs for app, _ in group)
            # Of four summands Python 3.12 tells another last digit than adding them one by one.
            wanted = inf if refused else pytest.approx(sum(found), rel=1e-15)
            assert rule.cost(newcomer, group) == wanted
            assert rule.slowdown(newcomer, group) == pytest.approx(found[-1], nan_ok=True)
            assert rule.cost(newcomer, ()) == 0.0


def test_nobody_shares_before_a_model_is_published() -> None:
    rule = Contention(GBPS, PEAK_GBPS, CORES, None, 9.0)
    assert rule.cost(("a", 6), (("b", 6),)) == inf
    assert isnan(rule.slowdown(("a", 6), (("b", 6),)))
    assert rule.cost(("a", 6), ()) == 0.0
