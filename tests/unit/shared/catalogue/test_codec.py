"""Events survive the way to a record and back; whatever else arrives is refused by name."""

from dataclasses import replace

import pytest
from coplace.v1.jobs_pb2 import JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.catalogue.codec import Codec, count_unknown_fields
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from tests.support.messaging import CODEC, START_US, TOPICS, at_offset, submission

GOOD = at_offset(CODEC.encode(submission("job")), 7)
ELSEWHERE = TopicPartition("jobs.events", (GOOD.partition.kafka_partition + 1) % 4)
PRINTABLE = st.characters(categories=["L", "M", "N", "P", "S"], include_characters=" ")
LAST_US = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z


def with_header(name: str, value: bytes) -> Record:
    """The good record with one header replaced."""
    return replace(GOOD, headers=tuple({**dict(GOOD.headers), name: value}.items()))


@given(
    job=st.text(PRINTABLE, min_size=1, max_size=40),
    time_us=st.integers(0, LAST_US),
    traceparent=st.sampled_from(["", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]),
)
def test_an_event_survives_the_round_trip(job: str, time_us: int, traceparent: str) -> None:
    event = replace(submission(job).event, time_us=time_us, traceparent=traceparent)
    assert CODEC.decode(at_offset(CODEC.encode(Publish("jobs.events", event)), 0)) == event


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (replace(GOOD, headers=()), "ce_type: is missing"),
        (with_header("ce_id", b""), "ce_id: is missing"),
        (with_header("ce_id", b"\xff"), "ce_id: must be UTF-8"),
        (with_header("ce_id", b"a\x00b"), r"ce_id: must be printable, got 'a\\x00b'"),
        (with_header("ce_type", b"coplace.v1.ChargeMade"), "ce_type: .* is not in jobs.events"),
        (with_header("ce_time", b"yesterday"), "ce_time: must be RFC 3339"),
        (with_header("ce_time", b"2026-01-01T00:00:00"), "ce_time: must say its offset"),
        (with_header("ce_time", b"1969-01-01T00:00:00Z"), "ce_time: must not lie before 1970"),
        (with_header("traceparent", b"\xff"), "traceparent: must be UTF-8"),
        *(
            (with_header(name, b"x" * 4_097), f"{name}: has 4097 bytes, the limit is 4096")
            for name in ("ce_id", "ce_source", "traceparent")
        ),
        (replace(GOOD, key=b"\xff"), "key: must be UTF-8"),
        (replace(GOOD, key=b"another"), "key: must be 'job', got 'another'"),
        (replace(GOOD, value=None), "value: is missing"),
        (replace(GOOD, value=b"\xff\xff"), "value: must be a protobuf coplace.v1.JobSubmitted"),
        (replace(GOOD, value=b"\x0a\x02\xff\xfe"), "value: must be a protobuf"),
        (replace(GOOD, value=bytes(1_048_577)), "value: has 1048577 bytes, the limit is 1048576"),
        (replace(GOOD, partition=ELSEWHERE), "kafka_partition: must be"),
    ],
)
def test_a_bad_record_is_refused_by_the_name_of_what_is_wrong(
    record: Record, complaint: str
) -> None:
    with pytest.raises(RejectedError, match=complaint):
        CODEC.decode(record)


@given(
    value=st.none() | st.binary(max_size=200),
    key=st.binary(max_size=20),
    headers=st.dictionaries(
        st.sampled_from(["ce_id", "ce_type", "ce_source", "ce_time", "traceparent", "x"]),
        st.binary(max_size=30) | st.sampled_from([value for _, value in GOOD.headers]),
    ),
)
def test_any_bytes_are_decoded_or_refused(
    value: bytes | None, key: bytes, headers: dict[str, bytes]
) -> None:
    try:
        event = CODEC.decode(replace(GOOD, key=key, value=value, headers=tuple(headers.items())))
    except RejectedError:
        return
    assert event.type in TOPICS.spec("jobs.events").messages


def test_unknown_fields_are_ignored_and_counted() -> None:
    later = submission("job").event.payload.SerializeToString() + b"\xf8\x3f\x01"
    event = CODEC.decode(replace(GOOD, value=later))
    assert isinstance(event.payload, JobSubmitted)
    assert event.payload.attempt == 1
    assert count_unknown_fields(event) == 1


def test_what_no_reader_would_take_is_not_encoded() -> None:
    event = Event("id", "source", START_US, "job", JobStarted(job_id="job"))
    with pytest.raises(ValueError, match=r"prices\.charges does not hold coplace\.v1\.JobStarted"):
        CODEC.encode(Publish("prices.charges", event))
    wrong = Publish("jobs.events", replace(submission("job").event, key="another"))
    with pytest.raises(ValueError, match="must have the key 'job', got 'another'"):
        CODEC.encode(wrong)
    with pytest.raises(RejectedError, match="the limit is 10"):
        Codec(TOPICS, max_message_bytes=10).encode(submission("a job with a long name"))


def test_words_that_readers_would_refuse_are_cut_when_they_are_written() -> None:
    told = PlacementDecided(job_id="a", attempt=1, reason="because " * 600)
    record = CODEC.encode(Publish("placement.decisions", Event("id", "p", START_US, "a", told)))
    read = CODEC.decode(at_offset(record, 0)).payload
    assert isinstance(read, PlacementDecided)
    assert read.reason.startswith("because because")
    assert read.reason.endswith(" ...")


@pytest.mark.parametrize(
    ("topic", "is_guarded", "is_checked"),
    [
        ("jobs.events", True, True),
        ("jobs.events", False, True),
        ("placement.inputs", True, False),
        ("placement.inputs", False, True),
    ],
)
def test_what_others_can_write_is_checked(topic: str, is_guarded: bool, is_checked: bool) -> None:
    wrong = replace(submission("j1").event, payload=JobSubmitted(job_id="j1"))
    if topic == "placement.inputs":
        wrong = replace(wrong, key="region")
    record = at_offset(CODEC.encode(Publish(topic, wrong)), 0)
    codec = Codec(TOPICS, is_guarded=is_guarded)
    if is_checked:
        with pytest.raises(RejectedError, match="attempt"):
            codec.decode(record)
    else:
        assert codec.decode(record) == wrong
    assert codec.decode_kept(record) == wrong
