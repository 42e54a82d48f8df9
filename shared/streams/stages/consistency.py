"""Whether state, positions and topics belong together: compared before a unit works, and while it
does. Pure; `kafka_facts` and the log in memory say what is there."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from shared.catalogue.codec import format_time
from shared.catalogue.record import Record, TopicPartition
from shared.catalogue.topics import Cleanup, Topics
from shared.streams.stages.provenance import FORMAT, Provenance, TopicIdentity
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit import unit_count, unit_partitions

HOW_TO: Final = "docs/how-to/restore.md"


class Inconsistency(NamedTuple):
    """What does not fit, and what an operator can do."""

    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"


MEND_CLOCK: Final = (
    "set the clocks of all machines right; if they are, run `coplace clock mend` "
    "(docs/how-to/clocks.md)"
)


def ahead_of_clock(closed_us: int, now_us: int, tolerance_us: int) -> list[Inconsistency]:
    """Return what is wrong with a state whose last round ended in the future. It was made under a
    wrong clock, or is read under one: no round would end until that time has come."""
    if closed_us - now_us <= tolerance_us:
        return []
    ahead_s = (closed_us - now_us) / 1e6
    what = f"its last round ended at {format_time(closed_us)}, {ahead_s:.0f} s ahead of the clock"
    return [Inconsistency(what, MEND_CLOCK)]


class InconsistentError(Exception):
    """Data were replaced under a unit or a read model: it must not work on them."""

    def __init__(self, owner: str, found: Iterable[Inconsistency]) -> None:
        self.owner = owner
        self.found = tuple(found)
        super().__init__(f"{owner} is refused: {'; '.join(map(str, self.found))}")


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log holds of a unit's topics and partitions; a partition or topic that is not there is
    absent.

    `sha256` is that of the record now where one was read last, None where none is now;
    `committed` and `commits` are the group's positions and the number of the commit that set them
    last, None when it is unknown. `told` is where the unit once wrote, looked for only when
    neither a state nor the group says that it ever worked.
    """

    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    sha256: Mapping[TopicPartition, bytes | None] = field(default_factory=dict)
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    commits: int | None = None
    told: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class UnitPartitions:
    """What a unit works with: declared counts of Kafka partitions by topic, the topics that Kafka
    compacts, the partitions that it reads, and its changelog, which may have more of them: a unit
    looks for its own number there, not for keys; and the partitions that it writes to."""

    stage: str
    kafka_partitions: Mapping[str, int]
    compacted: frozenset[str]
    inputs: tuple[TopicPartition, ...]
    changelog: TopicPartition
    outputs: tuple[TopicPartition, ...] = ()

    @classmethod
    def from_stage(cls, stage: Stage, number: int, topics: Topics) -> Self:
        """Return unit `number` of a stage as a deployment declares its topics."""
        names = (*stage.inputs, *stage.outputs)
        compacted = (name for name in names if topics.spec(name).cleanup is Cleanup.COMPACT)
        counts = {name: topics.kafka_partitions(name) for name in names}
        return cls(
            stage.name,
            {**counts, stage.changelog: unit_count(stage, topics)},
            frozenset(compacted),
            tuple(unit_partitions(stage.inputs, stage, number, topics)),
            TopicPartition(stage.changelog, number),
            tuple(unit_partitions(stage.outputs, stage, number, topics)),
        )

    def wrote(self, record: Record) -> bool:
        """Return whether a record of its outputs is of this stage, by its `ce_source`: others may
        write there too."""
        source = dict(record.headers).get("ce_source", b"").decode(errors="replace")
        stage, _, unit = source.rpartition(".")
        return source == self.stage or (stage == self.stage and unit.isdecimal())

    @property
    def name(self) -> str:
        """Return how operators know the unit."""
        return f"{self.stage}/{self.changelog.kafka_partition}"


def open_unit(
    unit: UnitPartitions, provenance: Provenance | None, has_state: bool, found: LogFacts
) -> tuple[dict[TopicPartition, int], Provenance]:
    """Return where a unit reads on, and the provenance of the state that it goes on with.

    Raises InconsistentError when the state must not be worked on.
    """
    if wrong := check_at_start(unit, provenance, has_state, found):
        raise InconsistentError(unit.name, wrong)
    known = provenance or Provenance()
    positions = {p: at for p, at in known.positions.items() if p in unit.inputs}
    of_today = replace(
        known,
        topics={name: found.topics[name] for name in unit.kafka_partitions},
        positions=positions,
        expired={} if _committed(unit, found) else positions,
        last_read={p: last for p, last in known.last_read.items() if p in unit.inputs},
        written_to={
            p: at for p, at in known.written_to.items() if p.topic in unit.kafka_partitions
        },
    )
    return start_positions(unit, provenance, found), of_today


