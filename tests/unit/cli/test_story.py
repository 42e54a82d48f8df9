"""One job's story: every event and decision of it, in words."""

import pytest
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_TIMED_OUT,
    JobCancelled,
    JobFinished,
    JobHeld,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import (
    ACTION_KIND_SET_PSTATE,
    VERDICT_ACTION,
    VERDICT_QUEUED,
    VERDICT_REJECTED,
    VERDICT_START,
    Action,
    PlacementDecided,
)
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from cli.story import describe_event, rows
from shared.catalogue.event import Event

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("payload", "what", "details"),
    [
        (
            JobSubmitted(nodes=4, walltime_s=5400, reference_cluster="a", user="u", account="x"),
            "submitted",
            "4 nodes, 1.50 h on a, u (x)",
        ),
        (
            JobSubmitted(nodes=8, cores_per_unit=6, walltime_s=3600, reference_cluster="a"),
            "submitted",
            "8 units of 6 cores, 1.00 h on a,  ()",
        ),
        (
            PlacementDecided(
                verdict=VERDICT_START, cluster="a", node_indices=[1, 2], freq_ghz=2.4, grant=3
            ),
            "to start",
            "on 2 nodes of a at 2.4 GHz, grant 3",
        ),
        (PlacementDecided(verdict=VERDICT_QUEUED, reason="no nodes"), "waits", "no nodes"),
        (PlacementDecided(verdict=VERDICT_REJECTED, reason="too wide"), "rejected", "too wide"),
        (
            PlacementDecided(
                verdict=VERDICT_ACTION, reason="a cap", action=Action(kind=ACTION_KIND_SET_PSTATE)
            ),
            "asked to set pstate",
            "a cap",
        ),
        (
            JobStarted(cluster="a", nodes=["n1"], freq_ghz=2.4),
            "started",
            "on 1 nodes of a at 2.4 GHz",
        ),
        (JobStarted(cluster="a", nodes=["n[1-3,7]", "m1"]), "started", "on 5 nodes of a"),
        (
            JobFinished(
                outcome=JOB_OUTCOME_TIMED_OUT,
                started_at_us=HOUR_US,
                ended_at_us=3 * HOUR_US,
                energy_j=7.2e6,
            ),
            "timed out",
            "after 2.00 h, 2.00 kWh",
        ),
        (JobFinished(ended_at_us=HOUR_US), "unspecified", "after 0.00 h"),
        (
            ChargeMade(price_su="1.5", state_of_practice_su="2", account="x", revision=2),
            "charged",
            "1.5 SU to x, in full 2 (revision 2)",
        ),
        (JobHeld(reason="a look"), "held", "a look"),
        (JobCancelled(), "cancelled", ""),
    ],
)
def test_each_event_is_reported_with_what_matters_of_it(
    payload: Message, what: str, details: str
) -> None:
    assert describe_event(payload) == (what, details)


def test_a_row_says_when_which_attempt_and_who() -> None:
    payload = JobStarted(attempt=2, cluster="a")
    [row] = rows([Event("id", "north/alpha", 1_767_225_600_000_000, "j", payload)])
    told_of = (row["time"], row["attempt"], row["what"], row["details"], row["source"])
    assert told_of == ("2026-01-01 00:00:00", 2, "started", "on 0 nodes of a", "north/alpha")
