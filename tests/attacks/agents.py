"""`make fuzz ADAPTER=agents`: what node agents send, mutated, with honest records between: through
ingest's checks, and through every stage that reads it, in this process. None may raise, no honest
record may be lost, and memory stays flat."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any, Final

import psutil
from coplace.v1.control_pb2 import ClusterDeclared, DeadLetter
from coplace.v1.ingest_service_pb2 import Envelope, PublishRequest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_COMPLETED, JobFinished, JobStarted, JobSubmitted
from coplace.v1.prediction_pb2 import NodePowerMeasured
from coplace.v1.pricing_pb2 import ChargeMade
from google.protobuf.message import Message

from cli.stages import every_stage
from coplace_agent.adapters.jobs import JobFile
from coplace_agent.messages import (
    node_samples,
    shutters_event,
    shutters_measured,
    signature_measured,
)
from coplace_agent.model import Interval, Rates
from coplace_agent.node_power import PowerSample
from coplace_agent.settings import AgentSettings
from coplace_client.errors import RejectedError
from coplace_client.facts import fact
from coplace_client.signature import Signature
from services.ingest.model import Intake, parse_envelope
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.stages.unit import EventTimeLimit, Unit
from tests.attacks.distortion import distorted

TELEMETRY: Final = frozenset({"telemetry.nodes", "telemetry.shutters", "telemetry.signatures"})
# Beside them what makes a node and a job known.
_SITE: Final = "north"
_CLUSTER: Final = "alpha"
_MODEL: Final = "skylake"
_CORES: Final = 48
_NODES: Final = tuple(f"{_CLUSTER}-{number:04d}" for number in range(16))
_APPS: Final = ("hpcg", "bt", "lu", "ep")
_GHZ: Final = (1.2, 1.8, 2.4)
_BEGIN_US: Final = 1_767_225_600_000_000
_SECOND_US: Final = 1_000_000
# So long between two honest records: months in all, in which stages forget what is over.
_PAUSE_US: Final = 60 * _SECOND_US
_DAY_US: Final = 86_400 * _SECOND_US
# One honest record behind so many mutants, a round behind so many records, a job for so many.
_MUTANTS: Final = 9
_A_ROUND: Final = 500
_A_JOB: Final = 2_000
# Mutants are of one of the last honest records.
_KEPT: Final = 64
# What fills caches and tables is there by then; beyond, memory is held to this.
_WARM_PART: Final = 0.3
MOST_GROWTH_MIB: Final = 24.0


@dataclass
class Agents:
    """The agents of a cluster, and the resource manager that runs jobs on its nodes; `now_us` is
    everybody's clock."""

    rng: Random
    now_us: int = _BEGIN_US
    jobs: int = 0
    _running: JobStarted | None = None
    _sent: Iterator[int] = field(default_factory=count)

    def declared(self) -> Envelope:
        """What makes the cluster known."""
        cluster = ClusterDeclared(
            cluster=_CLUSTER,
            site=_SITE,
            node_model=_MODEL,
            nodes=len(_NODES),
            node_names=_NODES,
            cores_per_node=_CORES,
            pstates_ghz=_GHZ,
            idle_power_w=100.0,
            peak_bandwidth_gbps=200.0,
        )
        return fact(_SITE, cluster, _CLUSTER, self.now_us)

    def job(self) -> list[Envelope]:
        """The end of the job that runs, and the next one."""
        ended = [self._finished(self._running)] if self._running else []
        self.jobs += 1
        return [*ended, self._submitted(), self._started()]

    def telemetry(self) -> Envelope:
        """What some agent measured last."""
        self.now_us += _PAUSE_US
        return self.rng.choice((self._samples, self._shutters, self._signature))()

    @property
    def _job_id(self) -> str:
        return f"{_SITE}/{_CLUSTER}/{self.jobs}/1767225600"

    def _settings(self) -> AgentSettings:
        node = self.rng.choice(_NODES)
        return AgentSettings(
            source=f"{_SITE}/{_CLUSTER}/{node}", cluster=_CLUSTER, node=node, node_model=_MODEL
        )

    def _samples(self) -> Envelope:
        many = self.rng.randint(1, 20)
        ago_us = [self.now_us - number * 50_000 for number in reversed(range(many))]
        batch = [PowerSample(at_us, self.rng.uniform(90.0, 400.0)) for at_us in ago_us]
        return node_samples(batch, self._settings())

    def _shutters(self) -> Envelope:
        def rates() -> Rates:
            return Rates(*(self.rng.uniform(0.5, 2.0) for _ in range(3)))

        job = JobFile(self._job_id, app_id=self.rng.choice(_APPS), pid=2, cores=_CORES // 2)
        beside = JobFile(f"{self._job_id}-beside", pid=3, cores=_CORES // 2)
        shutters = [rates() for _ in range(self.rng.randint(1, 5))]
        began_us = self.now_us - _SECOND_US
        interval = Interval(job.key, (beside.key,), began_us, 0.0, 0.9, shutters)
        measured = shutters_measured(interval, job, beside, _MODEL, _CORES)
        assert measured is not None
        return shutters_event(measured, f"{_SITE}/{_CLUSTER}/{_NODES[0]}")

    def _signature(self) -> Envelope:
        app = self.rng.choice(_APPS)
        found = Signature(
            app_id=app,
            node_model=_MODEL,
            freq_ghz=self.rng.choice(_GHZ),
            time_s=self.rng.uniform(1.0, 2.0),
            power_w=self.rng.uniform(150.0, 400.0),
            cpi=self.rng.uniform(0.4, 2.0),
            tpi=self.rng.uniform(0.001, 0.02),
            mem_gbps=self.rng.uniform(1.0, 100.0),
            tpi_scale="per_instruction",
        )
        job = JobFile(f"{self._job_id}.{next(self._sent)}", app_id=app, pid=2)
        return signature_measured(found, job, self.now_us, self._settings())

    def _submitted(self) -> Envelope:
        payload = JobSubmitted(
            job_id=self._job_id,
            attempt=1,
            user="ada",
            account="physics",
            app_id=_APPS[0],
            nodes=1,
            walltime_s=7_200,
            reference_cluster=_CLUSTER,
            submitted_at_us=self.now_us,
        )
        return fact(_SITE, payload, f"{self._job_id}/1", self.now_us)

    def _started(self) -> Envelope:
        self._running = JobStarted(
            job_id=self._job_id,
            attempt=1,
            cluster=_CLUSTER,
            nodes=_NODES[:1],
            freq_ghz=_GHZ[-1],
            started_at_us=self.now_us,
        )
        return fact(_SITE, self._running, f"{self._job_id}/1", self.now_us)

    def _finished(self, started: JobStarted) -> Envelope:
        payload = JobFinished(
            job_id=started.job_id,
            attempt=1,
            outcome=JOB_OUTCOME_COMPLETED,
            cluster=_CLUSTER,
            user="ada",
            account="physics",
            app_id=_APPS[0],
            nodes=1,
            cores_per_node=_CORES,
            freq_ghz=_GHZ[-1],
            node_model=_MODEL,
            submitted_at_us=started.started_at_us,
            started_at_us=started.started_at_us,
            ended_at_us=self.now_us,
        )
        return fact(_SITE, payload, f"{started.job_id}/1", self.now_us)


class Mutator:
    """Makes hostile requests of honest ones."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kept: list[Envelope] = []

    def keep(self, honest: Envelope) -> None:
        """Let later mutants be of this one too."""
        self._kept.append(honest)
        del self._kept[:-_KEPT]

    def mutant(self, number: int) -> bytes:
        """The bytes of a request, most of them protobuf."""
        found = Envelope()
        found.CopyFrom(self._rng.choice(self._kept))
        found.id = f"hostile/{number}"
        data: bytes | None = self._rng.choice(_MUTATIONS)(self, found)
        return PublishRequest(event=found).SerializeToString() if data is None else data

    def extreme(self, found: Envelope) -> None:
        """Fields out of all bounds, at any depth."""
        payload = _payload(found)
        payload.CopyFrom(distorted(payload, self._rng))

    def swapped(self, found: Envelope) -> None:
        """Numbers of two fields exchanged, as by a wrong unit or column."""
        payload: Any = _payload(found)
        names = [each.name for each, value in payload.ListFields() if isinstance(value, float)]
        if len(names) > 1:
            one, other = self._rng.sample(names, 2)
            values = getattr(payload, other), getattr(payload, one)
            setattr(payload, one, values[0])
            setattr(payload, other, values[1])

    def shifted(self, found: Envelope) -> None:
        """Another time, of the event or of what it reports."""
        shift_us = self._rng.choice((-1, 1)) * 10 ** self._rng.randint(0, 18)
        payload: Any = _payload(found)
        times = [each.name for each, _ in payload.ListFields() if each.name.endswith("_us")]
        if times and self._rng.random() < 0.7:
            name = self._rng.choice(times)
            setattr(payload, name, _int64(getattr(payload, name) + shift_us))
        else:
            found.time_us = _int64(found.time_us + shift_us)

    def repeated(self, found: Envelope) -> None:
        """Lists as long as they may be, and longer, empty, or turned round."""
        payload: Any = _payload(found)
        for each, values in payload.ListFields():
            if each.is_repeated:
                old = list(values)
                many = self._rng.choice((0, 2, 3, 30, 300))
                del values[:]
                values.extend((old[::-1] * many)[: self._rng.choice((1, 100, 5_000))])

    def other_kind(self, found: Envelope) -> None:
        """The payload of another record under this one's attributes."""
        other = self._rng.choice(self._kept)
        name = str(other.WhichOneof("payload"))
        getattr(found, name).CopyFrom(getattr(other, name))

    def other_sender(self, found: Envelope) -> None:
        """An id that was there, and a source that is nobody's, or no text."""
        found.id = self._rng.choice((self._rng.choice(self._kept).id, "", "\x00", "i" * 3_000))
        found.source = self._rng.choice(("", "nobody", "placement", "s" * 3_000, "\u202e"))

    def torn(self, found: Envelope) -> bytes:
        """A part of the bytes, or some bits turned."""
        data = bytearray(PublishRequest(event=found).SerializeToString())
        if self._rng.random() < 0.3:
            return bytes(data[: self._rng.randrange(len(data) + 1)])
        for _ in range(self._rng.randint(1, 4)):
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(data)

    def noise(self, _found: Envelope) -> bytes:
        """Bytes that mean nothing."""
        return self._rng.randbytes(self._rng.choice((0, 1, 7, 100, 3_000)))


_Mutation = Callable[[Mutator, Envelope], bytes | None]
_MUTATIONS: Final[Sequence[_Mutation]] = (
    *(Mutator.extreme, Mutator.extreme, Mutator.extreme, Mutator.swapped, Mutator.shifted),
    *(Mutator.repeated, Mutator.other_kind, Mutator.other_sender, Mutator.torn, Mutator.noise),
)


def _payload(found: Envelope) -> Message:
    payload: Message = getattr(found, str(found.WhichOneof("payload")))
    return payload


def _int64(value: int) -> int:
    return max(-(2**63), min(value, 2**63 - 1))


class Region:
    """Ingest's checks and the stages that read telemetry, with one Kafka partition of each topic.
    What a stage writes is counted and forgotten."""

    def __init__(self) -> None:
        topics = Topics(kafka_partitions=1)
        self.codec = Codec(topics)
        self._intake = Intake(topics, ahead_us=EventTimeLimit.from_wall_clock().ahead_us)
        limit = EventTimeLimit.from_wall_clock()
        self._units = [
            Unit(stage, 0, {}, self.codec, limit)
            for stage in every_stage(Settings(rounds=RoundSource.CLOCK, kafka_partitions=1))
            if TELEMETRY & set(stage.inputs)
        ]
        self._ends: Counter[TopicPartition] = Counter()
        self.charged: set[str] = set()
        self.measured: Counter[str] = Counter()
        self.letters: Counter[str] = Counter()
        self.lost: list[str] = []

    @property
    def stages(self) -> list[str]:
        """The names of the stages that are attacked."""
        return [unit.stage.name for unit in self._units]

    def take(self, data: bytes, now_us: int) -> NewRecord:
        """Take a request as ingest does. Raises RejectedError."""
        return self.codec.encode(
            self._intake.accept(parse_envelope(PublishRequest, data), now_us / 1e6)
        )

    def append(self, new: NewRecord, now_us: int) -> None:
        """Hand a record to every stage that reads its topic."""
        offset = self._ends[new.partition]
        self._ends[new.partition] += 1
        record = Record(new.partition, offset, new.key, new.value, new.headers)
        for unit in self._units:
            if new.partition in unit.partitions:
                self._note(unit.process([record], now_us).outputs)

    def end_round(self, now_us: int) -> None:
        """Close a round of every stage."""
        for unit in self._units:
            self._note(unit.close_round(now_us).outputs)

    def _note(self, outputs: Sequence[NewRecord]) -> None:
        for new in outputs:
            payload = self.codec.decode(
                Record(new.partition, 0, new.key, new.value, new.headers), of_any_count=True
            ).payload
            if isinstance(payload, DeadLetter):
                self._note_letter(payload)
            elif isinstance(payload, ChargeMade):
                self.charged.add(payload.job_id)
            elif isinstance(payload, NodePowerMeasured):
                self.measured[payload.node] += 1

    def _note_letter(self, letter: DeadLetter) -> None:
        self.letters[letter.stage] += 1
        named = (letter.headers.get(name, b"") for name in ("ce_id", "ce_source"))
        event_id, source = (each.decode(errors="replace") for each in named)
        # A mutant has another id, or a source that is nobody's.
        if event_id.startswith(f"{_SITE}/") and source.startswith(_SITE):
            self.lost.append(f"{event_id[:100]} at {letter.stage}: {letter.reason[:300]}")


@dataclass(slots=True)
class Found:
    """What came of it."""

    sent: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    growth_mib: float = 0.0


def attack(mutants: int, seed: int) -> Found:
    """Send so many mutants, with honest records between. Raises what a stage raises."""
    rng, found, region = Random(seed), Found(), Region()
    agents, mutator = Agents(rng), Mutator(rng)
    _send(region, found, agents.declared(), agents.now_us)
    process, warm_mib = psutil.Process(), 0.0
    for number in range(mutants):
        _between(number, region, found, agents, mutator)
        _attack(region, found, mutator.mutant(number), agents.now_us)
        if number % _A_ROUND == 0:
            region.end_round(agents.now_us)
        if number == int(mutants * _WARM_PART):
            warm_mib = _mib(process)
    found.growth_mib = _mib(process) - warm_mib
    for each in agents.job()[:1]:
        _send(region, found, each, agents.now_us)
    for days in (1, 2):
        region.end_round(agents.now_us + days * _DAY_US)
    found.letters, found.lost = region.letters, region.lost + _missing(region, agents)
    return found


def _between(number: int, region: Region, found: Found, agents: Agents, mutator: Mutator) -> None:
    """Send what is honest before a mutant."""
    if number % _A_JOB == 0:
        for each in agents.job():
            _send(region, found, each, agents.now_us)
    if number % _MUTANTS == 0:
        honest = agents.telemetry()
        mutator.keep(honest)
        _send(region, found, honest, agents.now_us)


def _attack(region: Region, found: Found, data: bytes, now_us: int) -> None:
    """Send a request; what ingest refuses goes straight into its topic, where it can be written."""
    found.sent["hostile"] += 1
    try:
        record = region.take(data, now_us)
    except RejectedError as error:
        found.refused[error.field.partition("[")[0]] += 1
        straight = _straight(region, data, found.sent["hostile"], now_us)
        if straight is None:
            return
        record = straight
    else:
        found.taken += 1
    region.append(record, now_us)


def _straight(region: Region, data: bytes, number: int, now_us: int) -> NewRecord | None:
    """The record that whoever may write to Kafka makes of a request; of what is none, its bytes
    under the headers of samples."""
    try:
        envelope = parse_envelope(PublishRequest, data)
    except RejectedError:
        kind = b"coplace.v1.NodeSamples"
        headers = {"ce_id": b"hostile/noise", "ce_type": kind, "ce_source": b"north"}
        time = {"ce_time": b"2026-01-01T00:00:00.000000Z"}
        place = TopicPartition("telemetry.nodes", 0)
        return NewRecord(place, b"noise", data, tuple((headers | time).items()))
    if envelope.WhichOneof("payload") is None:
        return None
    payload = _payload(envelope)
    topic = _TOPICS.get(payload.DESCRIPTOR.full_name)
    if topic is None:
        return None
    try:
        key = region.codec.topics.spec(topic).key_of(payload)
        event = Event(f"hostile/straight/{number}", _SITE, now_us, key, payload)
        return region.codec.encode(Publish(topic, event))
    except RejectedError:
        return None


_TOPICS: Final = MappingProxyType(
    {name: topic for topic in TELEMETRY for name in Topics().spec(topic).messages}
)


def _send(region: Region, found: Found, honest: Envelope, now_us: int) -> None:
    """Send an honest record, which ingest has to take."""
    found.sent["honest"] += 1
    try:
        record = region.take(PublishRequest(event=honest).SerializeToString(), now_us)
    except RejectedError as error:
        region.lost.append(f"{honest.id} at ingest: {error}")
    else:
        region.append(record, now_us)


def _missing(region: Region, agents: Agents) -> list[str]:
    """Jobs that were never charged, and nodes whose power nobody knows."""
    return [
        *(
            f"{job_id} was not charged"
            for number in range(1, agents.jobs)
            if (job_id := f"{_SITE}/{_CLUSTER}/{number}/1767225600") not in region.charged
        ),
        *(f"{node} was not measured" for node in _NODES if not region.measured[node]),
    ]


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


def main() -> None:
    """Attack, report, and exit with status 1 where something was lost or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    began_s = time.monotonic()
    found = attack(told.records, told.seed)
    print(f"{found.sent} in {time.monotonic() - began_s:.0f} s, {found.taken} mutants taken")
    print(f"refused by field: {found.refused.most_common(12)}; dead letters: {found.letters}")
    print(f"memory grew by {found.growth_mib:.1f} MiB, {len(found.lost)} honest records were lost")
    print("\n".join(found.lost[:20]))
    sys.exit(bool(found.lost) or found.growth_mib > MOST_GROWTH_MIB)


if __name__ == "__main__":
    main()
