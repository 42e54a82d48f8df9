"""Limits of users and accounts, and accounts that are empty, bind their jobs and nobody else's."""

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
    LIMIT_SUBJECT_UNSPECIFIED,
    LIMIT_SUBJECT_USER,
)

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.policy_settings import PolicySettings
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from tests.unit.shared.placement.region import (
    T0_US,
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
