"""What is not carried out is published once a grant, or an action, and ingest takes it."""

from coplace.v1.control_pb2 import NodesResumed
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED, JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, Action, PlacementDecided

from coplace_client.facts import (
    PAYLOADS,
    action_refused,
    cancelled,
    decline_event,
    declined,
    ended,
    fact,
    started,
    submitted,
)
from services.ingest.model import Intake
from services.ingest.payloads import KINDS
from shared.catalogue.topics import Topics

NOW_US = 1_767_225_600_000_000


def accepted(event: Envelope) -> str:
    return Intake(Topics()).accept(event, NOW_US / 1e6).topic


def test_a_fact_is_known_by_its_source_its_type_and_what_it_is_about() -> None:
    told = fact("north", NodesResumed(cluster="alpha"), "alpha/1", NOW_US)
    assert told == Envelope(
        id="north/coplace.v1.NodesResumed/alpha/1",
        source="north",
        time_us=NOW_US,
        nodes_resumed=NodesResumed(cluster="alpha"),
    )


def test_all_that_ingest_takes_may_be_reported() -> None:
    assert sorted(PAYLOADS.values()) == sorted(KINDS)


def test_a_grant_is_declined_once_whenever_and_for_what_reason_it_is_reported() -> None:
    first, again = (
        decline_event("north", "j", 2, 3, why, NOW_US + i) for i, why in enumerate("ab")
    )
    assert first.id == again.id != decline_event("north", "j", 2, 4, "a", NOW_US).id
    assert (first.job_declined.attempt, first.job_declined.grant) == (2, 3)
    assert accepted(first) == "jobs.events"


def test_an_action_is_refused_once_by_its_number() -> None:
    decision = PlacementDecided(job_id="j", attempt=2, grant=3, action=Action(number=1))
    first, again = (action_refused("north", decision, "no", NOW_US + i) for i in (0, 1))
    decision.action.number = 2
    assert first.id == again.id != action_refused("north", decision, "no", NOW_US).id
    assert (first.job_action_refused.grant, first.job_action_refused.number) == (3, 1)
    assert accepted(first) == "jobs.events"


def test_a_resource_manager_reports_a_job_from_its_submission_to_its_end() -> None:
    job = JobSubmitted(
        job_id="north/alpha/1/1",
        attempt=1,
        app_id="lu.C",
        user="ada",
        account="physics",
        nodes=2,
        walltime_s=60,
        reference_cluster="alpha",
        submitted_at_us=NOW_US,
    )
    decision = PlacementDecided(
        job_id=job.job_id,
        attempt=1,
        verdict=VERDICT_START,
        cluster="alpha",
        freq_ghz=2.0,
        node_indices=[3, 4],
        node_units=[2, 1],
        cores_per_node=8,
        grant=5,
    )
    nodes, end_us = ["alpha-0003", "alpha-0004"], NOW_US + 2
    began = started("north", decision, nodes, NOW_US + 1)
    told = [
        submitted("north", job),
        began,
        ended("north", job, decision, (NOW_US + 1, end_us), outcome=JOB_OUTCOME_FAILED),
        declined("north", decision, "no room", NOW_US),
        cancelled("north", job.job_id, "no need", NOW_US),
    ]
    assert [accepted(each) for each in told] == ["jobs.events"] * 5
    assert list(began.job_started.nodes) == nodes
    assert (began.job_started.grant, list(began.job_started.node_units)) == (5, [2, 1])
    finished = told[2].job_finished
    assert (finished.nodes, finished.cores_per_node, finished.cores) == (2, 16, 24)
    assert (finished.user, finished.account, finished.grant) == ("ada", "physics", 5)
    assert finished.submitted_at_us == NOW_US
    assert finished.ended_at_us == end_us
    assert told[3] == decline_event("north", job.job_id, 1, 5, "no room", NOW_US)


def test_a_report_that_is_made_again_has_the_same_id() -> None:
    decision = PlacementDecided(job_id="j", attempt=2, cluster="alpha", grant=3)
    first, again = (started("north", decision, ["n"], at_us) for at_us in (NOW_US, NOW_US + 9))
    assert first.id == again.id == "north/coplace.v1.JobStarted/j/2"
