"""What refuses a start says of what kind it is, what is needed, what there is, until when
and by whom, in decisions as in answers."""

from typing import Any

import pytest
from coplace.v1.accounts_pb2 import STANDING_REFUSED, AccountStanding
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
)
from coplace.v1.jobs_pb2 import DEPENDENCY_CONDITION_AFTER_OK
from coplace.v1.placement_pb2 import (
    MISFIT_KIND_ARCHITECTURE,
    MISFIT_KIND_RESOURCE,
    Constraint,
    ConstraintKind,
    PlacementDecided,
)
from coplace.v1.placement_service_pb2 import ExplainResponse

from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.explain import constraints
from shared.placement.processor.placement import Placement
from shared.placement.state.misfit import Misfit
from tests.unit.shared.placement.region import (
    APPS,
    T0_US,
    after,
    answered,
    capped,
    declared,
    drained,
    end_us,
    event,
    feed,
    held,
    item,
    limits,
    lost,
    on,
    placement,
    proposed,
    round_of,
    submitted,
)


def constraint(kind: str, **fields: Any) -> Constraint:
    return Constraint(kind=ConstraintKind.Value(f"CONSTRAINT_KIND_{kind}"), **fields)


def against(told: PlacementDecided | ExplainResponse, cluster: str) -> list[Constraint]:
    """What refuses a job on a cluster."""
    return list(on(told, cluster).constraints)


def told(processor: Placement, number: int, *events: Event) -> PlacementDecided:
    """The newest decision of a round, of which an answer says the same."""
    decided = round_of(processor, number, *events)[-1]
    answer = answered(processor, decided.job_id)
    assert (answer.reason, answer.constraints) == (decided.reason, decided.constraints)
    assert [one.candidate for one in answer.clusters] == list(decided.candidates)
    return decided


def full(free: int = 1) -> Placement:
    """Of four nodes on p1, where all want to go, job a has all but so many until 3,600 s from the
    first round."""
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=4 - free))
    return processor


ENDS_US = end_us(0) + 3_600_000_000


def test_too_few_free_nodes_are_counted_until_the_reservation_of_the_first_that_waits() -> None:
    processor = full()
    counted = {"needed": 3, "available": 1, "unit": "nodes"}
    first = told(processor, 1, submitted("b", T0_US + 1, nodes=3))
    [of_first] = against(first, "p1")
    assert of_first == constraint("CAPACITY", until_us=ENDS_US, **counted)
    of_first.cluster = "p1"
    assert list(first.constraints) == [of_first]
    behind = told(processor, 2, submitted("c", T0_US + 2, nodes=3))
    assert against(behind, "p1") == [constraint("CAPACITY", **counted)]


def test_who_would_take_reserved_nodes_is_told_how_many_are_extra_whose_they_are_and_when() -> None:
    processor = full()
    round_of(processor, 1, submitted("b", T0_US + 1, nodes=4))
    waits = told(processor, 2, submitted("c", T0_US + 2, nodes=1, walltime_s=7200.0))
    assert against(waits, "p1") == [
        constraint(
            "RESERVATION",
            needed=1,
            available=0,
            unit="nodes",
            until_us=ENDS_US,
            by="b",
        )
    ]


def test_units_are_counted_and_what_a_reservation_leaves_of_them_is_not_worked_out() -> None:
    processor = placement(policy=Policy.BASE)
    third: dict[str, Any] = {"cores_per_unit": 12, "shareable": False}
    round_of(processor, 0, submitted("a", nodes=12, **third))
    first = told(processor, 1, submitted("b", T0_US + 1, nodes=16, **third))
    [few] = against(first, "p1")
    counted = {"needed": 16, "available": 4, "unit": "units"}
    assert few == constraint("CAPACITY", until_us=ENDS_US, **counted)
    waits = told(processor, 2, submitted("c", T0_US + 2, nodes=1, walltime_s=86_400.0, **third))
    expected = {"needed": 1, "unit": "units", "until_us": ENDS_US, "by": "b"}
    assert against(waits, "p1") == [constraint("RESERVATION", **expected)]


