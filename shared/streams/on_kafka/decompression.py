"""Bounded decompression of Kafka's codecs.

A client library expands whatever it is sent: 100 MB of zeros are 1 KB of zstd. Here a buffer of the
limit's size is all that there is to expand into.
"""

from collections.abc import Callable, Mapping
from struct import unpack_from
from typing import Final

import cramjam

# Framing that Java's library puts around blocks of snappy: a magic number, two versions, then each
# block behind its length. https://github.com/xerial/snappy-java
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH_BYTES: Final = 4


class DecompressionError(ValueError):
    """Data that is not of its codec, or that expands beyond the limit."""


def decompress(codec: int, data: bytes, limit_bytes: int) -> bytes:
    """Decompress data, by the number that a batch has of its codec (1 gzip, 2 snappy, 3 lz4, 4
    zstd). Raises DecompressionError."""
    if codec not in _CODECS:
        raise DecompressionError(f"codec {codec} is not known")
    try:
        return _CODECS[codec](data, limit_bytes)
    except (cramjam.DecompressionError, ValueError, OverflowError) as error:
        problem = f"does not expand to at most {limit_bytes} bytes"
        raise DecompressionError(f"{_NAMES[codec]} {problem}: {error}") from None


def _into(decompress: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    def bounded(data: bytes, limit_bytes: int) -> bytes:
        buffer = bytearray(limit_bytes)
        return bytes(memoryview(buffer)[: decompress(data, buffer)])

    return bounded


def _snappy(data: bytes, limit_bytes: int) -> bytes:
    if not data.startswith(_XERIAL):
        return _block(data, limit_bytes)
    expanded, position = bytearray(), _XERIAL_HEADER_BYTES
    while position + _LENGTH_BYTES <= len(data):
        (length,) = unpack_from(">I", data, position)
        position += _LENGTH_BYTES + length
        expanded += _block(data[position - length : position], limit_bytes - len(expanded))
    return bytes(expanded)


def _block(data: bytes, limit_bytes: int) -> bytes:
    """A block begins with the size that it expands to."""
    size_bytes = cramjam.snappy.decompress_raw_len(data)
    if size_bytes > limit_bytes:
        raise ValueError(f"{size_bytes} bytes are too many")
    return bytes(cramjam.snappy.decompress_raw(data))


_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_CODECS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    1: _into(cramjam.gzip.decompress_into),
    2: _snappy,
    3: _into(cramjam.lz4.decompress_into),
    4: _into(cramjam.zstd.decompress_into),
}
