"""All stages under an adversary."""

from collections import Counter
from dataclasses import dataclass, field

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.placement_pb2 import PlacementDecided
from google.protobuf.message import Message

from cli.stages import every_stage
from coplace_client.errors import RejectedError
from coplace_testing.ingest import EmbeddedIngest
from coplace_testing.services import INGEST_TOPICS
from services.ingest.model import Intake
from services.ingest.payloads import KINDS
from shared.catalogue.event import Event, Publish
from shared.catalogue.topics import DLQ_PREFIX
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.support.hostile import DAY_US, Adversary
from tests.support.messaging import CODEC, START_US, TOPICS, barrier

SHARED = Settings(rounds=RoundSource.BARRIERS, kafka_partitions=4)
STAGES = every_stage(SHARED)
_BY_HAND = "adversary"
_TOPICS = {
    "SignatureUpdated": "energy.signatures",
    "AppIdMismatch": "energy.mismatches",
    "CoefficientsPublished": "energy.coefficients",
    "PowerModelPublished": "prediction.models",
    "PowerHistoryUpdated": "prediction.power",
    "RunningPowerMeasured": "prediction.power",
    "RunPowerPredicted": "prediction.power",
    "NodeMetersRead": "prediction.power",
    "NodePowerMeasured": "prediction.readings",
    "PowerTreesPublished": "prediction.models",
    "PowerTreesJudged": "prediction.models",
    "PowerTreesChosen": "prediction.models",
    "PairTreesPublished": "prediction.models",
    "PairTreesJudged": "prediction.models",
    "PairTreesChosen": "prediction.models",
    "DegradationModelPublished": "prediction.models",
    "NodePowerPublished": "prediction.models",
}


@dataclass
class HostileRun:
    """A log of its own; what ingest took, refused, and what stages could not use."""

    seed: int
    log: InMemoryLog = field(default_factory=InMemoryLog)
    taken: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    decided: int = 0

    def __post_init__(self) -> None:
        self._adversary = Adversary(self.seed, START_US)
        self._ingest = EmbeddedIngest(self.log, CODEC, Intake(TOPICS))
        self._round = 0
        self._drawn = 0

    def play(self, rounds: int, messages: int) -> None:
        """Rounds of so many messages each, by workers that start anew now and then."""
        runtime = EmbeddedRuntime(self.log, STAGES, codec=CODEC)
        for _ in range(rounds):
            for _ in range(messages):
                self._send()
            self._end_round()
            runtime.run_until_quiet()
            if self._adversary.random.random() < 0.2:
                runtime.leave()
                runtime = EmbeddedRuntime(self.log, STAGES, codec=CODEC)
        runtime.leave()

    def faults(self) -> list[str]:
        """What stages wrote that others refused, and decisions that could not be explained."""
        found = [words for each in self._decisions() if (words := _words(each))]
        for topic in sorted({name for stage in STAGES for name in stage.inputs}):
            found += [str(letter) for letter in self._letters(DLQ_PREFIX + topic)]
        return found

    def _send(self) -> None:
        self._drawn += 1
        if self._adversary.random.random() < 0.05:
            self._write_by_hand(self._adversary.internal())
            return
        envelope = self._adversary.envelope()
        try:
            self._ingest.take(envelope, self._adversary.now_us)
        except RejectedError as error:
            self.refused[error.field.split("[", maxsplit=1)[0]] += 1
            self._write_refused(envelope)
            return
        self.taken += 1

    def _write_refused(self, envelope: Envelope) -> None:
        """Straight to the topic, where the codec can write it."""
        name = envelope.WhichOneof("payload")
        payload, topic = getattr(envelope, str(name)), KINDS[str(name)].topic
        self._write(topic, payload, envelope.time_us)

    def _write_by_hand(self, message: Message) -> None:
        topic = _TOPICS[message.DESCRIPTOR.name]
        self._write(topic, message, self._adversary.now_us)

    def _write(self, topic: str, payload: Message, time_us: int) -> None:
        key = TOPICS.spec(topic).key_of(payload)
        event = Event(f"{_BY_HAND}/{self._drawn}", _BY_HAND, time_us, key, payload)
        try:
            self.log.append(CODEC.encode(Publish(topic, event)))
        except RejectedError:
            return

    def _end_round(self) -> None:
        adversary = self._adversary
        adversary.now_us += adversary.random.choice((1, 1_000_000, 60_000_000, DAY_US, 8 * DAY_US))
        for topic in INGEST_TOPICS:
            for place in TOPICS.partitions(topic):
                self.log.append(barrier(place, self._round, adversary.now_us))
        self._round += 1

    def _decisions(self) -> list[PlacementDecided]:
        places = TOPICS.partitions("placement.decisions")
        events = [CODEC.decode(record) for p in places for record in self.log.read(p, 0, 1 << 40)]
        decided = [e.payload for e in events if isinstance(e.payload, PlacementDecided)]
        self.decided = len(decided)
        return decided

    def _letters(self, topic: str) -> list[DeadLetter]:
        """Of records that no adversary wrote."""
        records = [r for p in TOPICS.partitions(topic) for r in self.log.read(p, 0, 1 << 40)]
        letters = [CODEC.decode(record).payload for record in records]
        ours = [one for one in letters if isinstance(one, DeadLetter)]
        return [one for one in ours if _is_of_a_stage(one)]


def _is_of_a_stage(letter: DeadLetter) -> bool:
    if letter.kind:
        return True
    return letter.headers["ce_source"] not in (b"north", _BY_HAND.encode())


def _words(decision: PlacementDecided) -> str:
    told = (decision.reason, *(candidate.constraint for candidate in decision.candidates))
    return next((text for text in told if "please report" in text or "failed, stack" in text), "")
