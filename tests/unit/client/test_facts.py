"""What is not carried out is published once a grant, or an action, and ingest takes it."""

from coplace.v1.control_pb2 import NodesResumed
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import Action, PlacementDecided

from coplace_client.facts import PAYLOADS, action_refused, decline_event, fact
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