def start_positions(
    unit: UnitPartitions, provenance: Provenance | None, found: LogFacts
) -> dict[TopicPartition, int]:
    """Return where a unit that fits reads on: its committed positions; those of its state, when
    Kafka let the group's expire; the beginning of what it has never read."""
    known = _committed(unit, found) or (provenance.positions if provenance else {})
    return {
        partition: known.get(partition, found.begins.get(partition, 0)) for partition in unit.inputs
    }


def check_at_start(
    unit: UnitPartitions, provenance: Provenance | None, has_state: bool, found: LogFacts
) -> list[Inconsistency]:
    """Return what keeps a unit from going on with the state in its changelog."""
    counts = list(wrong_counts(unit, found.topics))
    if provenance is None:
        return [*counts, *_without_provenance(unit, has_state, found)]
    if provenance.format != FORMAT:
        what = f"{unit.changelog.topic} has format {provenance.format}, this version knows {FORMAT}"
        return [
            Inconsistency(what, "run the version that wrote it, or restore a backup of its own")
        ]
    further = [*_positions(unit, provenance, found), *check_at_work(unit, provenance, found)]
    return list(dict.fromkeys([*counts, *further]))


def check_at_work(
    unit: UnitPartitions, provenance: Provenance, found: LogFacts
) -> list[Inconsistency]:
    """Return what was replaced under a unit: all that a start compares but the group's
    positions."""
    others = {name: at for name, at in provenance.topics.items() if name != unit.changelog.topic}
    return [
        *_own_changelog(unit, provenance, found),
        *_identities(others, found.topics),
        *_changed_counts(unit, provenance.topics, found.topics),
        *_ranges(provenance, found),
        *_last_read(provenance, found, unit.compacted),
    ]


def committed_meanwhile(
    unit: UnitPartitions, before: Provenance | None, later: Provenance, found: LogFacts
) -> bool:
    """Return whether the group was, between two readings of a changelog, where a unit at work was
    then: it is no further than the later one says, and no less far than the earlier."""
    known = before or Provenance()
    if later.commits <= known.commits or later.format != FORMAT:
        return False
    if not known.commits <= (found.commits or 0) <= later.commits:
        return False
    return all(
        known.positions.get(partition, 0) <= at <= later.positions.get(partition, 0)
        for partition, at in _committed(unit, found).items()
    )


def read_model_differences(
    provenance: Provenance, found: LogFacts, compacted: frozenset[str]
) -> list[Inconsistency]:
    """Return what a read model was made from and Kafka does not have. Its rows do not depend on
    where a key lies: more Kafka partitions make no difference."""
    return [
        *_identities(provenance.topics, found.topics),
        *_ranges(provenance, found),
        *_last_read(provenance, found, compacted),
    ]


def wrong_counts(
    unit: UnitPartitions, topics: Mapping[str, TopicIdentity]
) -> Iterator[Inconsistency]:
    for topic, count in unit.kafka_partitions.items():
        there = topics.get(topic)
        if there is None:
            yield missing(topic)
        elif topic == unit.changelog.topic and there.kafka_partitions > count:
            continue
        elif there.kafka_partitions != count:
            yield Inconsistency(
                f"{topic} has {there.kafka_partitions} Kafka partitions, declared are {count}",
                f"keys would be looked for in other ones: {HOW_TO}, 'More Kafka partitions'",
            )


def missing(topic: str) -> Inconsistency:
    """Return that a topic is missing."""
    advice = f"restore it ({HOW_TO}), or for a new system `coplace topics create`"
    return Inconsistency(f"{topic} is missing", advice)


def _without_provenance(
    unit: UnitPartitions, has_state: bool, found: LogFacts
) -> Iterator[Inconsistency]:
    changelog = f"{unit.changelog.topic}/{unit.changelog.kafka_partition}"
    if has_state:
        yield Inconsistency(
            f"{changelog} does not say what its state was made from",
            f"if it is whole and {unit.stage} stopped where it was written, "
            f"`coplace restore accept {unit.stage}`",
        )
    elif committed := _committed(unit, found):
        partition, position = max(committed.items(), key=lambda item: item[1])
        yield Inconsistency(
            f"{changelog} is empty although {partition.topic}/{partition.kafka_partition} was read "
            f"up to {position}: the state is lost",
            f"restore a backup of {unit.changelog.topic}, or `coplace restore replay {unit.stage}`",
        )
    elif found.told is not None:
        yield Inconsistency(
            f"{changelog} is empty and the group has no positions, but {_at(found.told)} holds "
            f"what {unit.stage} wrote: it is not new, its state is lost",
            f"restore a backup of {unit.changelog.topic}, or `coplace restore replay {unit.stage}`",
        )


