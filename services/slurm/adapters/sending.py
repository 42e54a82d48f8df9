"""Hands facts to ingest, of which one may be such that the whole call is refused."""

from collections.abc import Mapping, Sequence
from typing import Final

import grpc
from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.calls import UnansweredError
from services.slurm.adapters.region import AskedRegion
from shared.process.clock import now_us
from shared.streams.stages.unit import EventTimeLimit

# What one event can cause for a whole call: alone it is refused, and the others are taken.
_OF_ONE: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
_DENIED: Final = grpc.StatusCode.PERMISSION_DENIED
# Smaller ones are taken by every ingest.
_LARGE_BYTES: Final = 262_144
_AHEAD_US: Final = EventTimeLimit.from_wall_clock().ahead_us


def latest_us() -> int:
    """Return until when a fact that is sent now may say that something happened, us."""
    return now_us() + _AHEAD_US


def send(region: AskedRegion, events: Sequence[Envelope]) -> Mapping[int, str]:
    """Hand over facts in order; return why some are refused, by their position. Raises
    UnansweredError where it is no fault of one of them."""
    try:
        return region.publish_all(events)
    except UnansweredError as error:
        if error.code not in _OF_ONE:
            raise
        return _one_by_one(region, events)


def _one_by_one(region: AskedRegion, events: Sequence[Envelope]) -> Mapping[int, str]:
    refused: dict[int, str] = {}
    denied: UnansweredError | None = None
    for at, event in enumerate(events):
        try:
            found = region.publish_all([event])
        except UnansweredError as error:
            if error.code not in _OF_ONE or _is_busy(error, event):
                raise
            denied = error if error.code is _DENIED else denied
            found = {0: str(error)}
        refused.update((at, why) for why in found.values())
    if denied is not None and 1 < len(events) == len(refused):
        raise denied  # that is who asks, and no fault of theirs
    return refused


def _is_busy(error: UnansweredError, event: Envelope) -> bool:
    """Return whether ingest takes no call now, and the event is not too large for it."""
    is_full = error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return is_full and event.ByteSize() < _LARGE_BYTES
