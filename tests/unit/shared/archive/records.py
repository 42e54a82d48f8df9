"""Records of tests of the archive."""

from typing import Final

from hypothesis import strategies as st

from shared.archive.record import ArchivedRecord

TOPIC: Final = "jobs.events"
TOPIC_ID: Final = "00ff"
T0_MS: Final = 1_767_225_600_000
_OF_COPLACE: Final = ("ce_id", "ce_type", "ce_source", "ce_time", "traceparent")
_TIMES: Final = (
    b"2026-01-01T00:00:30.000000Z",
    b"2026-01-01T00:00:30Z",
    b"2026-01-01T01:00:30.000000+01:00",
    b"9999-12-31T23:59:59.999999Z",
    b"yesterday",
)


def record(
    offset: int,
    value: bytes | None = b"v",
    *,
    key: bytes | None = b"north/alpha/1",
    kafka_partition: int = 0,
    time_ms: int | None = None,
) -> ArchivedRecord:
    """A record with the headers of an event, a second after the one before."""
    headers = (
        ("ce_id", f"north/coplace.v1.JobSubmitted/{offset}".encode()),
        ("ce_type", b"coplace.v1.JobSubmitted"),
        ("ce_source", b"north"),
        ("ce_time", b"2026-01-01T00:00:30.000000Z"),
    )
    at_ms = T0_MS + 1_000 * offset if time_ms is None else time_ms
    return ArchivedRecord(TOPIC, kafka_partition, offset, at_ms, key, value, headers)


_VALUES: Final = st.none() | st.binary(max_size=60)
_TEXTS: Final = st.sampled_from([b"", b"a", b"\xff", b"\x00", "ü".encode(), *_TIMES])
_NAMES: Final = st.sampled_from([*_OF_COPLACE, "x", "", "\udcff"])
_HEADERS: Final = st.lists(st.tuples(_NAMES, _TEXTS), max_size=6).map(tuple)


@st.composite
def any_records(draw: st.DrawFn) -> list[ArchivedRecord]:
    """Records of every kind, with gaps in their offsets, as markers and aborted ones leave them."""
    offset, found = draw(st.integers(0, 40)), []
    for _ in range(draw(st.integers(0, 40))):
        offset += draw(st.sampled_from([1, 1, 1, 2, 5, 60]))
        time_ms = draw(st.sampled_from([-1, 0, T0_MS + offset, 2**62, -(2**62)]))
        key, value, headers = draw(_VALUES), draw(_VALUES), draw(_HEADERS)
        found.append(ArchivedRecord(TOPIC, 0, offset, time_ms, key, value, headers))
    return found
