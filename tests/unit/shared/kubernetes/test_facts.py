"""The end of a run says what it used, and when it is plausible that it ended."""

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobSubmitted

from shared.kubernetes.claims import GrantClaim
from shared.kubernetes.facts import RunUse, plausible_end_us, run_finished

ASKED = JobSubmitted(job_id="north/alpha/a/b/c/1", nodes=3, millicores_per_unit=500, user="u")
LIVE = GrantClaim(
    *(7, 2, True),
    cluster="alpha",
    freq_ghz=2.1,
    nodes=("n[1-2]",),
    node_units=(2, 1),
    run_uid="a",
)
USE = RunUse(10, 20, "alpha", "gold", 1500, {"gpu": 3})


def test_a_run_has_its_grant_its_units_and_its_thousandths_of_cores() -> None:
    end = run_finished("north", ASKED, LIVE, JOB_OUTCOME_COMPLETED, USE).job_finished
    assert (end.attempt, end.grant, end.nodes, end.freq_ghz) == (2, 7, 2, 2.1)
    assert (end.cores_per_node, end.cores, end.millicores) == (1, 2, 1500)
    assert (end.started_at_us, end.ended_at_us, dict(end.resources)) == (10, 20, {"gpu": 3})


def test_what_never_began_has_what_it_asked_for_and_no_grant() -> None:
    claim = GrantClaim(declined=7)
    end = run_finished("north", ASKED, claim, JOB_OUTCOME_COMPLETED, USE).job_finished
    assert (end.nodes, end.grant, end.freq_ghz) == (3, 0, 0)


@pytest.mark.parametrize(
    ("at_us", "ended_us"),
    [(50, 50), (9, 10), (7, 100), (101, 100), (100, 100)],
)
def test_an_end_that_cannot_be_is_when_it_was_seen(at_us: int, ended_us: int) -> None:
    assert plausible_end_us(at_us, begin_us=10, now_us=100, earliest_us=8) == ended_us


def test_no_run_ends_before_it_began() -> None:
    assert plausible_end_us(0, begin_us=200, now_us=100, earliest_us=1) == 200