def test_nodes_beside_neighbours_that_do_not_suit_it_are_not_there_for_it() -> None:
    processor = placement(policy=Policy.BASE, max_slowdown=1.1)
    on_p2: dict[str, Any] = {"app_id": APPS[7], "nodes": 4, "shareable": True}
    round_of(processor, 0, submitted("a", **on_p2))
    waits = told(processor, 1, submitted("b", T0_US + 1, **on_p2))
    assert against(waits, "p2") == [constraint("NEIGHBOUR", needed=4, available=0, unit="units")]


def test_a_cap_that_refuses_a_job_is_a_constraint_in_watts_beside_the_nodes() -> None:
    processor = full()
    idle_w = 400.0
    cap = capped(POWER_SCOPE_CLUSTER, "p1", (0, idle_w + 1000.0), (7200, 1e6))
    decided = told(processor, 1, cap, submitted("b", T0_US + 1, nodes=4))
    few, watts = against(decided, "p1")
    [shortage] = on(decided, "p1").power.shortages
    assert few.kind == constraint("CAPACITY").kind
    assert watts == constraint(
        "POWER_BUDGET",
        needed=shortage.needed_w,
        available=shortage.available_w,
        unit="W",
        until_us=shortage.until_us,
        by="p1",
    )
    assert watts.until_us == T0_US + 7_200_000_000


def test_of_several_caps_the_one_counts_that_lets_the_job_start_last_or_never_does() -> None:
    for later, expected in (((10_000, 1e6), (T0_US + 10_000_000_000, "")), (None, (0, ""))):
        processor = full()
        of_p1 = capped(POWER_SCOPE_CLUSTER, "p1", (0, 1400.0), (7200, 1e6))
        steps = [(0, 1800.0), *([later] if later else [])]
        of_all = capped(POWER_SCOPE_REGION, "", *steps)
        decided = told(processor, 1, of_p1, of_all, submitted("b", T0_US + 1, nodes=4))
        assert len(on(decided, "p1").power.shortages) == 2
        [_, watts] = against(decided, "p1")
        assert (watts.until_us, watts.by) == expected


@pytest.mark.parametrize("of", [LIMIT_SUBJECT_USER, LIMIT_SUBJECT_ACCOUNT])
def test_a_job_over_a_limit_of_jobs_is_told_whose_it_is_and_what_is_left_of_it(of: Any) -> None:
    whose = {"user": "ada", "account": "physics"}
    by = whose["user" if of == LIMIT_SUBJECT_USER else "account"]
    processor = full()
    feed(processor, [limits(of, by, most_running_jobs=1)])
    waits = [submitted(name, T0_US + 1, **whose) for name in "bc"]
    decided = told(processor, 1, *waits)
    limit = constraint("LIMIT", needed=1, available=0, unit="jobs", by=by)
    assert list(decided.constraints) == [limit]
    assert against(decided, "p1") == [limit]


def test_a_limit_of_nodes_that_was_lowered_below_what_is_held_leaves_less_than_none() -> None:
    processor = placement(policy=Policy.BASE)
    round_of(processor, 0, submitted("a", nodes=2, user="ada"))
    lowered = limits(LIMIT_SUBJECT_USER, "ada", end_us(0), most_nodes=1)
    decided = told(processor, 1, lowered, submitted("b", T0_US + 1, nodes=2, user="ada"))
    limit = constraint("LIMIT", needed=2, available=-1, unit="nodes", by="ada")
    assert against(decided, "p1") == [limit]
    limit.cluster = "p1"
    assert list(decided.constraints) == [limit]


def test_a_job_that_waits_for_another_names_it() -> None:
    processor = full()
    for number, awaited in ((1, "a"), (2, "nobody")):
        depends_on = after(DEPENDENCY_CONDITION_AFTER_OK, awaited)
        job = submitted(f"b{number}", T0_US + number, depends_on=depends_on)
        decided = told(processor, number, job)
        assert list(decided.constraints) == [constraint("DEPENDENCY", by=awaited)]
        assert against(decided, "p1") == [constraint("DEPENDENCY", by=awaited)]


def test_a_held_job_is_held_until_somebody_acts() -> None:
    processor = full()
    decided = told(processor, 1, submitted("b", T0_US + 1), held("b", T0_US + 2, "check input"))
    assert list(decided.constraints) == [constraint("HOLD")]
    assert against(decided, "p1") == [constraint("HOLD")]