def _positions(
    unit: UnitPartitions, provenance: Provenance, found: LogFacts
) -> Iterator[Inconsistency]:
    """Compare the group's positions with those of the state. None at all have expired with the
    group, which Kafka does after `offsets.retention.minutes`: the state's own then count."""
    committed = _committed(unit, found)
    if not committed:
        return
    advice = (
        f"restore what belongs together, or `coplace restore accept {unit.stage}` to go on at the "
        "positions of the state"
    )
    for partition in unit.inputs:
        state, group = provenance.positions.get(partition), committed.get(partition)
        if state != group:
            yield Inconsistency(
                f"the state in {unit.changelog.topic}/{unit.changelog.kafka_partition} was made up "
                f"to {_offset(state)} of {partition.topic}/{partition.kafka_partition}, "
                f"but the group is at {_offset(group)}",
                advice,
            )
    if found.commits is not None and found.commits != provenance.commits:
        yield Inconsistency(
            f"the state in {unit.changelog.topic}/{unit.changelog.kafka_partition} is that of "
            f"commit {provenance.commits}, but the group is at commit {found.commits}",
            advice,
        )


def _committed(unit: UnitPartitions, found: LogFacts) -> Mapping[TopicPartition, int]:
    return {
        partition: found.committed[partition]
        for partition in unit.inputs
        if partition in found.committed
    }


def _own_changelog(
    unit: UnitPartitions, provenance: Provenance, found: LogFacts
) -> Iterator[Inconsistency]:
    """Compare the changelog: what a unit wrote to a new topic of this name, before it was noticed,
    is not all of its state."""
    topic = unit.changelog.topic
    before, there = provenance.topics.get(topic), found.topics.get(topic)
    if there is None:
        yield missing(topic)
    elif before is not None and there.topic_id != before.topic_id:
        yield Inconsistency(
            f"{topic} is another topic than the one that the state belongs to",
            "it was deleted and created again, and is not whole: restore a backup of it, or "
            f"`coplace restore replay {unit.stage}`",
        )


def _identities(
    known: Mapping[str, TopicIdentity], topics: Mapping[str, TopicIdentity]
) -> Iterator[Inconsistency]:
    for topic, before in known.items():
        there = topics.get(topic)
        if there is None:
            yield missing(topic)
        elif there.topic_id != before.topic_id:
            yield Inconsistency(
                f"{topic} is another topic than the one that the state belongs to",
                f"it was deleted and created again: {HOW_TO}, 'A topic was replaced'",
            )


def _changed_counts(
    unit: UnitPartitions, known: Mapping[str, TopicIdentity], topics: Mapping[str, TopicIdentity]
) -> Iterator[Inconsistency]:
    for topic, before in known.items():
        there = topics.get(topic, before)
        if topic != unit.changelog.topic and there.kafka_partitions != before.kafka_partitions:
            yield Inconsistency(
                f"{topic} has {there.kafka_partitions} Kafka partitions, the state was made with "
                f"{before.kafka_partitions}",
                f"keys moved between them: {HOW_TO}, 'More Kafka partitions'",
            )


def _ranges(provenance: Provenance, found: LogFacts) -> Iterator[Inconsistency]:
    older = f"the topic was restored older: {HOW_TO}, 'Kafka is older'"
    for partition, position in provenance.positions.items():
        begin, end = found.begins.get(partition, 0), found.ends.get(partition)
        if end is not None and position > end:
            yield Inconsistency(
                f"{_at(partition)} ends at {end}, it was read up to {position}", older
            )
        if position < begin:
            yield Inconsistency(
                f"{_at(partition)} begins at {begin}, it was read up to {position}",
                "records were deleted unread: restore them, "
                f"or go on without them as {HOW_TO} says, 'Records deleted unread'",
            )
    for partition, written_to in provenance.written_to.items():
        end = found.ends.get(partition)
        if end is not None and written_to > end:
            yield Inconsistency(f"{_at(partition)} ends at {end}, {written_to} was written", older)


def _last_read(
    provenance: Provenance, found: LogFacts, compacted: frozenset[str]
) -> Iterator[Inconsistency]:
    for partition, last in provenance.last_read.items():
        if last.offset < found.begins.get(partition, 0) or last.offset >= found.ends.get(
            partition, 0
        ):
            continue
        there = found.sha256.get(partition)
        if there == last.sha256 or (there is None and partition.topic in compacted):
            continue
        yield Inconsistency(
            f"{_at(partition)} has another record at {last.offset} than the one that was read "
            "there",
            f"the topic was restored older and written since: {HOW_TO}, 'Kafka is older'",
        )


def _at(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.kafka_partition}"


def _offset(position: int | None) -> str:
    return "its beginning" if position is None else str(position)
