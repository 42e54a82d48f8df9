"""A log of facts for the history, and a database that has them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from coplace.v1.accounts_pb2 import STANDING_FUNDED, AccountStanding
from coplace.v1.authority_pb2 import AccessAudited
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
)
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import CHARGE_REASON_ALONE, ChargeMade, InterferenceEvidence
from google.protobuf.message import Message
from sqlalchemy import Engine, select

from services.history.database import Database, migrate, open_database
from services.history.facts import TOPICS
from services.history.tables import METADATA
from services.history.writing import HistoryWriter, OnRejected
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.streams.following import TopicBatch

T0_US = 1_767_225_600_000_000
HOUR_US = 3_600_000_000
TOPIC_ID = b"t" * 16
CODEC = Codec(Topics(kafka_partitions=2), 1_000_000)


class FactLog:
    """Records by Kafka partition, as services write them."""

    def __init__(self, origin: str = "test") -> None:
        self._origin = origin
        self.records: dict[TopicPartition, list[Record]] = defaultdict(list)
        self._ids = 0

    def add(
        self,
        topic: str,
        *payloads: Message,
        event_id: str = "",
        time_us: int = T0_US,
        source: str = "test",
    ) -> None:
        """Append events; each has an id of its own unless one is given."""
        for payload in payloads:
            self._ids += 1
            name = event_id or f"{self._origin}/{self._ids}"
            template = CODEC.topics.spec(topic).messages[payload.DESCRIPTOR.full_name]
            key = template.fill(payload)
            event = Event(name, source, time_us, key, payload)
            made = CODEC.encode(Publish(topic, event))
            kept = self.records[made.partition]
            kept.append(
                Record(made.partition, len(kept), made.key, made.value, made.headers, T0_US // 1000)
            )

    def copy(self, place: TopicPartition, offset: int) -> None:
        """Append a copy of a record, as a client's retry does."""
        kept = self.records[place]
        found = kept[offset]
        kept.append(Record(place, len(kept), found.key, found.value, found.headers, T0_US // 1000))


def places() -> list[TopicPartition]:
    """All Kafka partitions."""
    return [place for topic in TOPICS for place in CODEC.topics.partitions(topic)]


def database(
    where: Database, on_rejected: OnRejected = lambda _rejected: None
) -> tuple[Engine, HistoryWriter]:
    """A database that begins with all topics."""
    engine = open_database(where, writes=True)
    migrate(where, engine)
    writer = HistoryWriter(engine, CODEC, on_rejected)
    for place in places():
        writer.begin(place, TOPIC_ID, 0)
    return engine, writer


def batch(records: Sequence[Record], read_from: int = 0) -> TopicBatch:
    """A batch of records of one Kafka partition."""
    return TopicBatch(records[0].partition, read_from, records, records[-1].offset + 1)


def apply_all(writer: HistoryWriter, log: FactLog) -> None:
    """Apply a log as a whole."""
    writer.apply([batch(records) for records in log.records.values()])


def dump(engine: Engine) -> dict[str, list[Any]]:
    """All rows of all tables, in order."""
    with engine.begin() as connection:
        return {
            table.name: [
                tuple(row)
                for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in METADATA.sorted_tables
        }


def submitted(job_id: str, attempt: int = 1, **changes: Any) -> JobSubmitted:
    values: dict[str, Any] = {
        "user": "ada",
        "account": "physics",
        "app_id": "hpcg",
        "nodes": 4,
        "walltime_s": 3_600,
        "reference_cluster": "alpha",
        "submitted_at_us": T0_US,
    }
    return JobSubmitted(job_id=job_id, attempt=attempt, **(values | changes))


def decided(job_id: str, attempt: int = 1, **changes: Any) -> PlacementDecided:
    values: dict[str, Any] = {
        "round": 1,
        "verdict": VERDICT_START,
        "policy": "base",
        "cluster": "alpha",
        "freq_ghz": 2.4,
        "node_indices": [0, 1, 2, 3],
        "cores_per_node": 10,
        "walltime_s": 3_600,
        "decided_at_us": T0_US + 1_000_000,
        "grant": 1,
    }
    return PlacementDecided(job_id=job_id, attempt=attempt, **(values | changes))


def started(job_id: str, attempt: int = 1, **changes: Any) -> JobStarted:
    values: dict[str, Any] = {
        "cluster": "alpha",
        "nodes": ["n[1-4]"],
        "freq_ghz": 2.4,
        "started_at_us": T0_US + 2_000_000,
        "grant": 1,
    }
    return JobStarted(job_id=job_id, attempt=attempt, **(values | changes))


def finished(job_id: str, attempt: int = 1, **changes: Any) -> JobFinished:
    values: dict[str, Any] = {
        "outcome": JOB_OUTCOME_COMPLETED,
        "cluster": "alpha",
        "app_id": "hpcg",
        "user": "ada",
        "account": "physics",
        "nodes": 4,
        "cores_per_node": 10,
        "freq_ghz": 2.4,
        "submitted_at_us": T0_US,
        "started_at_us": T0_US + 2_000_000,
        "ended_at_us": T0_US + HOUR_US,
        "energy_j": 3.6e6,
        "grant": 1,
    }
    return JobFinished(job_id=job_id, attempt=attempt, **(values | changes))


def requeued(job_id: str, attempt: int = 2, **changes: Any) -> JobRequeued:
    values: dict[str, Any] = {"reason": "a node failed", "requeued_at_us": T0_US + HOUR_US}
    return JobRequeued(job_id=job_id, attempt=attempt, **(values | changes))


def charge(
    job_id: str,
    price_su: str = "100.000000",
    *,
    attempt: int = 1,
    revision: int = 1,
    surcharges: Iterable[tuple[str, str, str]] = (),
    **changes: Any,
) -> ChargeMade:
    """A charge; of each surcharge the account, the job and the amount."""
    end = changes.pop("finished", finished(job_id, attempt))
    values: dict[str, Any] = {
        "user": end.user,
        "account": end.account,
        "cluster": end.cluster,
        "state_of_practice_su": price_su,
        "rate_su_per_core_s": "0.000556",
        "cores": 40,
        "runtime_s": 3_598.0,
        "charged_at_us": end.ended_at_us,
        "booked_at_us": end.ended_at_us,
        "reason": CHARGE_REASON_ALONE,
        "finished": end,
        "evidence": [
            InterferenceEvidence(
                co_runner_account=account,
                co_runner_job_id=beside,
                surcharge_su=su,
                duration_s=1,
                slowdown_ratio=1.5,
            )
            for account, beside, su in surcharges
        ],
    }
    return ChargeMade(
        job_id=job_id,
        attempt=attempt,
        revision=revision,
        price_su=price_su,
        **(values | changes),
    )


def standing(account: str, number: int = 1, **changes: Any) -> AccountStanding:
    values: dict[str, Any] = {
        "standing": STANDING_FUNDED,
        "allocated_su": "1000.000000",
        "charged_su": "0.000000",
        "reserved_su": "10.000000",
        "changed_at_us": T0_US + number,
    }
    return AccountStanding(account=account, number=number, **(values | changes))


def audited(who: str, at_us: int = T0_US, **changes: Any) -> AccessAudited:
    values: dict[str, Any] = {"action": "Explain", "door": "placement", "version": 1}
    return AccessAudited(who=who, at_us=at_us, **(values | changes))
