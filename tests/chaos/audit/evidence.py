"""What the topics say, read once for all checks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from coplace.v1.control_pb2 import (
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    DeadLetter,
    RoundEnded,
)
from coplace.v1.jobs_pb2 import JobFinished, JobStarted
from coplace.v1.placement_pb2 import VERDICT_ACTION, VERDICT_START, PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from coplace_client.errors import RejectedError
from coplace_testing.topics import TopicReader
from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.topics import DLQ_PREFIX
from shared.streams.in_memory.log import InMemoryLog
from tests.chaos.world import INPUTS, World

_WHOLE = 1 << 60
# No episode has so many rounds.
_FAR_AHEAD = 10**6


def events_of(log: InMemoryLog, codec: Codec, topic: str) -> Iterator[Event]:
    """The events of a topic that can be decoded, without barriers."""
    for record in TopicReader(log, codec, [topic]).records():
        try:
            event = codec.decode(record, of_any_count=True)
        except RejectedError:
            continue
        if not isinstance(event.payload, RoundEnded):
            yield event


def charges_of(log: InMemoryLog, codec: Codec) -> Iterator[ChargeMade]:
    """The charges that were published."""
    for event in events_of(log, codec, "prices.charges"):
        if isinstance(event.payload, ChargeMade):
            yield event.payload


def taken_since(world: World) -> Iterator[Event]:
    """What placement took in, in its order with the ends of rounds, since its inputs were restored
    last: of two copies one may be refused."""
    letters = events_of(world.log, world.codec, DLQ_PREFIX + INPUTS.topic)
    refused = {
        event.payload.offset
        for event in islice(letters, world.journal.letters_before, None)
        if isinstance(event.payload, DeadLetter) and event.payload.stage == "placement"
    }
    for record in world.log.read(INPUTS, world.journal.inputs_end, _WHOLE):
        if record.offset not in refused:
            yield world.codec.decode(record, of_any_count=True)


def is_hostile(name: str) -> bool:
    """Whether a job or a cluster is one of those that somebody hostile lies about."""
    return name.startswith("hostile-")


@dataclass(slots=True)
class Known:
    """What placement had read by the end of each round: which clusters are lost; and how many nodes
    each ever had. Barriers that somebody forged have ids of their own."""

    most_nodes: Counter[str] = field(default_factory=Counter)
    _lost: dict[int, frozenset[str]] = field(default_factory=dict)
    _newest: dict[str, tuple[int, str, bool]] = field(default_factory=dict)
    _undeclared: dict[str, tuple[int, str]] = field(default_factory=dict)
    _declared: dict[str, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, taken: Iterable[Event]) -> "Known":
        """From what placement took in, in its order."""
        known = cls()
        for event in taken:
            known._read(event)
        return known

    @property
    def lost(self) -> frozenset[str]:
        """The clusters that were lost at the end of the last round."""
        return self.lost_at(max(self._lost, default=0))

    def lost_at(self, number: int) -> frozenset[str]:
        """The clusters that were lost at the end of a round."""
        return self._lost.get(number, frozenset())

    def _read(self, event: Event) -> None:
        match event.payload:
            case ClusterDeclared() as told:
                stamp = event.time_us, event.id
                self._declared[told.cluster] = max(stamp, self._declared.get(told.cluster, stamp))
                self.most_nodes[told.cluster] = max(self.most_nodes[told.cluster], told.nodes)
            case ClusterUndeclared() as told:
                stamp = event.time_us, event.id
                self._undeclared[told.cluster] = max(
                    stamp, self._undeclared.get(told.cluster, stamp)
                )
                if stamp > self._declared.get(told.cluster, (0, "")):  # else it returned since
                    self._newest.pop(told.cluster, None)
            case ClusterLost() | ClusterReturned() as told:
                if (event.time_us, event.id) <= self._undeclared.get(told.cluster, (0, "")):
                    return
                newest = event.time_us, event.id, isinstance(told, ClusterLost)
                self._newest[told.cluster] = max(newest, self._newest.get(told.cluster, newest))
            case RoundEnded() as barrier if "/forged/" not in event.id:
                lost = frozenset(name for name, (*_, is_lost) in self._newest.items() if is_lost)
                self._lost.setdefault(barrier.round, lost)


@dataclass(slots=True)
class Evidence:
    """A run as its topics and journals have it. `by_round` are the decisions of a round, `starts`
    those of one on a cluster;
    `refused` has the ids of what `stage` put into a dead-letter queue, with the reason."""

    world: World
    decisions: list[PlacementDecided] = field(default_factory=list)
    by_round: dict[int, list[PlacementDecided]] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    starts: defaultdict[tuple[int, str], list[PlacementDecided]] = field(
        default_factory=lambda: defaultdict(list)
    )
    charges: list[ChargeMade] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    quarantined: dict[tuple[str, str], str] = field(default_factory=dict)
    _taken: list[Event] = field(default_factory=list)

    @classmethod
    def of(cls, world: World) -> "Evidence":
        """Read everything."""
        found = cls(world)
        for event in events_of(world.log, world.codec, "placement.decisions"):
            if isinstance(event.payload, PlacementDecided):
                found.decisions.append(event.payload)
        # Those on a job lie at several partitions when its topic got more Kafka partitions.
        found.decisions.sort(key=lambda decided: decided.round)
        for decided in found.decisions:
            found.by_round.setdefault(decided.round, []).append(decided)
            if decided.verdict == VERDICT_START:
                found.starts[decided.round, decided.cluster].append(decided)
        found.charges += charges_of(world.log, world.codec)
        found.inputs = [e.id for e in events_of(world.log, world.codec, "placement.inputs")]
        for topic in world.codec.topics.specs:
            for event in events_of(world.log, world.codec, DLQ_PREFIX + topic):
                found._refuse(event)
        found._taken += [*world.journal.taken_before, *taken_since(world)]
        found.known = Known.of(found.taken())
        return found

    @property
    def last_decision(self) -> dict[str, PlacementDecided]:
        """The newest decision on the newest attempt of each job: what is said later of an older
        one, of which a copy came, says nothing of the job, nor does what is done to its run."""
        newest: dict[str, PlacementDecided] = {}
        for decided in self.decisions:
            if decided.verdict == VERDICT_ACTION:
                continue
            before = newest.get(decided.job_id)
            if before is None or decided.attempt >= before.attempt:
                newest[decided.job_id] = decided
        return newest

    @property
    def held_by_hostile_runs(self) -> set[str]:
        """Clusters with runs of somebody hostile that never ended."""
        runs: dict[tuple[str, int], str] = {}
        ended: set[tuple[str, int]] = set()
        for event in self.taken():
            match event.payload:
                case JobStarted() as told if is_hostile(told.job_id):
                    runs[told.job_id, told.attempt] = told.cluster
                case JobFinished() as told:
                    ended.add((told.job_id, told.attempt))
        return {cluster for run, cluster in runs.items() if run not in ended}

    @property
    def said_to_have_ended(self) -> set[tuple[str, int]]:
        """Runs of somebody hostile that by his own word have ended, and go on."""
        return {
            (event.payload.job_id, event.payload.attempt)
            for event in self.taken()
            if isinstance(event.payload, JobFinished)
            and is_hostile(event.payload.job_id)
            and not event.id.startswith("site/")
        }

    def ends_of_rounds(self, *folds: Callable[[Event], None]) -> Iterator[RoundEnded]:
        """The end of each round, after what placement took in before it was folded; copies of
        barriers end nothing again, and what somebody forged far ahead ends nothing."""
        ended: set[int] = set()
        for event in self.taken():
            for fold in folds:
                fold(event)
            barrier = event.payload
            if not isinstance(barrier, RoundEnded) or barrier.round in ended:
                continue
            if barrier.round < _FAR_AHEAD:
                ended.add(barrier.round)
                yield barrier

    def taken(self) -> Sequence[Event]:
        """What placement took in, in its order, with the ends of rounds."""
        return self._taken

    def _refuse(self, event: Event) -> None:
        letter = event.payload
        assert isinstance(letter, DeadLetter)
        event_id = letter.headers.get("ce_id", b"").decode(errors="replace")
        self.refused[letter.stage, event_id] = letter.reason
        if letter.kind == "quarantined":
            self.quarantined[letter.stage, event_id] = letter.reason
