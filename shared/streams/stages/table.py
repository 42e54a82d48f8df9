"""A processor's state as tables that a changelog rebuilds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import orjson

T = TypeVar("T")


class Table(Generic[T]):
    """Values by key, each of them one record of the changelog."""

    def __init__(
        self,
        name: str,
        restored: Mapping[str, bytes],
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
    ) -> None:
        self._prefix = f"{name}|"
        self._encode = encode
        self._rows = {
            key.removeprefix(self._prefix): decode(orjson.loads(value))
            for key, value in restored.items()
            if key.startswith(self._prefix)
        }
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> T | None:
        """The value of a key, None when there is none."""
        return self._rows.get(key)

    def put(self, key: str, value: T) -> None:
        """Set the value of a key."""
        self._rows[key] = value
        self._changed.add(key)

    def drop(self, key: str) -> T | None:
        """Forget a key; its value."""
        self._changed.add(key)
        return self._rows.pop(key, None)

    def items(self) -> Iterator[tuple[str, T]]:
        """Keys and values, ascending by key."""
        return iter(sorted(self._rows.items(), key=lambda item: item[0]))

    def values(self) -> Iterator[T]:
        """Values, ascending by key."""
        return (value for _, value in self.items())

    def changes(self) -> dict[str, bytes | None]:
        """Records of what changed since the last call."""
        changed, self._changed = self._changed, set()
        return {self._prefix + key: self._record(key) for key in sorted(changed)}

    def _record(self, key: str) -> bytes | None:
        if key not in self._rows:
            return None
        return orjson.dumps(self._encode(self._rows[key]))
