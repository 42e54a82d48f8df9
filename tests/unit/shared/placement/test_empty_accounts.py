"""Nothing starts that an empty account pays, and nobody else waits for it."""

from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_REFUSED,
    STANDING_WARNED,
    AccountStanding,
    Standing,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from shared.catalogue.event import Event
from shared.domain.eamc_policy import Policy
from shared.placement.candidates.candidate import Rules
from shared.placement.processor import Placement
from tests.unit.shared.placement.region import (
    T0_US,
    end_us,
    event,
    placement,
    round_of,
    submitted,
)

EMPTY = "account physics has used up its 40.000000 SU"


def stands(standing: Standing.ValueType, number: int, time_us: int) -> Event:
    told = AccountStanding(
        account="physics", number=number, standing=standing, allocated_su="40.000000"
    )
    return event(f"pricing/physics/{number}", told, time_us)


def started(decided: list[PlacementDecided]) -> list[str]:
    return [d.job_id for d in decided if d.verdict == VERDICT_START]


def test_jobs_of_an_empty_account_wait_with_that_reason_until_it_is_funded() -> None:
    processor = placement(4, Policy.BASE)
    empty = stands(STANDING_REFUSED, 1, T0_US)
    other = submitted("b", T0_US + 2, account="bio")
    decided = round_of(processor, 0, empty, submitted("a", T0_US + 1, account="physics"), other)
    assert started(decided) == ["b"]
    assert [d.reason for d in decided if d.job_id == "a"] == [EMPTY]
    funded = stands(STANDING_FUNDED, 2, end_us(0))
    assert started(round_of(processor, 1, funded)) == ["a"]


def test_an_account_is_funded_again_that_ran_empty_under_a_clock_that_was_ahead() -> None:
    processor = placement(4, Policy.BASE)
    ahead = stands(STANDING_REFUSED, 1, end_us(200))
    assert (
        started(round_of(processor, 0, ahead, submitted("a", T0_US + 1, account="physics"))) == []
    )
    assert started(round_of(processor, 1, stands(STANDING_FUNDED, 2, end_us(0)))) == ["a"]


def test_jobs_of_an_account_that_is_only_told_start() -> None:
    processor = placement(4, Policy.BASE)
    warned = stands(STANDING_WARNED, 1, T0_US)
    decided = round_of(processor, 0, warned, submitted("a", T0_US + 1, account="physics"))
    assert started(decided) == ["a"]


def test_a_restart_remembers_who_is_empty() -> None:
    processor = placement(4, Policy.BASE)
    round_of(processor, 0, stands(STANDING_REFUSED, 1, T0_US))
    state = {key: value for key, value in processor.changes().items() if value is not None}
    again = Placement(state, Rules(Policy.BASE), remember_days=1.0)
    assert started(round_of(again, 1, submitted("a", end_us(0), account="physics"))) == []
