import pytest
from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.energy_pb2 import CoefficientsPublished, SignatureUpdated
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.energy.appdb_cache.model import CachedRow, newest, row_of
from shared.catalogue.event import Event
from tests.unit.services.energy.api.appdb import coefficients, row


def event(payload: Message, key: str = "key") -> Event:
    """An event at 7 us."""
    return Event("id", "source", 7, key, payload)


def test_a_row_is_the_whole_message_under_the_events_key_and_time() -> None:
    state = row("hpcg")
    found = row_of(event(SignatureUpdated.FromString(state), "hpcg|gold"))
    assert found == CachedRow("hpcg|gold", 7, state)


def test_coefficients_are_rows_too() -> None:
    found = row_of(event(coefficients(), "gold"))
    assert found is not None
    assert CoefficientsPublished.FromString(found.state) == coefficients()


def test_a_rounds_barrier_changes_nothing() -> None:
    assert row_of(event(RoundEnded(round=3))) is None


def test_a_row_or_coefficients_that_cannot_be_projected_from_are_refused() -> None:
    broken, changed = SignatureUpdated.FromString(row("hpcg")), coefficients()
    broken.at[0].cpi = 0.0
    changed.a[0] = 2.0
    for payload, problem in ((broken, "cpi"), (changed, "sha256")):
        with pytest.raises(RejectedError, match=problem):
            row_of(event(payload))


def test_of_states_of_one_time_the_last_holds_and_an_older_one_never() -> None:
    rows = [
        CachedRow("a", 2, b"first"),
        CachedRow("a", 2, b"second"),
        CachedRow("a", 1, b"old"),
        CachedRow("b", 0, b"b"),
    ]
    assert {key: found.state for key, found in newest(rows).items()} == {"a": b"second", "b": b"b"}
