"""Means of the samples of a record, by node: a keyed stage, so that telemetry has as many"""

from collections.abc import Iterable, Mapping
from typing import Final

from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.telemetry_pb2 import NodeSamples

from coplace_client.bounds import READING_W
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.event import Event, Publish
from shared.streams.stages.stage import AlreadyAppliedError, Round
from shared.streams.state.state import State, key_of

STAGE: Final = "prediction.nodes"
INPUT: Final = "telemetry.nodes"
OUTPUT: Final = "prediction.readings"
# Of a node so many records are distinguished from their copies: clients send again what got no
# answer, and that is among the newest.
REMEMBERED: Final = 8
_TABLE: Final = "seen"


class NodeStatistics:
    """Folds telemetry.nodes into prediction.readings, record by record; what was published is not
    published again."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._state = State(restored)
        self._seen = self._state.table(_TABLE, list[str])
        self._state.require_all_read()

    def handle(self, event: Event) -> Iterable[Publish]:
        """Publish what one record showed. Raises RejectedError for readings that cannot be used,
        AlreadyAppliedError for a copy."""
        message = event.payload
        if not isinstance(message, NodeSamples):
            return []
        measured = node_power(message)
        seen = self._seen.get(event.key) or []
        if event.id in seen:
            raise AlreadyAppliedError(event.id)
        self._seen.put(event.key, [*seen, event.id][-REMEMBERED:])
        return [_published(event, measured)]

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Publish nothing: nothing waits for the end of a round."""
        return []

    def changes(self) -> Mapping[str, bytes | None]:
        """Return records of what changed."""
        return self._state.changes()


def node_of(key: str, _value: bytes) -> str:
    """Return the node that a record of the changelog belongs to."""
    return key.removeprefix(key_of(_TABLE, ""))


def node_power(message: NodeSamples) -> NodePowerMeasured:
    """Return the mean of the samples, W, and when they were taken. Raises RejectedError where there
    are none, or such as no meter shows."""
    for field in ("node", "cluster", "node_model"):
        require_text(field, getattr(message, field))
    if not message.samples:
        raise RejectedError("samples", "must hold at least one reading")
    powers_w = [sample.power_w for sample in message.samples]
    for power_w in powers_w:
        READING_W.require("samples.power_w", power_w)
    times_us = [sample.time_us for sample in message.samples]
    return NodePowerMeasured(
        node=message.node,
        cluster=message.cluster,
        node_model=message.node_model,
        power_w=sum(powers_w) / len(powers_w),
        samples=len(powers_w),
        first_at_us=min(times_us),
        last_at_us=max(times_us),
    )


def _published(cause: Event, message: NodePowerMeasured) -> Publish:
    event = Event(
        id=f"{STAGE}/{message.DESCRIPTOR.full_name}/{cause.id}",
        source=STAGE,
        time_us=cause.time_us,
        key=cause.key,
        payload=message,
        traceparent=cause.traceparent,
    )
    return Publish(OUTPUT, event)
