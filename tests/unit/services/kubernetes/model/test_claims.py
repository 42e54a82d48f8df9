"""Words on grants outlive their process in an annotation, whoever else writes there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kubernetes.model.claims import AfterStop, GrantClaim, StopRequest
from tests.unit.services.kubernetes.objects import LIVE

STARTED = replace(LIVE, grant=3, attempt=2, declined=2, cluster="beta", walltime_s=60.5)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert GrantClaim.parse(STARTED.to_json()) == STARTED


@given(st.builds(GrantClaim))
def test_what_is_read_can_be_reported_whoever_wrote_it(claim: GrantClaim) -> None:
    GrantClaim.parse(claim.to_json()).check()


def test_a_stop_is_read_as_it_was_written() -> None:
    stop = StopRequest(AfterStop.REQUEUE, "preempted", STARTED.at_us, ("n1",))
    assert StopRequest.parse(stop.to_json()) == stop


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"grant": "x"}', '{"then": "dance"}'])
def test_what_is_none_says_nothing(text: str) -> None:
    assert GrantClaim.parse(text) == GrantClaim()
    assert StopRequest.parse(text) is None


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
