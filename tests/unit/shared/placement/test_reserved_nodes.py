"""Nodes that are kept for a reservation or a maintenance, and the jobs of one."""

from typing import Any

import pytest
from coplace.v1.jobs_pb2 import REFUSED_KIND_RESERVATION
from coplace.v1.placement_pb2 import (
    CONSTRAINT_KIND_OWN_RESERVATION,
    CONSTRAINT_KIND_RESERVED_NODES,
    VERDICT_HELD,
    VERDICT_START,
    Constraint,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import ListReservationsRequest

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.domain.queue_discipline import QueueDiscipline
from shared.placement.decide import pending_reasons
from shared.placement.processor.placement import Placement
from shared.scheduling.eligibility import NOTHING_REFUSED, RefusedToJob
from shared.scheduling.problem import fits_when_empty
from shared.streams.stages.stage import AlreadyAppliedError, Round
from tests.unit.shared.placement import region
from tests.unit.shared.placement.region import T0_US, end_us, reserved, round_of, unreserved

# The first round ends 60 s after T0. A job of this walltime has that limit on p1.
NOW_S = 60.0
HOUR_S = 3600.0


def job(name: str, **asked: Any) -> Event:
    return region.submitted(name, T0_US + 2, **({"clusters": ["p1"]} | asked))


def nodes_of(decided: list[PlacementDecided]) -> dict[str, list[int]]:
    return {d.job_id: list(d.node_indices) for d in decided if d.verdict == VERDICT_START}


def limit_s(**asked: Any) -> float:
    """The limit of a job that starts: that of the P-state that the policy chose."""
    made = region.placement(nodes=4)
    [start] = [d for d in round_of(made, 1, job("a", **asked)) if d.verdict == VERDICT_START]
    return start.walltime_s


def why(made: Placement, job_id: str) -> list[Constraint]:
    return [c for c in region.answered(made, job_id).constraints if c.cluster in ("", "p1")]


def test_a_job_that_ends_before_a_maintenance_starts_on_its_nodes() -> None:
    made = region.placement(nodes=4)
    begins_s = NOW_S + limit_s()
    window = reserved("fans", begins_s, begins_s + HOUR_S, T0_US + 1)
    assert nodes_of(round_of(made, 1, window, job("a", nodes=4))) == {"a": [0, 1, 2, 3]}


def test_a_job_that_would_run_into_a_maintenance_waits_until_it_ends_and_is_told() -> None:
    made = region.placement(nodes=4)
    begins_s = NOW_S + limit_s() - 1.0
    window = reserved("fans", begins_s, begins_s + HOUR_S, T0_US + 1, reason="new fans")
    assert nodes_of(round_of(made, 1, window, job("a", nodes=1))) == {}
    [found] = [c for c in why(made, "a") if c.kind == CONSTRAINT_KIND_RESERVED_NODES]
    ends_us = T0_US + round((begins_s + HOUR_S) * 1e6)
    assert (found.by, found.until_us, found.needed, found.available) == ("fans", ends_us, 1, 0)
    assert region.answered(made, "a").reservation.start_at_us == ends_us
    assert made.wake_us() == T0_US + round(begins_s * 1e6)
    last = round((begins_s + HOUR_S) / 30)
    assert nodes_of(round_of(made, last - 3)) == {}
    assert nodes_of(round_of(made, last + 1)) == {"a": [0]}


def test_jobs_are_placed_on_nodes_that_no_maintenance_takes() -> None:
    made = region.placement(nodes=4)
    window = reserved("fans", 300.0, HOUR_S, T0_US + 1, nodes=["p1-[0000-0002]"])
    assert nodes_of(round_of(made, 1, window, job("a"), job("b"))) == {"a": [3]}


def test_what_runs_when_a_maintenance_is_declared_runs_on() -> None:
    made = region.placement(nodes=4)
    [start] = round_of(made, 1, job("a", nodes=4))
    window = reserved("fans", 120.0, HOUR_S, T0_US + 61_000_000)
    decided = round_of(made, 2, region.started(start), window)
    assert decided == []
    assert region.answered(made, "a").allocation.nodes


def test_a_job_of_a_reservation_runs_on_its_nodes_alone_and_others_do_not() -> None:
    made = region.placement(nodes=4)
    ends_s = 10 * HOUR_S
    mine = reserved("course", 0.0, ends_s, T0_US + 1, nodes=["p1-0002"], users=["ada"])
    events = job("a", reservation="course"), job("b", nodes=4), job("c", reservation="course")
    assert nodes_of(round_of(made, 1, mine, *events)) == {"a": [2]}
    assert nodes_of(round_of(made, 2, region.finished("a", end_us(2)))) == {"c": [2]}


def test_a_job_of_a_reservation_waits_for_its_begin_and_blocks_nobody() -> None:
    """The reservation of EASY stays for the first job that waits for nodes."""
    made = region.placement(nodes=4)
    mine = reserved("course", 600.0, 10 * HOUR_S, T0_US + 1, nodes=["p1-0002"], users=["ada"])
    first = job("a", reservation="course", user="ada")
    decided = round_of(made, 1, mine, first, job("b", nodes=3), job("c", nodes=2))
    assert nodes_of(decided) == {"b": [0, 1, 3]}
    [found] = [c for c in why(made, "a") if c.kind == CONSTRAINT_KIND_OWN_RESERVATION]
    assert (found.by, found.until_us) == ("course", T0_US + 600_000_000)
    assert not region.answered(made, "a").HasField("reservation")
    assert region.answered(made, "c").HasField("reservation")
    assert nodes_of(round_of(made, 18)) == {}
    assert nodes_of(round_of(made, 19)) == {"a": [2]}


@pytest.mark.parametrize(
    ("ended_s", "starts"), [(120.003, ["a"]), (240.0, ["a"]), (240.001, []), (600.0, [])]
)
def test_a_job_as_long_as_its_reservation_starts_when_a_round_ends_after_the_begin(
    ended_s: float, starts: list[str]
) -> None:
    made = region.placement(nodes=4)
    mine = reserved("course", 120.0, 120.0 + limit_s(), T0_US + 1, users=["ada"])
    round_of(made, 1, mine, job("a", reservation="course"))
    found = list(made.end_round(Round(2, T0_US + round(ended_s * 1e6))))
    decided = region.decisions(found)
    assert region.starts(decided) == starts
    assert starts or "does not end by its end" in decided[0].reason


def test_a_job_does_not_end_late_where_others_have_its_nodes_next() -> None:
    made = region.placement(nodes=4)
    ends_s = 120.0 + limit_s()
    mine = reserved("course", 120.0, ends_s, T0_US + 1, users=["ada"])
    next_one = reserved("fans", ends_s, ends_s + HOUR_S, T0_US + 1, nodes=["p1-[0000-0002]"])
    events = job("a", reservation="course"), job("b", reservation="course")
    round_of(made, 1, mine, next_one, *events)
    found = list(made.end_round(Round(2, T0_US + 120_003_000)))
    assert nodes_of(region.decisions(found)) == {"a": [3]}


def test_a_round_is_wanted_when_a_job_as_long_as_its_reservation_is_too_late_for_it() -> None:
    made = region.placement(nodes=1)
    mine = reserved("course", 0.0, 60.0 + limit_s(), T0_US + 1, users=["ada"])
    twin = job("b", reservation="course", walltime_s=3660.0)
    round_of(made, 1, mine, job("a", reservation="course"), twin)
    assert made.wake_us() == T0_US + 120_000_001
    [held] = region.decisions(made.end_round(Round(2, T0_US + 120_000_001)))
    assert "does not end by its end" in held.reason


@pytest.mark.parametrize(
    ("changes", "asked", "words"),
    [
        ({"name": "other"}, {}, "no cluster that the job may run on has it"),
        ({"users": ["bob"], "accounts": ["chemistry"]}, {}, "neither for the user nor"),
        ({"users": []}, {}, "neither for the user nor"),
        ({"until_us": T0_US + 3_599_000_000}, {}, "does not end by its end"),
        ({"nodes": ["p1-0001"]}, {"nodes": 2}, "too few nodes"),
    ],
)
def test_a_job_whose_reservation_does_not_take_it_is_held_with_the_reason(
    changes: dict[str, Any], asked: dict[str, Any], words: str
) -> None:
    made = region.placement(nodes=4)
    whole: dict[str, Any] = {"name": "course", "users": ["ada"]} | changes
    window = reserved(whole.pop("name"), 0.0, 20 * HOUR_S, T0_US + 1, **whole)
    [held] = round_of(made, 1, window, job("a", reservation="course", user="ada", **asked))
    assert held.verdict == VERDICT_HELD
    assert words in held.reason
    [found] = why(made, "a")
    assert (found.kind, found.by) == (CONSTRAINT_KIND_OWN_RESERVATION, "course")


def test_a_job_is_held_once_its_reservation_is_over_and_starts_in_a_new_one() -> None:
    made = region.placement(nodes=1)
    limit = limit_s()
    window = reserved("course", 0.0, 2 * limit, T0_US + 1, accounts=["physics"])
    events = job("a", reservation="course"), job("b", reservation="course")
    decided = round_of(made, 1, window, *events)
    assert nodes_of(decided) == {"a": [0]}
    region.feed(made, [region.started(decided[0])])
    late = round(limit / 30) + 1
    [held] = round_of(made, late)
    assert "does not end by its end" in held.reason
    [removed] = round_of(made, late + 1, unreserved("course", end_us(late) + 1))
    assert "no cluster that the job may run on has it" in removed.reason
    again = reserved("course", 0.0, 9 * limit, end_us(late + 1) + 1, users=["ada"])
    ended = region.finished("a", end_us(late + 1) + 2)
    assert nodes_of(round_of(made, late + 2, again, ended)) == {"b": [0]}


def test_what_a_manager_refused_is_granted_again_soon_after_the_begin() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    mine = reserved("course", 120.0, 9 * HOUR_S, T0_US + 1, users=["ada"])
    twins.round_of(1, mine, job("a", reservation="course"))
    [early] = twins.round_of(3)
    twins.kill()
    refused = {"refused_kind": REFUSED_KIND_RESERVATION, "refused_name": "course"}
    [held] = twins.round_of(4, region.declined(early, end_us(3) + 1, **refused))
    assert held.verdict != VERDICT_START
    twins.kill()
    assert nodes_of(twins.round_of(5)) == {"a": [0]}


def test_what_a_manager_refused_for_a_maintenance_is_granted_again_when_it_is_over() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    [early] = twins.round_of(1, job("a"))
    window = reserved("fans", 60.0, 600.0, T0_US + 61_000_000)
    refused = {"refused_kind": REFUSED_KIND_RESERVATION, "refused_name": "fans"}
    twins.round_of(2, window, region.declined(early, end_us(1) + 2_000_000, **refused))
    twins.kill()
    assert nodes_of(twins.round_of(18)) == {}
    assert nodes_of(twins.round_of(19)) == {"a": [0]}


def test_nodes_of_a_number_are_those_that_are_free_first_and_stay_the_same() -> None:
    made = region.placement(nodes=4)
    round_of(made, 1, job("a", nodes=1), job("b", nodes=1, walltime_s=7200.0))
    asked: dict[str, Any] = {"node_count": 3, "users": ["ada"]}
    round_of(made, 2, reserved("course", 600.0, HOUR_S, T0_US + 70_000_000, **asked))
    [listed] = made.queries.reservations(ListReservationsRequest()).reservations
    assert list(listed.reservation.nodes) == ["p1-[0000,0002-0003]"]
    assert (listed.nodes, listed.allocated_nodes) == (3, 1)
    region.feed(made, [reserved("course", 600.0, 2 * HOUR_S, T0_US + 95_000_000, **asked)])
    [listed] = made.queries.reservations(ListReservationsRequest()).reservations
    assert list(listed.reservation.nodes) == ["p1-[0000,0002-0003]"]
    other = reserved("other", 0.0, HOUR_S, T0_US + 96_000_000, node_count=2)
    with pytest.raises(RejectedError, match="must be at most 1"):
        made.handle(other)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cluster": "nowhere"}, "cluster"),
        ({"nodes": ["p1-0004"]}, "nodes"),
        ({"nodes": ["elsewhere-0001"]}, "nodes"),
        ({"partition": "gpu"}, "partition"),
        ({"node_count": 5}, "node_count"),
    ],
)
def test_a_reservation_of_what_a_cluster_has_not_is_refused(
    changes: dict[str, Any], field: str
) -> None:
    made = region.placement(nodes=4)
    with pytest.raises(RejectedError) as refused:
        made.handle(reserved("fans", 0.0, HOUR_S, T0_US + 1, **changes))
    assert refused.value.field == field


