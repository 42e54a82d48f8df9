"""Limits of users and accounts, and accounts that are empty, bind their jobs and nobody else's."""

from functools import reduce
from typing import Any

import pytest
from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_REFUSED,
    STANDING_WARNED,
    AccountStanding,
    Standing,
)
from coplace.v1.control_pb2 import (
    LIMIT_SUBJECT_ACCOUNT,
    LIMIT_SUBJECT_QOS,
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
    LimitSubject,
    NodeClass,
)
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_LIMIT
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.placement.state.limits import NOTHING, Held, Usage
from tests.unit.shared.placement.region import (
    T0_US,
    declared,
    end_us,
    event,
    feed,
    finished,
    limits,
    placement,
    round_of,
    saved,
    starts,
    submitted,
    verdict,
)

ADA_ONE_JOB = limits(LIMIT_SUBJECT_USER, "ada", most_running_jobs=1)


def limited(*declared: Event, nodes: int = 4) -> Placement:
    processor = placement(nodes, Policy.BASE)
    feed(processor, declared)
    return processor


def test_a_job_over_its_users_limit_waits_with_that_reason_and_blocks_nobody() -> None:
    processor = limited(ADA_ONE_JOB)
    jobs = [submitted(name, T0_US + n) for n, name in enumerate("abc")]
    decided = round_of(processor, 0, *jobs, submitted("d", T0_US + 3, user="bob"))
    assert starts(decided) == ["a", "d"]
    assert [verdict(d) for d in decided if d.job_id in "bc"] == ["queued"] * 2
    assert decided[-1].reason == "user ada may run 1 jobs at once and runs 1"
    assert {c.constraint for c in decided[-1].candidates if c.cluster == "p1"} == {
        "user ada may run 1 jobs at once and runs 1"
    }
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]
    lifted = limits(LIMIT_SUBJECT_USER, "ada", end_us(1))
    assert starts(round_of(processor, 2, lifted)) == ["c"]


def test_a_job_over_its_limit_holds_no_reservation() -> None:
    processor = limited(ADA_ONE_JOB)
    big = submitted("b", T0_US + 1, nodes=4)
    long = submitted("c", T0_US + 2, user="bob", walltime_s=9000.0)
    decided = round_of(processor, 0, submitted("a"), big, long)
    assert starts(decided) == ["a", "c"]
    assert not any(d.HasField("reservation") for d in decided)


def test_nodes_of_an_account_are_limited_together() -> None:
    processor = limited(limits(LIMIT_SUBJECT_ACCOUNT, "physics", most_nodes=3))
    others = [submitted("b", T0_US + 1, user="bob", nodes=2), submitted("c", T0_US + 2)]
    decided = round_of(processor, 0, submitted("a", nodes=2), *others)
    assert starts(decided) == ["a", "c"]
    assert decided[-1].reason == (
        "p1: account physics may hold 3 nodes at once, holds 3 and needs 2 more"
    )
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_a_limit_for_nobody_is_rejected() -> None:
    with pytest.raises(RejectedError, match="subject"):
        placement().handle(limits(LIMIT_SUBJECT_UNSPECIFIED, "ada"))
    with pytest.raises(RejectedError, match="name"):
        placement().handle(limits(LIMIT_SUBJECT_USER, ""))


def test_a_qos_has_its_jobs_together_and_each_user_some_of_them() -> None:
    of_all = limits(LIMIT_SUBJECT_QOS, "long", most_running_jobs=3)
    of_each = limits(LIMIT_SUBJECT_QOS, "long", each=LIMIT_SUBJECT_USER, most_running_jobs=2)
    processor = limited(of_all, of_each)
    users = ["ada", "ada", "ada", "bob", "bob"]
    jobs = [
        submitted(name, T0_US + n, user=user, qos="long")
        for n, (name, user) in enumerate(zip("abcde", users, strict=True))
    ]
    decided = round_of(processor, 0, *jobs, submitted("free", T0_US + 9))
    assert starts(decided) == ["a", "b", "d", "free"]
    reasons = {each.job_id: each.reason for each in decided if verdict(each) == "queued"}
    assert reasons == {
        "c": "qos long may run 3 jobs at once and runs 3",
        "e": "qos long may run 3 jobs at once and runs 3",
    }
    # Bob's next is within both as soon as one of ada's ends; ada's own third is not.
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["c"]
    assert starts(round_of(processor, 2, finished("d", end_us(1)))) == ["e"]


