"""A dead letter fits into its queue whatever its record was."""

from coplace.v1.control_pb2 import DeadLetter
from hypothesis import given
from hypothesis import strategies as st

from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.record import Record, TopicPartition
from shared.streams.stages.dead_letters import KEPT_BYTES, dead_letter
from tests.support.messaging import CODEC, START_US, at_offset, submission


@given(
    value=st.none() | st.binary(max_size=300) | st.just(bytes(MAX_MESSAGE_BYTES)),
    key=st.binary(max_size=100),
    headers=st.lists(st.tuples(st.text(max_size=5), st.just(bytes(5_000))), max_size=60),
)
def test_any_record_makes_a_letter_that_can_be_sent(
    value: bytes | None, key: bytes, headers: list[tuple[str, bytes]]
) -> None:
    record = Record(TopicPartition("jobs.events", 1), 42, key, value, tuple(headers))
    publish = dead_letter(record, "value: is bad " * 10_000, "stage", START_US)
    new = CODEC.encode(publish)
    letter = publish.event.payload
    assert isinstance(letter, DeadLetter)
    assert new.partition.topic == "dlq.jobs.events"
    assert len(new.value or b"") < 3 * KEPT_BYTES
    assert letter.value == (value or b"")[:KEPT_BYTES]
    assert publish.event.id == "stage/coplace.v1.DeadLetter/jobs.events/1/42"


def test_a_reason_in_any_script_fits_what_readers_take() -> None:
    record = at_offset(CODEC.encode(submission("job")), 7)
    letter = CODEC.encode(dead_letter(record, "\U0001f600" * 5_000, "counting", START_US))
    CODEC.decode(at_offset(letter, 0))
