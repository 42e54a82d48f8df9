"""Events as lines of JSON."""

import json
from typing import Any

import pytest
from coplace.v1.prediction_pb2 import PowerModelPublished
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.event import Event
from shared.catalogue.event_json import UnknownKindError, event_of, plain
from tests.unit.shared.placement import region


@given(st.floats(allow_nan=False), st.integers(0, 2**62), st.text(min_size=1))
def test_an_event_returns_from_its_line_to_the_bit(
    walltime_s: float, submitted_us: int, user: str
) -> None:
    event = region.submitted("j", 1_800_000_000_123_456, "00-trace", walltime_s=walltime_s)
    event.payload.submitted_at_us = submitted_us  # type: ignore[attr-defined]
    event.payload.user = user  # type: ignore[attr-defined]
    again = event_of(json.loads(json.dumps(plain(event))))
    assert again == event
    assert again.payload.SerializeToString(deterministic=True) == event.payload.SerializeToString(
        deterministic=True
    )


def test_fields_that_this_version_does_not_know_are_dropped_and_kinds_are_named() -> None:
    model = region.coefficients("p1", 0.1)
    assert event_of(json.loads(json.dumps(plain(model)))) == model, "its SHA-256 is as it was"
    with pytest.raises(UnknownKindError, match=r"coplace\.v1\.OfTomorrow"):
        event_of(plain(region.submitted("j")) | {"type": "coplace.v1.OfTomorrow"})
    event = region.submitted("j")
    fields: dict[str, Any] = json.loads(json.dumps(plain(event)))
    fields["data"]["of_tomorrow"] = 1
    assert event_of(fields) == event


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"id": 7},
        {"source": None},
        {"time": "yesterday"},
        {"time": "2026-01-01T00:00:00"},
        {"data": None},
        {"data": [1]},
        {"data": "text"},
        {"data": {"nodes": "many"}},
        {"data": {"nodes": -1}},
        {"data": {"depends_on": {"a": 1}}},
        {"key": 3},
        {"traceparent": {}},
    ],
    ids=str,
)
def test_what_is_no_event_is_refused_by_field(change: dict[str, Any]) -> None:
    with pytest.raises(RejectedError):
        event_of(plain(region.submitted("j")) | change)
    fields = {k: v for k, v in plain(region.submitted("j")).items() if k not in change}
    if not change.keys() & {"key", "traceparent"}:
        with pytest.raises(RejectedError):
            event_of(fields)


def test_maps_are_written_in_the_order_of_their_keys() -> None:
    """Protobuf's own order depends on the process."""
    names = [f"model-{number}" for number in range(40)]
    for keys in (names, names[::-1]):
        payload = PowerModelPublished(fallback_power_w=dict.fromkeys(keys, 1.0))
        data = plain(Event("e", "s", 0, "k", payload))["data"]
        assert isinstance(data, dict)
        assert list(data["fallback_power_w"]) == sorted(names)
