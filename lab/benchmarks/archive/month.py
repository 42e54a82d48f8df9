"""A month of jobs' records: those of a played demo, over and over, each time with other ids, times
and digits.

What repeats would compress to nothing. So every copy of a job has an id, a user and traces of its
own, its times are those of the copy, and the lower half of every real number is drawn anew. Lengths
stay: a record is patched where its message has these, and not encoded again.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from struct import pack
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from lab.demo.embedded import run
from lab.demo.options import DemoOptions
from shared.archive.record import ArchivedRecord
from shared.catalogue.codec import format_time, parse_time
from shared.catalogue.record import Record, type_of
from shared.catalogue.schemas import MESSAGES
from shared.catalogue.topics import ROUND_ENDED, Topics, partition_of

TOPICS: Final = ("placement.inputs", "prices.charges", "jobs.events")
MONTH_US: Final = 30 * 86_400 * 1_000_000
_ROUND_US: Final = 100_000
# After so many records a transaction ends, whose marker takes an offset.
_BATCH: Final = 20
_DIGITS: Final = b"0123456789"
_HEX: Final = re.compile(rb"[0-9a-f]{32}-[0-9a-f]{16}")
_USER: Final = re.compile(rb"user[0-9]+")
_HALF: Final = 4
_LEAST_US: Final = 1_000_000_000_000_000


@dataclass(slots=True)
class Template:
    """A record of the demo, and where its message has what each copy has of its own."""

    topic: str
    record: Record
    at_us: int
    ids: list[int] = field(default_factory=list)
    users: list[tuple[int, int]] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    reals: list[int] = field(default_factory=list)


class JobTemplate(NamedTuple):
    """The records that belong to one job, from its submission on."""

    job_id: bytes
    begins_us: int
    records: Sequence[Template]


def templates(jobs: int) -> list[JobTemplate]:
    """Play a demo and return the records of each of its jobs; what belongs to none of them goes
    with the job whose records came before."""
    system = run(DemoOptions(jobs=jobs), lambda _finished: None)
    found: dict[bytes, list[Template]] = defaultdict(list)
    begins: dict[bytes, int] = {}
    for partition in system.log.partitions():
        if partition.topic not in TOPICS:
            continue
        before = b""
        for record in system.log.read(partition, 0, 1 << 60):
            if type_of(record) == ROUND_ENDED.encode():
                continue
            at_us = parse_time(dict(record.headers)["ce_time"].decode())
            message = MESSAGES[type_of(record).decode()].FromString(record.value or b"")
            job_id = str(getattr(message, "job_id", "")).encode() or before
            if not job_id:
                continue
            before = job_id
            found[job_id].append(_template(partition.topic, record, at_us, message, job_id))
            if type_of(record).endswith(b".JobSubmitted"):
                begins[job_id] = at_us
    return [
        JobTemplate(job_id, begins[job_id], sorted(records, key=lambda each: each.at_us))
        for job_id, records in found.items()
        if job_id in begins
    ]


def _template(topic: str, record: Record, at_us: int, message: Message, job_id: bytes) -> Template:
    value = record.value or b""
    found = Template(topic, record, at_us)
    found.ids = _places(value, job_id)
    found.users = [(each.start(), each.end()) for each in _USER.finditer(value)]
    for number in set(_numbers(message)):
        if isinstance(number, float):
            found.reals += _places(value, pack("<d", number))
        elif number > _LEAST_US:
            found.times += [(at, number) for at in _places(value, _varint(number))]
    return found


def _numbers(message: Message) -> Iterator[int | float]:
    for of, value in message.ListFields():
        if of.message_type is not None:
            several: Any = value if of.is_repeated else [value]
            if of.message_type.GetOptions().map_entry:
                continue
            for each in several:
                yield from _numbers(each)
        elif of.cpp_type in (of.CPPTYPE_DOUBLE, of.CPPTYPE_INT64):
            yield from value if of.is_repeated else [value]


def _places(value: bytes, part: bytes) -> list[int]:
    return [each.start() for each in re.finditer(re.escape(part), value)]


class Month:
    """Yields the records of so many jobs as their Kafka partitions have them, in the order of
    time."""

    def __init__(
        self, jobs: int, of_jobs: Sequence[JobTemplate], begins_us: int, kafka_partitions: int = 12
    ) -> None:
        self._jobs, self._templates, self._begins_us = jobs, of_jobs, begins_us
        self._rng = Random(1)
        self._topics = Topics(kafka_partitions=kafka_partitions)
        self._offsets: dict[tuple[str, int], int] = defaultdict(int)
        self._rounds = count()
        self._round_us = begins_us

    def records(self) -> Iterator[ArchivedRecord]:
        """Yield them; a round of placement ends behind what came within a tenth of a second."""
        waiting: list[_Due] = []
        numbers = count()
        for number in range(self._jobs):
            at_us = self._begins_us + number * MONTH_US // self._jobs
            while waiting and waiting[0][0] <= at_us:
                yield from self._next(waiting)
            template = self._rng.choice(self._templates)
            copy = _Copy(self._rng, template, at_us - template.begins_us)
            for each in template.records:
                due_us = each.at_us + copy.shift_us
                heapq.heappush(waiting, _Due(due_us, next(numbers), each, copy))
        while waiting:
            yield from self._next(waiting)

    def _next(self, waiting: "list[_Due]") -> Iterator[ArchivedRecord]:
        at_us, _, template, copy = heapq.heappop(waiting)
        if at_us >= self._round_us + _ROUND_US:
            yield self._round()
            self._round_us = at_us - at_us % _ROUND_US
        key, value, headers = copy.of(template)
        partition = partition_of(key, self._topics.kafka_partitions(template.topic))
        yield self._placed(template.topic, partition, at_us, key, value, headers)

    def _round(self) -> ArchivedRecord:
        number, ended_us = next(self._rounds), self._round_us + _ROUND_US
        value = MESSAGES[ROUND_ENDED](round=number, ended_at_us=ended_us).SerializeToString()
        headers = {
            "ce_id": f"placement.sequencer.0/{ROUND_ENDED}/round/{number}".encode(),
            "ce_type": ROUND_ENDED.encode(),
            "ce_source": b"placement.sequencer.0",
            "ce_time": format_time(ended_us).encode(),
        }
        return self._placed("placement.inputs", 0, ended_us, b"", value, headers)

    def _placed(
        self, topic: str, partition: int, at_us: int, key: bytes, value: bytes,
        headers: Mapping[str, bytes],
    ) -> ArchivedRecord:  # fmt: skip
        at = topic, partition
        offset = self._offsets[at]
        self._offsets[at] += 2 if offset % _BATCH == _BATCH - 2 else 1
        return ArchivedRecord(
            *(topic, partition, offset, at_us // 1_000, key, value, tuple(headers.items()))
        )


class _Copy:
    """One more job of a template."""

    def __init__(self, rng: Random, template: JobTemplate, shift_us: int) -> None:
        self._rng, self._id, self.shift_us = rng, template.job_id, shift_us
        local, begins_s = template.job_id.rsplit(b"/", 2)[1:]
        head = template.job_id[: -len(local) - len(begins_s) - 1]
        fresh_s = b"%d" % (template.begins_us // 1_000_000 + shift_us // 1_000_000)
        self._fresh = head + self._digits(len(local)) + b"/" + fresh_s
        self._trace = b"%032x" % rng.getrandbits(128)

    def of(self, template: Template) -> tuple[bytes, bytes, dict[str, bytes]]:
        """Return key, value and headers of the copy."""
        value = bytearray(template.record.value or b"")
        for at in template.ids:
            value[at : at + len(self._id)] = self._fresh
        for begin, end in template.users:
            value[begin + 4 : end] = self._digits(end - begin - 4)
        for at, time_us in template.times:
            fresh = _varint(time_us + self.shift_us)
            value[at : at + len(fresh)] = fresh
        for at in template.reals:
            value[at : at + _HALF] = self._rng.randbytes(_HALF)
        headers = {
            name: text.replace(self._id, self._fresh) for name, text in template.record.headers
        }
        headers["ce_time"] = format_time(template.at_us + self.shift_us).encode()
        if "traceparent" in headers:
            span = b"%016x" % self._rng.getrandbits(64)
            headers["traceparent"] = _HEX.sub(self._trace + b"-" + span, headers["traceparent"])
        return template.record.key.replace(self._id, self._fresh), bytes(value), headers

    def _digits(self, length: int) -> bytes:
        return bytes(self._rng.choices(_DIGITS, k=length))


def _varint(number: int) -> bytes:
    """A positive number as protobuf writes it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


class _Due(NamedTuple):
    """A record of a copy, and when it comes."""

    at_us: int
    number: int
    template: Template
    copy: _Copy
