"""Read models in Redis: what follows from topics, beside the positions up to which it does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from redis.asyncio import Redis

from shared.messaging.record import Place

Entry = TypeVar("Entry")
Field = str | int | bytes
Name = Callable[[str], str]

_APPLY_ENTRIES: Final = (Path(__file__).parent / "read_model.lua").read_text()


class ReadModel(Generic[Entry]):
    """Entries of topics, applied by one Lua call that moves the position with them.

    `name` puts the namespace before a key, `keys` are those that `script` changes for each topic,
    and `fields` is an entry as `script` takes it (`read_model.lua`).
    """

    def __init__(
        self,
        redis: Redis,
        name: Name,
        *,
        script: str,
        keys: Mapping[str, Sequence[str]],
        fields: Callable[[Entry], Sequence[Field]],
    ) -> None:
        self._redis = redis
        self._name = name
        self._keys = keys
        self._fields = fields
        self._apply = redis.register_script(script + _APPLY_ENTRIES)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it follows from."""
        return tuple(self._keys)

    async def position(self, place: Place) -> int:
        """The offset from which a place is still to be applied; 0 for a new or lost Redis."""
        return int(await self._redis.get(self._position_key(place)) or 0)

    async def apply(
        self,
        place: Place,
        read_from: int,
        next_position: int,
        entries: Iterable[tuple[int, Entry]],
    ) -> None:
        """Apply a batch of (offset, entry); what was applied before changes nothing.

        Raises redis.ResponseError when Redis has lost what lies before `read_from`: the place must
        then be read again from `position`.
        """
        keys = [self._position_key(place), *map(self._name, self._keys[place.topic])]
        arguments: list[Field] = [read_from, next_position]
        for offset, entry in entries:
            arguments += (offset, *self._fields(entry))
        await self._apply(keys=keys, args=arguments)

    def _position_key(self, place: Place) -> str:
        return self._name(f"position:{place.topic}:{place.kafka_partition}")