def test_each_account_has_a_limit_of_a_qos_for_itself() -> None:
    each = limits(LIMIT_SUBJECT_QOS, "long", each=LIMIT_SUBJECT_ACCOUNT, most_nodes=2)
    jobs = [
        submitted("a", qos="long", nodes=2),
        submitted("b", T0_US + 1, qos="long"),
        submitted("c", T0_US + 2, qos="long", account="bio"),
    ]
    decided = round_of(limited(each), 0, *jobs)
    assert starts(decided) == ["a", "c"]
    [b] = [each.reason for each in decided if each.job_id == "b"]
    assert b == "p1: account physics of qos long may hold 2 nodes at once, holds 2 and needs 1 more"


def test_cores_and_what_jobs_ask_for_beside_them_are_limited() -> None:
    gpus = [NodeClass(nodes=4, memory_gib=64.0, resources={"gpu": 4})]
    cores = limits(LIMIT_SUBJECT_USER, "ada", most_cores=20)
    of_gpus = limits(LIMIT_SUBJECT_ACCOUNT, "bio", most_resources={"gpu": 5})
    processor = limited(declared("p1", 4, T0_US + 1, node_classes=gpus), cores, of_gpus)
    asks: dict[str, Any] = {"cores_per_unit": 6, "units_per_node": 1, "clusters": ["p1"]}
    bio = asks | {"user": "bob", "account": "bio", "resources_per_unit": {"gpu": 3}}
    jobs = [
        submitted("a", nodes=3, **asks),
        submitted("b", T0_US + 1, **asks),
        submitted("c", T0_US + 2, **bio),
        submitted("d", T0_US + 3, **bio),
    ]
    decided = round_of(processor, 0, *jobs)
    assert starts(decided) == ["a", "c"]
    waits = {each.job_id: each for each in decided if verdict(each) == "queued"}
    assert waits["b"].reason == (
        "p1: user ada may hold 20 cores at once, holds 18 and needs 6 more"
    )
    assert waits["d"].reason == "p1: account bio may hold 5 gpu at once, holds 3 and needs 3 more"
    [limit] = [c for c in waits["d"].constraints if c.by == "bio"]
    assert (limit.kind, limit.unit, limit.needed, limit.available) == (
        *(CONSTRAINT_KIND_LIMIT, "gpu", 3, 2),
    )
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_what_runs_may_take_at_most_so_many_node_hours_to_its_end() -> None:
    processor = limited(limits(LIMIT_SUBJECT_USER, "ada", most_node_hours=2.5))
    jobs = [
        submitted("a", nodes=2),
        submitted("b", T0_US + 1),
        submitted("c", T0_US + 2, walltime_s=1800.0),
    ]
    decided = round_of(processor, 0, *jobs)
    assert starts(decided) == ["a", "c"]
    [b] = [each.reason for each in decided if each.job_id == "b"]
    assert b == "p1: user ada may hold 2.5 node-hours at once, holds 2.5 and needs 1 more"
    assert starts(round_of(processor, 1, finished("a", end_us(0)))) == ["b"]


def test_what_is_held_is_listed_by_whoever_has_most_of_it() -> None:
    each = limits(LIMIT_SUBJECT_QOS, "long", each=LIMIT_SUBJECT_USER, most_nodes=9)
    processor = limited(each, limits(LIMIT_SUBJECT_QOS, "long", most_nodes=20))
    jobs = [
        submitted("a", qos="long", nodes=2),
        submitted("b", T0_US + 1, qos="long", user="bob", nodes=1),
    ]
    round_of(processor, 0, *jobs)
    together, of_each = processor.queries.limits().limits
    assert (of_each.limit.each, of_each.who, of_each.nodes) == (LIMIT_SUBJECT_USER, "ada", 2)
    assert (together.who, together.nodes, together.running_jobs) == ("", 3, 2)
    assert (together.cores, together.node_hours) == (144, 3.0)


def test_what_runs_is_counted_as_its_cluster_is_declared_now() -> None:
    lived = limited(limits(LIMIT_SUBJECT_USER, "ada", most_cores=150))
    assert starts(round_of(lived, 0, submitted("a"))) == ["a"]
    round_of(lived, 1, declared("p1", 4, end_us(0), cores_per_node=96))
    killed = Placement(saved(lived.changes()), PolicySettings(policy=Policy.BASE), 7.0)
    words = "p1: user ada may hold 150 cores at once, holds 96 and needs 96 more"
    for processor in lived, killed:
        [b] = round_of(processor, 2, submitted("b", end_us(1), clusters=["p1"]))
        assert (verdict(b), b.reason) == ("queued", words)


