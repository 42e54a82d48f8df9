"""A small processor and the records that feed it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import RoundEnded
from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.errors import RejectedError
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.streams.stages.stage import AlreadyAppliedError, Round, Stage

START_US = 1_767_225_600_000_000
TOPICS = Topics(kafka_partitions=4)
CODEC = Codec(TOPICS)


@dataclass
class Counter:
    """Charges a job by how many submissions of its user this unit has seen; remembers ids."""

    seen: dict[str, list[str]] = field(default_factory=dict)
    bug_at: str | None = None
    dirty: set[str] = field(default_factory=set)

    def handle(self, event: Event) -> Iterable[Publish]:
        """Count a submission once."""
        assert isinstance(event.payload, JobSubmitted)
        user = event.payload.user
        if event.payload.job_id == self.bug_at:
            raise KeyError("a bug in the processor")
        if event.payload.nodes == 0:
            raise RejectedError("nodes", "must be at least 1")
        if event.id in self.seen.setdefault(user, []):
            raise AlreadyAppliedError
        self.seen[user].append(event.id)
        self.dirty.add(user)
        charge = ChargeMade(
            job_id=event.payload.job_id, user=user, revision=len(self.seen[user]), attempt=1
        )
        yield Publish(
            "prices.charges", Event(f"c/{event.id}", "c", event.time_us, event.key, charge)
        )

    def end_round(self, ended: Round) -> Iterable[Publish]:
        """Nothing waits for a round."""
        return ()

    def changes(self) -> Mapping[str, bytes | None]:
        """The lists that grew."""
        dirty, self.dirty = self.dirty, set()
        return {user: json.dumps(self.seen[user]).encode() for user in sorted(dirty)}


def counting(
    name: str = "counting",
    *,
    inputs: tuple[str, ...] = ("jobs.events",),
    rounds: RoundSource = RoundSource.BARRIERS,
    single: bool = False,
    bug_at: str | None = None,
) -> Stage:
    """A stage from jobs.events to prices.charges; job `bug_at` meets a bug in it."""

    def create(_number: int, restored: Mapping[str, bytes]) -> Counter:
        return Counter({key: json.loads(value) for key, value in restored.items()}, bug_at)

    return Stage(name, inputs, ("prices.charges",), create, single, rounds)


def submission(
    job: str, *, user: str = "ada", nodes: int = 1, time_us: int = START_US, sequence: int = 1
) -> Publish:
    """A job's submission."""
    payload = JobSubmitted(
        job_id=job,
        attempt=1,
        user=user,
        account="physics",
        nodes=nodes,
        walltime_s=60,
        reference_cluster="alpha",
        submitted_at_us=time_us,
    )
    event_id = f"north/coplace.v1.JobSubmitted/{job}/{sequence}"
    return Publish("jobs.events", Event(event_id, "north", time_us, job, payload))


def encoded(*publishes: Publish) -> list[NewRecord]:
    """Records to append."""
    return [CODEC.encode(publish) for publish in publishes]


def barrier(
    partition: TopicPartition, number: int, ended_at_us: int | None = None, writer: str = ""
) -> NewRecord:
    """The barrier of a round at a partition, by a producer of its topic."""
    writer = writer or TOPICS.spec(partition.topic).producers[-1]
    at_us = START_US + 30_000_000 * (number + 1) if ended_at_us is None else ended_at_us
    payload = RoundEnded(round=number, ended_at_us=at_us)
    event = Event(f"{writer}/coplace.v1.RoundEnded/round/{number}", writer, at_us, "", payload)
    return CODEC.encode_barrier(partition, event)


def barriers(number: int, *topics: str) -> list[NewRecord]:
    """The barriers of a round at every partition of some topics."""
    return [
        barrier(partition, number) for topic in topics for partition in TOPICS.partitions(topic)
    ]


def at_offset(new: NewRecord, offset: int) -> Record:
    """A record as a log would return it."""
    return Record(new.partition, offset, new.key, new.value, new.headers)


def payloads(records: Iterable[Record | NewRecord]) -> list[Event]:
    """The events of records of known topics."""
    return [
        CODEC.decode(record if isinstance(record, Record) else at_offset(record, 0))
        for record in records
    ]
