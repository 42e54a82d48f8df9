"""An event that ingest refuses keeps no other back; a door that is shut for all refuses none."""

from collections.abc import Mapping, Sequence

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.calls import UnansweredError
from services.slurm.adapters.sending import send
from tests.unit.services.slurm.region import PlayedRegion, unanswered


class Refusing(PlayedRegion):
    """Refuses calls with one of these ids."""

    def __init__(self, code: grpc.StatusCode, *ids: str) -> None:
        super().__init__()
        self._code, self._ids = code, ids

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        if any(event.id[:1] in self._ids for event in events):
            raise unanswered(self._code, "no")
        return super().publish_all(events)


EVENTS = [Envelope(id="a"), Envelope(id="b")]


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED]
)
def test_one_that_is_refused_keeps_no_other_from_being_taken(code: grpc.StatusCode) -> None:
    region = Refusing(code, "a")
    assert list(send(region, EVENTS)) == [0]
    assert [event.id for event in region.told] == ["b"]


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED]
)
def test_a_door_that_is_shut_for_all_refuses_nothing(code: grpc.StatusCode) -> None:
    with pytest.raises(UnansweredError):
        send(Refusing(code, "a", "b"), EVENTS)


def test_an_event_that_is_too_large_is_refused() -> None:
    large = Envelope(id="a" + "x" * 300_000)
    region = Refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "a")
    assert list(send(region, [large, EVENTS[1]])) == [0]
