"""Which nodes are off is declared once, and when it changes."""

import grpc
import pytest
from structlog.testing import capture_logs

from coplace_client.calls import UnansweredError
from services.ingest.model import Intake
from services.slurm.adapters.node_power import NodePowerPublisher
from services.slurm.model.node_power import Boot
from shared.catalogue.topics import Topics
from tests.unit.services.slurm.region import PlayedRegion, unanswered

ON = [{"name": "n1", "state": ["IDLE"]}, {"name": "n2", "state": ["IDLE"]}]
OFF = [ON[0], {"name": "n2", "state": ["IDLE", "POWERED_DOWN"]}]


def off_in(region: PlayedRegion) -> list[list[str]]:
    intake = Intake(Topics())
    for event in region.told:
        intake.accept(event, 1_900_000_000.0)
    return [list(event.node_power_declared.off) for event in region.told]


def test_it_is_declared_at_first_and_where_it_changed() -> None:
    region = PlayedRegion()
    publisher = NodePowerPublisher(region, "north", "alpha", Boot())
    for shown in (ON, ON, OFF, OFF, ON):
        publisher.tell(shown)
    assert off_in(region) == [[], ["n2"], []]


def test_what_was_not_answered_is_declared_again_and_what_is_refused_is_noted_once() -> None:
    region = PlayedRegion()
    publisher = NodePowerPublisher(region, "north", "alpha", Boot())
    region.failures = [unanswered(grpc.StatusCode.UNAVAILABLE, "away")]
    with pytest.raises(UnansweredError):
        publisher.tell(OFF)
    region.failures = [unanswered(grpc.StatusCode.INVALID_ARGUMENT, "no")]
    with capture_logs() as noted:
        publisher.tell(OFF)
        publisher.tell(OFF)
    assert [each["event"] for each in noted] == ["not declared which nodes are off"]
    assert off_in(region) == []
