"""Where a watcher is: offsets of the Kafka partitions behind which it has everything. Pure."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from coplace_client.errors import RejectedError
from services.watch.wire import varint

_FORMAT: Final = b"\x01"
_DEPLOYMENT_BYTES: Final = 8
_MOST_CHARACTERS: Final = 4_096
_FOREIGN: Final = (
    "is of another deployment, or of a topic that was made anew since: watch without it, from now "
    "or from the earliest, and compare with the jobs that you know"
)


class CursorCodec:
    """Cursors of one topic: those of another one, and of the same that was made anew, are
    refused."""

    def __init__(self, name: str, topic_id: bytes, kafka_partitions: int) -> None:
        identity = hashlib.sha256(name.encode() + b"\0" + topic_id).digest()
        self._begin = _FORMAT + identity[:_DEPLOYMENT_BYTES]
        self._kafka_partitions = kafka_partitions

    def encode(self, offsets: Iterable[int]) -> str:
        """Return the text of a position."""
        packed = self._begin + b"".join(map(varint, offsets))
        return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()

    def decode(self, text: str) -> Sequence[int]:
        """Return the offsets of a cursor. Raises RejectedError."""
        if len(text) > _MOST_CHARACTERS:
            raise RejectedError("cursor", "is not a cursor: send one exactly as an answer had it")
        try:
            packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            begin, offsets = packed[: len(self._begin)], _numbers(packed[len(self._begin) :])
        except ValueError:
            raise RejectedError(
                "cursor", "is not a cursor: send one exactly as an answer had it"
            ) from None
        if begin != self._begin or len(offsets) != self._kafka_partitions:
            raise RejectedError("cursor", _FOREIGN)
        return offsets


def _numbers(packed: bytes) -> Sequence[int]:
    """Raises ValueError where the last one is cut off."""
    found, number, shift = list[int](), 0, 0
    for byte in packed:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(number)
            number, shift = 0, 0
    if shift:
        raise ValueError("a number is cut off")
    return found
