"""Words on grants outlive their process in a record: they are read as they were written."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.kubernetes.claims import AfterStop, GrantClaim, StopRequest
from tests.unit.services.kubernetes.objects import LIVE

STARTED = replace(LIVE, grant=3, attempt=2, declined=2, cluster="beta", walltime_s=60.5)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert GrantClaim.of_fields(STARTED.to_fields()) == STARTED


@given(st.builds(GrantClaim))
def test_what_is_read_can_be_reported_or_is_refused(claim: GrantClaim) -> None:
    try:
        found = GrantClaim.of_fields(claim.to_fields())
    except RejectedError:
        return
    found.check()


def test_a_stop_is_read_as_it_was_written() -> None:
    stop = StopRequest(AfterStop.REQUEUE, "preempted", STARTED.at_us, ("n1",))
    assert StopRequest.of_fields(stop.to_fields()) == stop


@pytest.mark.parametrize("told", [{"grant": "x"}, {"then": "dance"}, {"grant": 1}])
def test_what_is_none_is_refused_and_nothing_says_nothing(told: dict[str, Any]) -> None:
    with pytest.raises(RejectedError):
        GrantClaim.of_fields(told)
    with pytest.raises(RejectedError):
        StopRequest.of_fields(told)
    assert GrantClaim.of_fields({}) == GrantClaim()
    assert StopRequest.of_fields({}) is None


def test_the_first_word_on_a_grant_holds_and_older_ones_have_theirs() -> None:
    assert [STARTED.has_answered(grant) for grant in (1, 2, 3, 4)] == [True, True, True, False]
    declined = STARTED.declining(4, 2)
    assert declined.is_live
    assert declined.has_answered(4)
    assert not STARTED.declining(3, 2).is_live


def test_the_next_start_is_of_the_next_attempt() -> None:
    assert STARTED.over().attempt == 3
    assert not STARTED.over().is_live
    assert GrantClaim().declining(1, 4).attempt == 4
