"""A shared node's meter, split among its jobs."""

from hypothesis import given
from hypothesis import strategies as st

from coplace_client.millicores import beside_cores, whole_cores
from services.prediction.node_shares import NodeUser, shares_mw

POWERS = st.floats(0.001, 1e5)


@given(
    POWERS,
    st.floats(1.0, 1e5),
    st.lists(st.tuples(st.integers(1, 64_000), st.none() | POWERS), min_size=1, max_size=20),
    st.integers(0, 64),
)
def test_shares_are_what_the_meter_showed_to_the_milliwatt(
    power_w: float, idle_w: float, jobs: list[tuple[int, float | None]], free: int
) -> None:
    users = [NodeUser(*each) for each in jobs]
    held = sum(each.millicores for each in users)
    found = shares_mw(power_w, idle_w, whole_cores(held) + free, users)
    assert sum(found) == round(1000 * power_w)
    assert len(found) == len(users) + 1
    assert all(share >= 0 for share in found)
    assert found[-1] == 0 or free or beside_cores(held)


def test_idle_power_is_split_by_cores_and_what_nobody_has_stays_with_the_node() -> None:
    users = [NodeUser(12_000, 100.0), NodeUser(24_000, 100.0)]
    assert shares_mw(100.0, 100.0, 48, users) == [25_000, 50_000, 25_000]
    assert shares_mw(60.0, 100.0, 48, users) == [15_000, 30_000, 15_000]


def test_the_rest_is_split_by_what_each_was_expected_to_draw() -> None:
    """Beyond 100 W idle, half a node each: one was to draw 3 times as much as the other."""
    users = [NodeUser(24_000, 400.0), NodeUser(24_000, 200.0)]
    assert shares_mw(340.0, 100.0, 48, users) == [50_000 + 180_000, 50_000 + 60_000, 0]


def test_parts_of_cores_are_parts_of_idle_power() -> None:
    users = [NodeUser(250, None), NodeUser(750, None)]
    assert shares_mw(100.0, 80.0, 4, users) == [10_000, 30_000, 60_000]


def test_where_nothing_was_expected_of_one_of_them_cores_replace_it() -> None:
    for other_w in (None, 90.0):
        users = [NodeUser(12_000, other_w), NodeUser(36_000, other_w and 100.0)]
        assert shares_mw(300.0, 100.0, 48, users) == [75_000, 225_000, 0]
