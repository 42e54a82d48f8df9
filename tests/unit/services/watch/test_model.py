"""What a watcher gets of the records of a log: the pure part."""

from collections.abc import Sequence

from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_CANCELLED,
    VERDICT_HELD,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    VERDICT_WITHDRAWN,
    Verdict,
)
from hypothesis import given
from hypothesis import strategies as st

from services.watch.model import (
    DecisionRing,
    LoggedDecision,
    Watched,
    WatchedManager,
    WatchedUser,
    Watcher,
    Watchers,
)
from shared.clients.decisions import ResourceManager
from tests.unit.services.watch.fake_log import decided

_ALPHA = frozenset({"alpha"})
_MANAGER = WatchedManager("north", _ALPHA, with_waiting=False)
_USERS = {"north/alpha/1": "ada", "north/alpha/2": "bob"}
_VERDICTS = (
    *(VERDICT_START, VERDICT_QUEUED, VERDICT_WITHDRAWN, VERDICT_HELD),
    *(VERDICT_CANCELLED, VERDICT_REJECTED, VERDICT_ACTION),
)


def logged(
    job_id: str, place: int = 0, offset: int = 0, cluster: str = "", verdict: int = VERDICT_START
) -> LoggedDecision:
    """A decision where it lies."""
    message = decided(job_id, cluster, Verdict.ValueType(verdict))
    return LoggedDecision.from_bytes(place, offset, 0, message.SerializeToString())


def offered(watched: Watched, decisions: Sequence[LoggedDecision]) -> list[str]:
    """What waits for one watcher."""
    watcher, watchers = Watcher(watched, [0], 1_000), Watchers()
    watchers.add(watcher)
    for each in decisions:
        watchers.offer(each, _USERS)
    return [each.job_id for each in watcher.waiting]


@given(
    st.sampled_from(["north/alpha/1", "north/beta/1", "south/alpha/1", "north/alpha", "odd/"]),
    st.sampled_from(["", "alpha", "beta"]),
    st.sampled_from(_VERDICTS),
)
def test_a_resource_manager_is_handed_what_it_is_asked_to_obey_by_whichever_way(
    job_id: str, cluster: str, verdict: Verdict.ValueType
) -> None:
    by_kafka = ResourceManager("any", "north", _ALPHA).is_asked(decided(job_id, cluster, verdict))
    is_wanted = by_kafka and verdict not in (VERDICT_QUEUED, VERDICT_HELD)
    found = offered(_MANAGER, [logged(job_id, cluster=cluster, verdict=verdict)])
    assert found == [job_id] * is_wanted


def test_that_its_own_jobs_wait_a_resource_manager_is_handed_on_demand() -> None:
    waiting = [
        logged(job_id, verdict=verdict)
        for job_id in ("north/alpha/1", "north/beta/1")
        for verdict in (VERDICT_QUEUED, VERDICT_HELD)
    ]
    assert offered(_MANAGER, waiting) == []
    asked = WatchedManager("north", _ALPHA, with_waiting=True)
    assert offered(asked, waiting) == ["north/alpha/1"] * 2


def test_a_user_is_handed_decisions_on_own_jobs_alone_wherever_they_run() -> None:
    decisions = [
        logged(job_id, cluster=cluster, verdict=verdict)
        for job_id in ("north/alpha/1", "north/alpha/2", "north/alpha/3")
        for cluster, verdict in (("beta", VERDICT_START), ("", VERDICT_QUEUED))
    ]
    assert offered(WatchedUser("ada", with_waiting=False), decisions) == ["north/alpha/1"]
    assert offered(WatchedUser("ada", with_waiting=True), decisions) == ["north/alpha/1"] * 2
    assert offered(WatchedUser("eve", with_waiting=True), decisions) == []


def test_a_watcher_that_leaves_is_offered_nothing_more() -> None:
    watcher, watchers = Watcher(_MANAGER, [0], 10), Watchers()
    watchers.add(watcher)
    watchers.remove(watcher)
    assert watchers.offer(logged("north/alpha/1", cluster="alpha"), {}) == []
    assert not watcher.waiting


def test_a_watcher_whose_cursor_is_ahead_is_offered_nothing_before_it() -> None:
    watcher, watchers = Watcher(_MANAGER, [2], 10), Watchers()
    watchers.add(watcher)
    for offset in range(4):
        watchers.offer(logged(f"north/alpha/{offset}", offset=offset, cluster="alpha"), {})
    assert [each.offset for each in watcher.waiting] == [2, 3]


def test_a_watcher_falls_behind_with_one_more_than_may_wait_and_keeps_nothing() -> None:
    watcher = Watcher(_MANAGER, [0], 2)
    found = [watcher.offer(logged("j", offset=offset)) for offset in range(3)]
    assert found == [True, True, False]
    assert watcher.has_fallen_behind
    assert not watcher.waiting


def test_a_watcher_falls_behind_when_what_waits_for_it_is_kept_no_longer() -> None:
    ring, watcher = DecisionRing(1_000, [0]), Watcher(_MANAGER, [0], 10)
    for offset in range(3):
        decision = logged("j" * 300, offset=offset)
        ring.append(decision)
        watcher.offer(decision)
    assert watcher.next() is None
    assert watcher.has_fallen_behind


_PLACES = 3
_READ = st.lists(st.integers(0, _PLACES - 1), max_size=60)


@given(_READ, st.lists(st.integers(0, 25), min_size=_PLACES, max_size=_PLACES), st.integers(1, 9))
def test_the_ring_gives_all_behind_a_cursor_that_it_covers_once_and_in_order(
    places: list[int], cursor: list[int], most: int
) -> None:
    ring, ends = DecisionRing(10_000, [0] * _PLACES), [0] * _PLACES
    read = []
    for place in places:
        decision = logged(f"j{place}", place, ends[place])
        ring.append(decision)
        read.append(decision)
        ends[place] += 1
    assert ring.bytes <= 10_000
    assert ring.ends == ends
    if not ring.covers(cursor):
        return
    offsets, found = list(cursor), list[LoggedDecision]()
    while part := ring.since(offsets, most):
        found += part
        for each in part:
            offsets[each.kafka_partition] = each.offset + 1
    assert found == [each for each in read if each.offset >= cursor[each.kafka_partition]]
    assert all(each.payload is not None for each in found)


def test_the_ring_covers_no_cursor_before_what_left_it() -> None:
    ring = DecisionRing(20_000, [5, 0])
    assert ring.covers([5, 0])
    assert not ring.covers([4, 0])
    for offset in range(5, 100):
        ring.append(logged("j", 0, offset))
    assert ring.begins[0] > 5
    assert ring.begins[1] == 0
    assert not ring.covers([ring.begins[0] - 1, 0])
    assert ring.covers([ring.begins[0], 0])