def test_both_limits_of_a_qos_are_remembered_and_lifted_one_by_one() -> None:
    of_all = limits(LIMIT_SUBJECT_QOS, "long", most_running_jobs=1)
    of_each = limits(LIMIT_SUBJECT_QOS, "long", each=LIMIT_SUBJECT_USER, most_running_jobs=1)
    lived = limited(of_all, of_each)
    killed = Placement(saved(lived.changes()), PolicySettings(policy=Policy.BASE), 7.0)
    jobs = [submitted(name, T0_US + n, qos="long") for n, name in enumerate("abc")]
    lifted = limits(LIMIT_SUBJECT_QOS, "long", end_us(0))
    for processor in lived, killed:
        assert starts(round_of(processor, 0, *jobs)) == ["a"]
        assert starts(round_of(processor, 1, lifted)) == []
        mine = limits(LIMIT_SUBJECT_QOS, "long", end_us(1), each=LIMIT_SUBJECT_USER)
        assert starts(round_of(processor, 2, mine)) == ["b", "c"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 3)), max_size=20)
)
def test_what_is_held_adds_up_however_jobs_come_and_go(
    steps: list[tuple[str, int, int]],
) -> None:
    jobs: list[Usage] = []
    held = Held()
    for name, nodes, gpus in steps:
        if jobs and nodes == 4:
            held.count(jobs.pop(), -1)
            continue
        counted = Usage(1, nodes, nodes * 8, nodes * 60, ((name, gpus),) if gpus else ())
        jobs.append(counted)
        held.count(counted)
        assert held.usage == reduce(Usage.plus, jobs)
    while jobs:
        held.count(jobs.pop(), -1)
    assert held.usage == NOTHING


@pytest.mark.parametrize(
    ("subject", "each"),
    [
        (LIMIT_SUBJECT_USER, LIMIT_SUBJECT_USER),
        (LIMIT_SUBJECT_ACCOUNT, LIMIT_SUBJECT_QOS),
        (LIMIT_SUBJECT_QOS, LIMIT_SUBJECT_QOS),
    ],
)
def test_nobody_has_a_limit_for_itself_within_what_it_is_not_part_of(
    subject: LimitSubject.ValueType, each: LimitSubject.ValueType
) -> None:
    with pytest.raises(RejectedError, match="each"):
        placement().handle(limits(subject, "x", each=each, most_nodes=1))


EMPTY = "account physics has used up its 40.000000 SU"


def stands(standing: Standing.ValueType, number: int, time_us: int) -> Event:
    told = AccountStanding(
        account="physics", number=number, standing=standing, allocated_su="40.000000"
    )
    return event(f"pricing/physics/{number}", told, time_us)


def test_jobs_of_an_empty_account_wait_with_that_reason_until_it_is_funded() -> None:
    processor = limited(stands(STANDING_WARNED, 1, T0_US))
    assert starts(round_of(processor, 0, submitted("told", account="physics"))) == ["told"]
    empty = stands(STANDING_REFUSED, 2, T0_US)
    other = submitted("b", T0_US + 2, account="bio")
    decided = round_of(processor, 1, empty, submitted("a", T0_US + 1, account="physics"), other)
    assert starts(decided) == ["b"]
    assert [d.reason for d in decided if d.job_id == "a"] == [EMPTY]
    funded = stands(STANDING_FUNDED, 3, end_us(0))
    assert starts(round_of(processor, 2, funded)) == ["a"]


def test_an_account_is_funded_again_that_ran_empty_under_a_clock_that_was_ahead() -> None:
    processor = placement(4, Policy.BASE)
    ahead = stands(STANDING_REFUSED, 1, end_us(200))
    assert starts(round_of(processor, 0, ahead, submitted("a", T0_US + 1, account="physics"))) == []
    assert starts(round_of(processor, 1, stands(STANDING_FUNDED, 2, end_us(0)))) == ["a"]


def test_a_restart_remembers_who_is_empty() -> None:
    processor = placement(4, Policy.BASE)
    round_of(processor, 0, stands(STANDING_REFUSED, 1, T0_US))
    state = saved(processor.changes())
    again = Placement(state, PolicySettings(Policy.BASE), remember_days=1.0)
    assert starts(round_of(again, 1, submitted("a", end_us(0), account="physics"))) == []