def test_a_job_that_fits_only_on_a_cluster_that_is_lost_waits_for_it() -> None:
    processor = placement()
    feed(processor, [declared("p1", 8, T0_US + 1)])
    job = submitted("a", T0_US + 2, nodes=6)
    decided = told(processor, 0, lost("p1", T0_US + 2), job)
    assert list(decided.constraints) == [constraint("LOST_CLUSTER", cluster="p1")]
    assert against(decided, "p1") == [constraint("LOST_CLUSTER")]
    misfit = {"needed": 6, "available": 4, "unit": "nodes"}
    assert against(decided, "p2") == [constraint("MISFIT", **misfit)]


def test_a_job_that_may_fit_on_a_cluster_that_is_lost_names_it() -> None:
    processor = placement()
    decided = told(processor, 0, lost("p2", T0_US + 1), submitted("a", T0_US + 2, nodes=6))
    assert list(decided.constraints) == [constraint("LOST_CLUSTER", by="p2")]


def test_drained_nodes_are_told_of_beside_those_that_are_not_free() -> None:
    processor = full()
    feed(processor, [drained("p1", T0_US + 1, "p1-0003")])
    decided = told(processor, 1, submitted("b", T0_US + 2, nodes=2))
    few, gone = against(decided, "p1")
    assert (few.kind, few.available) == (constraint("CAPACITY").kind, 0)
    assert gone == constraint("DRAINED_NODES")


def test_a_job_waits_for_a_plan_until_its_time_and_for_no_cluster_that_the_plan_leaves_out() -> (
    None
):
    processor = placement()
    taken = [submitted("a", nodes=4), submitted("x", nodes=4)]
    round_of(processor, 0, *taken)
    round_of(processor, 1, submitted("b", T0_US + 1))
    from_us = end_us(5)
    round_of(processor, 2, proposed(1, item("b", "p2", not_before_us=from_us)))
    answer = answered(processor, "b")
    assert against(answer, "p2") == [constraint("PLAN", until_us=from_us)]
    assert against(answer, "p1") == [constraint("PLAN", by="p2")]
    assert list(answer.constraints) == [constraint("PLAN", until_us=from_us, cluster="p2")]


def test_where_the_policy_leaves_a_cluster_out_the_best_one_is_named() -> None:
    decided = told(full(), 1, submitted("b", T0_US + 1, nodes=4))
    assert against(decided, "p2") == [constraint("POLICY", by="p1")]


def test_who_started_elsewhere_before_its_turn_came_was_not_tried() -> None:
    [start] = round_of(placement(), 0, submitted("a"))
    assert start.cluster == "p1"
    assert against(start, "p1") == []
    assert against(start, "p2") == [constraint("NOT_TRIED", by="p1")]


def test_what_is_news_since_the_last_round_was_not_tried_either() -> None:
    processor = full()
    round_of(processor, 1, submitted("b", T0_US + 1, nodes=4))
    feed(processor, [submitted("c", T0_US + 2)])
    assert list(answered(processor, "c").constraints) == [constraint("NOT_TRIED")]


def test_an_account_that_has_nothing_left_is_named() -> None:
    empty = AccountStanding(
        account="physics", number=1, standing=STANDING_REFUSED, allocated_su="40"
    )
    job = submitted("a", T0_US + 1, account="physics")
    decided = told(placement(), 0, event("pricing/physics/1", empty, T0_US), job)
    assert list(decided.constraints) == [constraint("ACCOUNT", by="physics")]


def test_what_a_cluster_lacks_is_counted_in_its_own_unit_or_not_at_all() -> None:
    gpus = Misfit("p1", MISFIT_KIND_RESOURCE, "no GPUs", 2, 0, "gpu")
    found = constraints.Constraint.of_misfit(gpus)
    assert (found.needed, found.available, found.unit) == (2, 0, "gpu")
    binaries = Misfit("p1", MISFIT_KIND_ARCHITECTURE, "has binaries for x86_64")
    found = constraints.Constraint.of_misfit(binaries)
    assert (found.needed, found.available, found.unit) == (None, None, "")
