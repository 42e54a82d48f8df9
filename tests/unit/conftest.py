"""What holds for every unit test."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.streams.state.rows import RowCodec


@pytest.fixture(autouse=True, scope="session")
def same_rows_again() -> Iterator[None]:
    """Whatever row a test writes is restored to one of the same bytes. A whole number where the
    type says float is not: who was restored would write another state than who lived."""
    encode = RowCodec.encode

    def encode_twice(codec: RowCodec[Any], row: Any) -> bytes:
        written = encode(codec, row)
        assert encode(codec, codec.decode(written)) == written, f"{row} is restored as another one"
        return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowCodec, "encode", encode_twice)
        yield