def test_a_deadline_within_a_maintenance_cannot_be_met() -> None:
    made = region.placement(nodes=4)
    window = reserved("fans", 0.0, 10 * HOUR_S, T0_US + 1)
    [held] = round_of(made, 1, window, job("a", deadline_at_us=T0_US + round(9 * HOUR_S * 1e6)))
    assert held.verdict == VERDICT_HELD
    assert "cannot end by its deadline" in held.reason


def test_a_restart_chooses_the_nodes_of_a_number_that_the_process_before_would_have() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    twins.round_of(1, region.drained("p1", T0_US + 5, "p1-0000"))
    twins.kill()
    twins.tell(reserved("course", 600.0, 9 * HOUR_S, end_us(1) + 1, node_count=2, users=["ada"]))
    for made in (twins.lived, twins.killed):
        [listed] = made.queries.reservations(ListReservationsRequest()).reservations
        assert list(listed.reservation.nodes) == ["p1-[0001-0002]"]
        with pytest.raises(RejectedError, match="must be at most 1"):
            made.handle(reserved("other", 600.0, HOUR_S, end_us(1) + 2, node_count=2))


def test_names_that_hold_what_separates_them_are_of_reservations_of_their_own() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    twins.tell(*(region.declared("p1", 4, cluster=name) for name in ("a", "a|b")))
    twins.tell(reserved("b|c", 60.0, 600.0, T0_US + 5, cluster="a"))
    twins.tell(reserved("c", 60.0, 600.0, T0_US + 6, cluster="a|b"))
    twins.kill()
    for made in (twins.lived, twins.killed):
        listed = made.queries.reservations(ListReservationsRequest()).reservations
        named = [(each.reservation.cluster, each.reservation.name) for each in listed]
        assert named == [("a", "b|c"), ("a|b", "c")]


