"""Hostile records of a topic, as whoever may write to Kafka could append them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from coplace.v1.control_pb2 import RoundEnded
from google.protobuf.message import Message

from shared.catalogue.codec import MAX_MESSAGE_BYTES
from shared.catalogue.topics import Topics
from tests.attacks.distortion import distorted, examples

_TIMES: Final = (
    *("", "now", "2026-01-01", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"),
    *("1970-01-01T00:00:00Z", "2026-01-01T00:00:00+99:99", "2036-01-01T00:00:00Z"),
)
_GOOD_TIME: Final = "2026-01-01T00:00:00.000000Z"
_HUGE_ONE_IN: Final = 2_000
# Below and beyond what a topic takes; the broker refuses what is larger.
_HUGE_BYTES: Final = (MAX_MESSAGE_BYTES - 1, MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 60_000)


@dataclass(frozen=True, slots=True)
class HostileRecord:
    """What a producer appends; `timestamp_ms` None lets the broker choose."""

    kafka_partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Attacker:
    """Draws hostile records for the topics of a deployment, the same for the same seed."""

    def __init__(self, topics: Topics, seed: int) -> None:
        self._topics = topics
        self._messages = examples(topics.specs)
        self._seed = seed

    def records(self, topic: str, count: int) -> Iterator[HostileRecord]:
        """So many records for a topic."""
        rng = Random(f"{self._seed} {topic}")
        for number in range(count):
            draw = rng.choice(_KINDS)
            record = draw(self, topic, rng, number)
            if rng.random() < 0.1:
                # In the future: the broker refuses the whole batch.
                record = replace(record, timestamp_ms=rng.choice([0, 1, 10**12]))
            yield record

    def huge(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """As much as a record may hold, of zeros, of noise, or as a message; rarely, or nothing."""
        if number % _HUGE_ONE_IN >= len(_KINDS):
            return self.noise(topic, rng, number)
        size = rng.choice(_HUGE_BYTES)
        value = rng.choice([bytes(size), rng.randbytes(size)])
        return HostileRecord(self._place(topic, rng), b"huge", value, self._headers(topic, rng))

    def noise(self, topic: str, rng: Random, _number: int) -> HostileRecord:
        """Random bytes under headers that promise a message."""
        value = rng.randbytes(rng.choice([0, 1, 7, 100, 3_000]))
        return HostileRecord(
            self._place(topic, rng), rng.randbytes(rng.randint(0, 20)), value,
            self._headers(topic, rng),
        )  # fmt: skip

    def tombstone(self, topic: str, rng: Random, _number: int) -> HostileRecord:
        """A record without a value."""
        key = rng.choice([b"", b"\xff", b"north/alpha/4711/1767225600"])
        return HostileRecord(self._place(topic, rng), key, None, self._headers(topic, rng))

    def extreme(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A message of the topic out of all bounds, in its right place."""
        return self._well_formed(topic, distorted(self._example(topic, rng), rng), rng, number)

    def foreign(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A message that another topic holds."""
        return self._well_formed(topic, distorted(rng.choice(self._messages), rng), rng, number)

    def misplaced(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A message under another key, or in another Kafka partition than its key's."""
        record = self.extreme(topic, rng, number)
        if rng.random() < 0.5:
            return replace(record, key=b"another")
        return replace(record, kafka_partition=self._place(topic, rng))

    def torn(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A message that ends in its middle, or with some bits turned."""
        record = self.extreme(topic, rng, number)
        value = bytearray(record.value or b"\x00")
        if rng.random() < 0.5:
            return replace(record, value=bytes(value[: rng.randrange(len(value) + 1)]))
        value[rng.randrange(len(value)) if value else 0 :] = rng.randbytes(5)
        return replace(record, value=bytes(value))

    def forged_barrier(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A round's barrier of nobody, or in the name of who writes the topic's."""
        barrier = RoundEnded(
            round=rng.choice([0, 1, 2**32, 2**64 - 1]),
            ended_at_us=rng.choice([0, -1, 1_767_225_600_000_000, 2**63 - 1]),
            last=rng.random() < 0.3,
        )
        source = rng.choice(["", "nobody", "simulation", *self._topics.spec(topic).producers])
        headers = self._attributes(barrier, rng, number, source)
        value = barrier.SerializeToString()
        return HostileRecord(self._place(topic, rng), b"", value, headers)

    def odd_headers(self, topic: str, rng: Random, number: int) -> HostileRecord:
        """A message whose attributes are missing, repeated, too long, too many or no text."""
        record = self.extreme(topic, rng, number)
        odd = rng.choice(
            [
                (),
                record.headers * 50,
                tuple((name, b"\xff\xfe") for name, _ in record.headers),
                tuple((name, value * 500) for name, value in record.headers),
                (*record.headers, ("x" * 5_000, b""), ("ü\n", b"\x00")),
                tuple((n, rng.choice(_TIMES).encode() if n == "ce_time" else v)
                      for n, v in record.headers),
            ]
        )  # fmt: skip
        return replace(record, headers=odd)

    def _example(self, topic: str, rng: Random) -> Message:
        held = self._topics.spec(topic).messages
        own = [each for each in self._messages if each.DESCRIPTOR.full_name in held]
        return rng.choice(own or self._messages)

    def _well_formed(self, topic: str, message: Message, rng: Random, number: int) -> HostileRecord:
        template = self._topics.spec(topic).messages.get(message.DESCRIPTOR.full_name)
        key = template.fill(message) if template else "foreign"
        place = self._topics.partition_of(topic, key)
        headers = self._attributes(message, rng, number, "north")
        return HostileRecord(place.kafka_partition, key.encode(), _bytes(message), headers)

    def _attributes(
        self, message: Message, rng: Random, number: int, source: str
    ) -> tuple[tuple[str, bytes], ...]:
        kind = message.DESCRIPTOR.full_name
        time = rng.choice(_TIMES) if rng.random() < 0.3 else _GOOD_TIME
        event_id = f"hostile/{kind}/{number}" if rng.random() < 0.9 else "hostile/copy"
        named = {"ce_id": event_id, "ce_type": kind, "ce_source": source, "ce_time": time}
        return tuple((name, value.encode()) for name, value in named.items())

    def _headers(self, topic: str, rng: Random) -> tuple[tuple[str, bytes], ...]:
        return self._attributes(self._example(topic, rng), rng, 0, "north")

    def _place(self, topic: str, rng: Random) -> int:
        return rng.randrange(self._topics.kafka_partitions(topic))


def _bytes(message: Message) -> bytes:
    return bytes(message.SerializeToString())


_Draw = Callable[[Attacker, str, Random, int], HostileRecord]
_KINDS: Final[Sequence[_Draw]] = (
    Attacker.noise,
    Attacker.tombstone,
    Attacker.extreme,
    Attacker.extreme,
    Attacker.extreme,
    Attacker.foreign,
    Attacker.misplaced,
    Attacker.torn,
    Attacker.forged_barrier,
    Attacker.odd_headers,
    Attacker.huge,
)
