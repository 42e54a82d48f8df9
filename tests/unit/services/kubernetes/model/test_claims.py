"""Words on grants outlive their process in an annotation, whoever else writes there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kubernetes.model.claims import AfterStop, GrantClaim, StopRequest

STARTED = GrantClaim(
    3,
    2,
    is_live=True,
    declined=2,
    cluster="beta",
    freq_ghz=2.1,
    walltime_s=60.5,
    at_us=1_767_300_000_000_000,
    nodes=("n[1-2]",),
)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert GrantClaim.parse(STARTED.to_json()) == STARTED


@given(st.builds(GrantClaim))
def test_what_is_read_can_be_told_whoever_wrote_it(claim: GrantClaim) -> None:
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
