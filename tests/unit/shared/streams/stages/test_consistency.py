from dataclasses import replace

import pytest

from shared.catalogue.record import TopicPartition
from shared.streams.stages.consistency import (
    LogFacts,
    UnitPartitions,
    check_at_start,
    start_positions,
)
from shared.streams.stages.provenance import LastRead, Provenance, TopicIdentity

IN, OUT, LOG = (
    TopicPartition("jobs.events", 1),
    TopicPartition("prices.charges", 1),
    TopicPartition("changelog.pricing", 1),
)
UNIT = UnitPartitions(
    stage="pricing",
    kafka_partitions={"jobs.events": 4, "prices.charges": 4, "changelog.pricing": 4},
    compacted=frozenset({"changelog.pricing"}),
    inputs=(IN,),
    changelog=LOG,
)
TOPICS = {name: TopicIdentity(name.encode(), 4) for name in UNIT.kafka_partitions}
STATE = Provenance(
    commits=7,
    topics=TOPICS,
    positions={IN: 20},
    last_read={IN: LastRead(19, b"nineteen")},
    written_to={OUT: 9},
)
FOUND = LogFacts(
    topics=TOPICS,
    begins={IN: 0, OUT: 0, LOG: 0},
    ends={IN: 30, OUT: 9, LOG: 50},
    sha256={IN: b"nineteen"},
    committed={IN: 20},
    commits=7,
)


NEW = replace(FOUND, committed={}, commits=None)


@pytest.mark.parametrize(
    ("found", "state", "begins_at"),
    [
        (FOUND, STATE, 20),
        (replace(NEW, begins={IN: 12}), None, 12),
        (NEW, STATE, 20),
        (replace(FOUND, begins={IN: 20}, sha256={IN: None}), STATE, 20),
    ],
    ids=["all", "a new stage", "positions that expired", "what is deleted after it was read"],
)
def test_what_belongs_together_fits(
    found: LogFacts, state: Provenance | None, begins_at: int
) -> None:
    assert check_at_start(UNIT, state, state is not None, found) == []
    assert start_positions(UNIT, state, found) == {IN: begins_at}


def test_a_compacted_topic_may_have_dropped_the_record_that_was_read_last() -> None:
    unit = replace(UNIT, compacted=frozenset({"jobs.events"}))
    assert check_at_start(unit, STATE, True, replace(FOUND, sha256={IN: None})) == []


def _without(topic: str) -> dict[str, TopicIdentity]:
    return {name: found for name, found in TOPICS.items() if name != topic}


def _with(topic: str, identity: TopicIdentity) -> dict[str, TopicIdentity]:
    return {**TOPICS, topic: identity}


@pytest.mark.parametrize(
    ("found", "says", "advises"),
    [
        (replace(FOUND, topics=_without("jobs.events")), "jobs.events is missing", "restore it"),
        (
            replace(FOUND, topics=_with("jobs.events", TopicIdentity(b"jobs.events", 6))),
            "jobs.events has 6 Kafka partitions, declared are 4",
            "More Kafka partitions",
        ),
        (
            replace(FOUND, topics=_with("changelog.pricing", TopicIdentity(b"new", 4))),
            "changelog.pricing is another topic",
            "coplace restore replay pricing",
        ),
        (
            replace(FOUND, committed={IN: 25}),
            "but the group is at 25",
            "restore accept pricing",
        ),
        (
            replace(FOUND, committed={IN: 15}),
            "but the group is at 15",
            "restore accept pricing",
        ),
        (replace(FOUND, commits=9), "commit 7, but the group is at commit 9", "restore accept"),
        (replace(FOUND, ends={IN: 19}), "ends at 19, it was read up to 20", "Kafka is older"),
        (replace(FOUND, begins={IN: 21}), "begins at 21", "Records deleted unread"),
        (replace(FOUND, ends={IN: 30, OUT: 8}), "ends at 8, 9 was written", "Kafka is older"),
        (replace(FOUND, sha256={IN: b"other"}), "another record at 19", "Kafka is older"),
        (replace(FOUND, sha256={IN: None}), "another record at 19", "Kafka is older"),
    ],
)
def test_what_was_replaced_is_named_with_what_to_do(
    found: LogFacts, says: str, advises: str
) -> None:
    wrong = check_at_start(UNIT, STATE, True, found)
    assert any(says in one.what and advises in one.advice for one in wrong), wrong


@pytest.mark.parametrize(
    ("found", "state", "has_state", "says", "advises"),
    [
        (FOUND, None, False, "the state is lost", "coplace restore replay pricing"),
        (
            replace(NEW, told=OUT),
            None,
            False,
            "but prices.charges/1 holds what pricing wrote: it is not new",
            "coplace restore replay pricing",
        ),
        (FOUND, None, True, "does not say what its state was made from", ""),
        (
            replace(FOUND, committed={}),
            replace(STATE, format=2),
            True,
            "has format 2, this version knows 1",
            "",
        ),
    ],
    ids=["a lost changelog", "looks new and has written", "of nobody knows what", "newer"],
)
def test_a_state_that_cannot_be_continued_is_named_alone(
    found: LogFacts, state: Provenance | None, has_state: bool, says: str, advises: str
) -> None:
    [wrong] = check_at_start(UNIT, state, has_state, found)
    assert says in wrong.what
    assert advises in wrong.advice


def test_a_partition_that_the_group_has_read_and_the_state_has_not_is_named() -> None:
    more = TopicPartition("jobs.events", 2)
    unit = replace(UNIT, inputs=(IN, more))
    [behind] = check_at_start(unit, STATE, True, replace(FOUND, committed={IN: 20, more: 1}))
    assert "made up to its beginning of jobs.events/2, but the group is at 1" in behind.what


def test_counts_that_were_changed_in_the_settings_too_are_still_not_those_of_the_state() -> None:
    unit = replace(UNIT, kafka_partitions=dict.fromkeys(UNIT.kafka_partitions, 6))
    six = {name: replace(identity, kafka_partitions=6) for name, identity in TOPICS.items()}
    wrong = check_at_start(unit, STATE, True, replace(FOUND, topics=six))
    assert all("the state was made with 4" in one.what for one in wrong)
    assert len(wrong) == 2
