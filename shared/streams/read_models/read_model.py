"""Read models in Redis: what follows from topics, beside the positions up to which it does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.catalogue.record import TopicPartition
from shared.streams.stages.provenance import LastRead, Provenance, TopicIdentity

Entry = TypeVar("Entry")
Field = str | int | bytes
Name = Callable[[str], str]

# How read_model.lua begins to say so.
_BEHIND: Final = "BEHIND"
_APPLY_ENTRIES: Final = (Path(__file__).parent / "read_model.lua").read_text()


class LostPositionError(Exception):
    """Redis has forgotten what was applied: it must be applied again from the start."""


class Applied(NamedTuple):
    """The record that a read model applied last, and of which topic."""

    topic_id: bytes
    last_read: LastRead

    def to_text(self) -> str:
        """Return its form in Redis."""
        return f"{self.topic_id.hex()} {self.last_read.offset} {self.last_read.sha256.hex()}"

    @classmethod
    def from_text(cls, text: str) -> "Applied":
        """Parse what `to_text` made."""
        topic_id, offset, sha256 = text.split(" ")
        return cls(bytes.fromhex(topic_id), LastRead(int(offset), bytes.fromhex(sha256)))


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
        """Return the topics that it follows from."""
        return tuple(self._keys)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset from which a partition is still to be applied; 0 for a new or lost
        Redis."""
        return int(await self._redis.get(self._position_key(partition)) or 0)

    async def provenance(self, partitions: Iterable[TopicPartition]) -> Provenance:
        """Return what the rows were made from."""
        positions: dict[TopicPartition, int] = {}
        applied: dict[TopicPartition, Applied] = {}
        places = list(partitions)
        keys = [key for p in places for key in (self._position_key(p), self._key_of(p))]
        found = iter(await self._redis.mget(keys) if keys else ())
        for partition, position, text in zip(places, found, found, strict=True):
            if position is not None:
                positions[partition] = int(position)
            if text is not None:
                applied[partition] = Applied.from_text(
                    text if isinstance(text, str) else text.decode()
                )
        return Provenance(
            topics={p.topic: TopicIdentity(found.topic_id, 0) for p, found in applied.items()},
            positions=positions,
            last_read={partition: found.last_read for partition, found in applied.items()},
        )

    async def clear(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget all rows and positions at once: the topics are applied again from their start."""
        keys = [self._name(key) for keys in self._keys.values() for key in keys]
        for partition in partitions:
            keys += (
                self._position_key(partition),
                self._key_of(partition),
                self._failures_key(partition),
            )
        await self._redis.delete(*keys)

    async def apply(
        self,
        partition: TopicPartition,
        read_from: int,
        next_position: int,
        entries: Iterable[tuple[int, Entry]],
        applied: Applied | None = None,
    ) -> None:
        """Apply a batch of (offset, entry), whose last record is `applied`; what was applied before
        changes nothing.

        Raises LostPositionError when Redis has lost what lies before `read_from`: the partition
        must then be read again from `position`.
        """
        rows = map(self._name, self._keys[partition.topic])
        keys = [self._position_key(partition), *rows, self._key_of(partition)]
        arguments: list[Field] = [read_from, next_position, applied.to_text() if applied else ""]
        for offset, entry in entries:
            arguments += (offset, *self._fields(entry))
        try:
            await self._apply(keys=keys, args=arguments)
        except ResponseError as error:
            if str(error).startswith(_BEHIND):
                raise LostPositionError(f"{partition}: {error}") from error
            raise

    async def failures(self, partition: TopicPartition) -> bytes | str | None:
        """Return what was kept of failures at a partition."""
        return await self._redis.get(self._failures_key(partition))

    async def keep_failures(self, partition: TopicPartition, kept: bytes | None) -> None:
        """Keep them as they are now; None: there are none."""
        key = self._failures_key(partition)
        await (self._redis.delete(key) if kept is None else self._redis.set(key, kept))

    def _position_key(self, partition: TopicPartition) -> str:
        return self._name(f"position:{partition.topic}:{partition.kafka_partition}")

    def _failures_key(self, partition: TopicPartition) -> str:
        return self._name(f"failures:{partition.topic}:{partition.kafka_partition}")

    def _key_of(self, partition: TopicPartition) -> str:
        """Return the key of what identifies the record that was applied last."""
        return self._name(f"applied:{partition.topic}:{partition.kafka_partition}")
