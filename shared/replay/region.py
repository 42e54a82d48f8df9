"""Placement as it decides for a region, fed by hand."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from coplace.v1.control_pb2 import DeadLetter
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.plans_pb2 import PlanProposed

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.catalogue.record import NewRecord, Record
from shared.catalogue.topics import DLQ_PREFIX, Topics
from shared.placement.processor.placement import Placement
from shared.placement.state import announcements
from shared.replay.inputs import TOPIC, RecordedInputs
from shared.streams.stages.hooks import Tally
from shared.streams.stages.quarantine import Blame, Fault
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import EventTimeLimit, Unit

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Setting:
    """What placement has beside its inputs: the rules, and how long it remembers jobs."""

    rules: PolicySettings = field(default_factory=PolicySettings)
    remember_days: float = 7.0


_SET_ASIDE: Final = Fault("placement had set it aside", "", "")
_DECIDED: Final = PlacementDecided.DESCRIPTOR.full_name.encode()


class RecordFollower:
    """A stage that follows `placement.inputs`, in the unit that runs it in production, so that
    copies, early facts and what it refuses are dealt with in the same way; here without a log and a
    clock."""

    def __init__(self, stage: Stage, begins_us: int, set_aside: Iterable[int] = ()) -> None:
        self._codec = Codec(Topics())
        self._partition = self._codec.topics.partitions(TOPIC)[0]
        blame = Blame(rounds=dict.fromkeys(set_aside, _SET_ASIDE))
        limit = EventTimeLimit(begins_us)
        self._unit = Unit(stage, 0, {}, self._codec, limit, blame=blame or None)
        self._offset = 0
        self.tally = Tally()

    def end_round(self, events: Iterable[Event], barrier: Event) -> Sequence[NewRecord]:
        """Return what it says at the end of a round of these events."""
        records = [self._codec.encode(Publish(TOPIC, event)) for event in events]
        records.append(self._codec.encode_barrier(self._partition, barrier))
        commit = self._unit.process(list(map(self._found, records)))
        self.tally.add(commit.tally)
        return commit.outputs

    def plans(self, events: Iterable[Event], barrier: Event) -> list[Event]:
        """Return the plans among that, as events."""
        said = self.end_round(events, barrier)
        read = (self._codec.decode(Record(r.partition, 0, r.key, r.value, r.headers)) for r in said)
        return [event for event in read if isinstance(event.payload, PlanProposed)]

    def _found(self, record: NewRecord) -> Record:
        self._offset += 1
        return Record(self._partition, self._offset - 1, record.key, record.value, record.headers)


class ReplayedRegion:
    """Placement as it decides on a record, but for the rounds that it had `set_aside`."""

    def __init__(self, setting: Setting, begins_us: int, set_aside: Iterable[int] = ()) -> None:
        def create(_number: int, restored: Mapping[str, bytes]) -> Placement:
            self.placement = Placement(restored, setting.rules, setting.remember_days)
            return self.placement

        stage = Stage(
            name="placement",
            inputs=(TOPIC,),
            outputs=(announcements.OUTPUT,),
            create=create,
            single=True,
            puts_barriers=False,
        )
        self._follower = RecordFollower(stage, begins_us, set_aside)
        self.refused: list[str] = []

    @property
    def tally(self) -> Tally:
        """Return what became of the events."""
        return self._follower.tally

    def decide(self, events: Iterable[Event], barrier: Event) -> list[PlacementDecided]:
        """Decide at the end of a round of these events."""
        return list(self._decisions(self._follower.end_round(events, barrier)))

    def _decisions(self, outputs: Sequence[NewRecord]) -> Iterable[PlacementDecided]:
        for record in outputs:
            assert record.value is not None
            if record.partition.topic == announcements.OUTPUT:
                if dict(record.headers)["ce_type"] == _DECIDED:
                    yield PlacementDecided.FromString(record.value)
            elif record.partition.topic.startswith(DLQ_PREFIX):
                self.refused.append(DeadLetter.FromString(record.value).reason)


def replay(
    inputs: RecordedInputs, setting: Setting, told: Told, set_aside: Iterable[int] = ()
) -> tuple[list[PlacementDecided], ReplayedRegion]:
    """Return what placement decides on a record as it is, in its order, and the region at the end;
    `told` hears how many rounds are done. Nothing is decided in rounds that were `set_aside`."""
    region = ReplayedRegion(setting, inputs.rounds[0].round.ended_at_us, set_aside)
    decisions: list[PlacementDecided] = []
    for done, recorded in enumerate(inputs.rounds, 1):
        decisions += region.decide(recorded.events, recorded.barrier)
        told(done)
    return decisions, region