def test_what_is_over_is_forgotten_where_there_is_much_of_it_the_oldest_first() -> None:
    made = region.placement(nodes=4)
    window = reserved("n0", 60.0, HOUR_S, T0_US + 3, users=["ada"])
    region.feed(made, [window])
    for n in range(1, 1100):
        at_us = T0_US + 2 * n + 8
        whole = reserved(f"n{n}", 60.0, HOUR_S, at_us), unreserved(f"n{n}", at_us + 1)
        region.feed(made, whole)
    kept = [key for key in region.saved(made.changes()) if key.startswith("reservation|")]
    assert len(kept) == 1024
    [listed] = made.queries.reservations(ListReservationsRequest()).reservations
    assert listed.reservation.name == "n0"
    with pytest.raises(AlreadyAppliedError):
        made.handle(unreserved("n1099", T0_US + 2 * 1099 + 9))
    with pytest.raises(RejectedError, match="is no reservation"):
        made.handle(unreserved("n1", T0_US + 10_000))


def test_a_job_is_told_when_its_reservation_is_forgotten_also_after_a_restart() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    window = reserved("course", 60.0, 600.0, T0_US + 5, users=["ada"])
    [held] = twins.round_of(30, window, job("a", reservation="course"))
    assert "it ended" in held.reason
    twins.kill()
    [forgotten] = twins.round_of(8 * 86_400 // 30)
    assert "no cluster that the job may run on has it" in forgotten.reason


def test_what_ended_before_a_restart_does_not_count_among_what_has_not() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    twins.tell(*(reserved(f"n{n}", 60.0, 600.0, T0_US + 5) for n in range(256)))
    with pytest.raises(RejectedError, match="has 256 reservations"):
        twins.lived.handle(reserved("n256", 60.0, 600.0, T0_US + 6))
    twins.round_of(30)
    twins.kill()
    twins.tell(reserved("n256", 2 * HOUR_S, 3 * HOUR_S, end_us(30) + 1))


@pytest.mark.parametrize("asked", [{}, {"reservation": "course"}])
def test_a_deadline_behind_a_window_names_it_until_it_ends(asked: dict[str, str]) -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    windows = [reserved("fans", 600.0, 3 * HOUR_S, T0_US + 1)]
    windows.append(reserved("course", 5 * HOUR_S, 9 * HOUR_S, T0_US + 2, users=["ada"]))
    late = job("a", deadline_at_us=T0_US + round(2 * HOUR_S * 1e6), **asked)
    [held] = twins.round_of(1, *windows, late)
    named = "course keeps it from a start until" if asked else "fans keeps it from a start until"
    assert named in held.reason
    twins.kill()
    [after] = twins.round_of(400) or [held]
    assert ("it had to start by" in after.reason) != bool(asked)


def test_a_job_of_no_reservation_that_there_is_is_told_so_whatever_its_deadline() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    window = reserved("fans", 0.0, 600.0, T0_US + 1, nodes=["p1-0000"])
    late = job("a", deadline_at_us=T0_US + round(9 * HOUR_S * 1e6), reservation="nobody's")
    [held] = twins.round_of(1, window, late)
    assert "no cluster that the job may run on has it" in held.reason
    twins.kill()
    assert twins.round_of(30) == []


def test_windows_are_compared_with_a_deadline_once_and_none_that_is_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = region.placement(nodes=4)
    apart_s = limit_s() - 1.0
    windows = [
        reserved(f"m{n}", n * apart_s, n * apart_s + 60.0 + n, T0_US + 1, nodes=["p1-[0001-0003]"])
        for n in range(100)
    ]
    asked: list[RefusedToJob] = []

    def fits(of: Any, on: Any, units: int, refused: RefusedToJob = NOTHING_REFUSED) -> bool:
        asked.append(refused)
        return fits_when_empty(of, on, units, refused)

    monkeypatch.setattr(pending_reasons, "fits_when_empty", fits)
    deadline_us = T0_US + round(50 * apart_s * 1e6)
    [held] = round_of(made, 1, *windows, job("a", nodes=2, deadline_at_us=deadline_us))
    assert "cannot end by its deadline" in held.reason
    assert len(asked) < 10
    wake_us = made.wake_us()
    assert wake_us is not None
    region.decisions(made.end_round(Round(2, wake_us)))
    assert len(asked) < 20


def test_a_restart_decides_what_the_process_before_would_have() -> None:
    twins = region.Twins(lambda: region.placement(nodes=4))
    limit = limit_s()
    window = reserved("fans", limit, limit + 600.0, T0_US + 1, nodes=["p1-[0000-0001]"])
    mine = reserved("course", 90.0, 9 * HOUR_S, T0_US + 1, node_count=1, users=["ada"])
    events = [job(name, nodes=nodes) for name, nodes in (("a", 2), ("b", 2), ("c", 1))]
    twins.round_of(1, window, mine, *events, job("d", reservation="course", user="ada"))
    twins.kill()
    twins.round_of(2)
    twins.kill()
    ahead = round((limit + 600.0) / 30) + 1
    decided = twins.round_of(ahead, unreserved("course", end_us(2) + 1))
    assert decided
    twins.kill()
    twins.round_of(ahead + 1)


def test_a_job_whose_reservation_is_on_a_cluster_that_it_does_not_name_is_held() -> None:
    made = region.placement(nodes=4)
    window = reserved("course", 0.0, HOUR_S, T0_US + 1, nodes=["p1-0000"], users=["ada"])
    [held] = round_of(made, 1, window, job("a", clusters=["p2"], reservation="course"))
    assert region.verdict(held) == "held"


def test_slurms_discipline_plans_between_reservations_of_nodes() -> None:
    made = region.placement(nodes=4, discipline=QueueDiscipline.SLURM, bf_interval_s=1.0)
    window = reserved("fans", 0.0, 3 * HOUR_S, T0_US + 1, nodes=["p1-0000"])
    decided = round_of(made, 1, window, job("a", nodes=3), job("b", nodes=4))
    assert nodes_of(decided) == {"a": [1, 2, 3]}
    assert made.queries.policy().under_easy == {}
    promised = region.answered(made, "b").reservation
    assert promised.start_at_us == T0_US + int(3 * HOUR_S * 1e6)
