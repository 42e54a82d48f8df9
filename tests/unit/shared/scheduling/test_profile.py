"""What is free from now on, and the scheduler in whose profile all that waits has its place."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from shared.scheduling.conservative import ConservativeScheduler
from shared.scheduling.power import Cap, Scope
from shared.scheduling.profile import Profile
from shared.scheduling.wait_queue import Entry

NODES, SECONDS = 8, 60
amounts = st.integers(0, 4)
parts = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10), amounts, amounts), max_size=8)


@given(
    st.lists(st.integers(2, 9), min_size=1, max_size=4),
    parts,
    st.sets(st.integers(0, 7)),
    st.integers(0, 35),
    st.tuples(amounts, amounts, st.integers(1, 12)),
)
def test_a_profile_has_free_what_a_look_at_every_second_finds(
    levels: list[int],
    taken: list[tuple[int, int, int, int]],
    given_back: set[int],
    now: int,
    asked: tuple[int, int, int],
) -> None:
    steps = [(10.0 * number or -inf, level) for number, level in enumerate(levels)]
    cap = Cap(Scope.CLUSTER, "", tuple(steps))
    profile = Profile(0.0, NODES, cap)
    free, power_mw = [NODES] * SECONDS, [cap.limit_mw(second) for second in range(SECONDS)]
    back = [(*taken[n][:2], -taken[n][2], -taken[n][3]) for n in given_back if n < len(taken)]
    for start, lasts, nodes, draw_mw in (*taken, *back):
        profile.take(start, start + lasts, nodes, draw_mw)
        for second in range(start, start + lasts):
            free[second] -= nodes
            power_mw[second] -= draw_mw
    profile.forget_before(now)
    nodes, draw_mw, lasts = asked
    fits = [free[s] >= nodes and power_mw[s] >= draw_mw for s in range(SECONDS)]
    found = (s for s in range(now, SECONDS - lasts) if all(fits[s : s + lasts]))
    assert profile.earliest(nodes, draw_mw, lasts) == next(found, inf)


def test_while_a_job_is_overdue_it_is_expected_to_take_its_limit_again() -> None:
    under_test = ConservativeScheduler(3)

    def started(now_s: float) -> list[int]:
        return [entry.arrival for _, entry, _, _ in under_test.pass_alone(now_s)]

    waiting = [(1, 10.0), (1, 20.0), (3, 5.0), (1, 12.0), (1, 13.0)]
    for number, (nodes, limit_s) in enumerate(waiting):
        under_test.add(Entry(number, number, nodes, limit_s))
    assert started(0.0) == [0, 1, 3], "there is one node until 20 s, when the wide one has all"
    assert started(11.0) == [], "the first may last until 21 s"
    under_test.release(3)
    assert started(12.0) == []
    under_test.add(Entry(5, 5, 1, 9.0))
    assert started(12.0) == [5], "before 21 s"
    under_test.release(5)
    for holder in (0, 1):
        under_test.release(holder)
    assert started(21.5) == [2]
    under_test.release(2)
    assert started(22.0) == [4]
