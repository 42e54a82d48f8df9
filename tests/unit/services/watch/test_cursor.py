"""Cursors say where a watcher is, of one topic alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.watch.cursor import CursorCodec

CODEC = CursorCodec("placement.decisions", b"id", 3)
_OFFSETS = st.lists(st.integers(0, 2**62), min_size=3, max_size=3)


@given(_OFFSETS)
def test_a_cursor_comes_back_as_it_was(offsets: list[int]) -> None:
    text = CODEC.encode(offsets)
    assert CODEC.decode(text) == offsets
    assert text.isascii()
    assert len(text) < 64


@given(_OFFSETS, st.data())
def test_a_cursor_that_is_cut_off_is_refused(offsets: list[int], data: st.DataObject) -> None:
    text = CODEC.encode(offsets)
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(RejectedError, match="cursor"):
        CODEC.decode(text[:cut])


@pytest.mark.parametrize("text", ["earliest", "§", "AAAA", "=", "A" * 5_000, "a b", "-"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(RejectedError, match="cursor"):
        CODEC.decode(text)


@pytest.mark.parametrize(
    ("name", "topic_id", "kafka_partitions"),
    [
        ("mine.placement.decisions", b"id", 3),
        ("placement.decisions", b"made anew", 3),
        ("placement.decisions", b"id", 4),
    ],
)
def test_a_cursor_of_another_deployment_or_of_a_topic_made_anew_is_refused_with_what_to_do(
    name: str, topic_id: bytes, kafka_partitions: int
) -> None:
    other = CursorCodec(name, topic_id, kafka_partitions)
    with pytest.raises(RejectedError, match=r"of another deployment.*watch without it"):
        CODEC.decode(other.encode([0] * kafka_partitions))
