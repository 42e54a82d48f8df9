"""Objects as they are kept: packed, but for those that something is done about."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

_AT_HAND: Final = 512

K = TypeVar("K", bound=Hashable)
Fields = Mapping[str, Any]


def pack(fields: Fields) -> bytes:
    """Return an object in the memory that it needs: a fifth of what its fields take."""
    return msgspec.msgpack.encode(fields)


def unpack(packed: bytes) -> Fields:
    """Return a packed object."""
    found: Fields = msgspec.msgpack.decode(packed)
    return found


class PackedObjects(Sequence[Fields]):
    """All objects of a list, each unpacked when it is read: together they take a memory that is
    needed once, and kept from then on."""

    def __init__(self, packed: list[bytes]) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> Fields: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Fields]: ...
    def __getitem__(self, at: int | slice) -> Fields | Sequence[Fields]:
        if isinstance(at, slice):
            return PackedObjects(self._packed[at])
        return unpack(self._packed[at])


class PackedStore(Generic[K]):
    """Fields of objects by their keys. Those that were put or unpacked last are at hand."""

    def __init__(self) -> None:
        self._packed: dict[K, bytes] = {}
        self._at_hand: dict[K, Fields] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[K]:
        return iter(self._packed)

    def __contains__(self, key: object) -> bool:
        return key in self._packed

    def get(self, key: K) -> Fields | None:
        """Return an object; None where there is none of this key."""
        if (found := self._at_hand.get(key)) is None and (packed := self._packed.get(key)):
            found = unpack(packed)
            self._keep_at_hand(key, found)
        return found

    def put(self, key: K, fields: Fields) -> None:
        """Keep an object in place of the one that was there."""
        self._packed[key] = pack(fields)
        self._at_hand.pop(key, None)
        self._keep_at_hand(key, fields)

    def pop(self, key: K) -> Fields | None:
        """Forget an object, and return it."""
        found = self.get(key)
        self._packed.pop(key, None)
        self._at_hand.pop(key, None)
        return found

    def _keep_at_hand(self, key: K, fields: Fields) -> None:
        """In place of the one that has been there for the longest."""
        if len(self._at_hand) >= _AT_HAND:
            del self._at_hand[next(iter(self._at_hand))]
        self._at_hand[key] = fields
