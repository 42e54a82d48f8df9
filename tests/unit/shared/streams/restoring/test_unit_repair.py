from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from coplace.v1.control_pb2 import RoundEnded

from shared.catalogue.codec import Codec
from shared.catalogue.event import Event
from shared.catalogue.topics import Topics
from shared.domain.rounds import RoundSource
from shared.streams.restoring.unit_repair import (
    RepairedState,
    UnitAtRest,
    accept,
    accepted,
    misplaced_records,
    outputs_of,
    replay,
    replayed,
)
from shared.streams.stages.consistency import InconsistentError, LogFacts, check_at_start
from shared.streams.stages.provenance import PROVENANCE_KEY, Provenance, TopicIdentity
from shared.streams.stages.stage import Stage
from shared.streams.stages.unit_state import HEARD_KEY, PUBLISHED_THROUGH, ROUND_KEY, heard_of
from shared.streams.state.rows import rows_of
from shared.streams.state.state import key_of
from tests.support.messaging import CODEC, at_offset, barriers, counting, encoded, submission
from tests.unit.shared.streams.stages.test_consistency import FOUND, IN, STATE, TOPICS, UNIT

AGAIN = {name: TopicIdentity(b"again", 4) for name in TOPICS}


def test_an_accepted_state_goes_on_where_it_was_made_up_to_whatever_the_group_says() -> None:
    found = replace(FOUND, committed={IN: 27}, commits=9)
    positions, provenance = accepted(UNIT, STATE, True, found)
    assert positions == {IN: 20}
    after = provenance.after(positions, {}, {})
    assert check_at_start(UNIT, after, True, replace(FOUND, commits=after.commits)) == []


NEW = replace(FOUND, committed={}, commits=None)
SHORTER = replace(FOUND, topics=AGAIN, ends={IN: 12}, committed={})


@pytest.mark.parametrize(
    ("state", "has_state", "found", "begins_at", "provenance"),
    [
        (None, True, FOUND, 20, Provenance(commits=7, topics=TOPICS)),
        (STATE, True, SHORTER, 12, Provenance(commits=7, topics=AGAIN)),
        (None, False, NEW, None, Provenance(commits=0, topics=TOPICS)),
    ],
    ids=["a state that does not say", "within what replaced topics hold", "never worked"],
)
def test_where_an_accepted_state_goes_on(
    state: Provenance | None,
    has_state: bool,
    found: LogFacts,
    begins_at: int | None,
    provenance: Provenance,
) -> None:
    positions, after = accepted(UNIT, state, has_state, found)
    assert positions == ({} if begins_at is None else {IN: begins_at})
    assert (after.commits, after.topics) == (provenance.commits, provenance.topics)
    assert (after.last_read, after.written_to) == ({}, {})


def test_what_was_deleted_meanwhile_is_passed_over_and_a_replay_begins_where_inputs_do() -> None:
    assert accepted(UNIT, STATE, True, replace(FOUND, begins={IN: 25}))[0] == {IN: 25}
    positions, provenance = replayed(UNIT, None, replace(FOUND, begins={IN: 3}))
    assert positions == {IN: 3}
    assert (provenance.commits, provenance.positions) == (7, {})


def closed_by(mended: RepairedState) -> int | None:
    """The last round of a state that was repaired, None where it goes on with its own."""
    changed = mended.commit.changelog.get(ROUND_KEY)
    return RoundEnded.FromString(changed).round if changed else None


def test_nothing_is_accepted_without_a_state_or_with_other_counts() -> None:
    with pytest.raises(InconsistentError, match="holds no state of pricing/1"):
        accepted(UNIT, None, False, FOUND)
    six = {name: replace(identity, kafka_partitions=6) for name, identity in TOPICS.items()}
    with pytest.raises(InconsistentError, match="declared are 4"):
        accepted(UNIT, STATE, True, replace(FOUND, topics=six))


def barrier(number: int, source: str = "counting.1") -> Event:
    """The end of a round, as an output has it."""
    ended = RoundEnded(round=number, ended_at_us=number % 1_000 * 1_000_000)
    return Event(f"m{number}", source, ended.ended_at_us, "", ended)


def at_rest(stage: Stage, closed: int, *told: Event) -> UnitAtRest:
    """A unit that closed a round and counted ada's jobs, and whose outputs say something."""
    restored = {
        ROUND_KEY: RoundEnded(round=closed, ended_at_us=closed * 1_000_000).SerializeToString(),
        PROVENANCE_KEY: STATE.to_bytes(),
        "ada": b"[]",
    }
    return UnitAtRest(stage, UNIT, restored, FOUND, lambda: told)


def test_rounds_that_the_clock_closes_follow_on_the_last_barrier_that_was_believed() -> None:
    forged = barrier(2**64 - 1), barrier(9), barrier(8, "somebody")
    unit = at_rest(
        counting(rounds=RoundSource.CLOCK), 5, barrier(5), barrier(6), *forged, barrier(7)
    )
    assert (closed_by(accept(unit)), closed_by(replay(unit))) == (7, 7)


def test_rounds_that_barriers_close_are_decided_again_as_they_were() -> None:
    for stage in (counting(), replace(counting(), puts_barriers=False)):
        unit = at_rest(stage, 5, barrier(6))
        assert closed_by(accept(unit)) is None
        again = replay(unit).commit.changelog
        assert again == {ROUND_KEY: None, "ada": None, HEARD_KEY: b"5"}


def test_what_outputs_show_is_recalled() -> None:
    def recall(
        state: Mapping[str, bytes], told: Iterable[Event], next_round: int
    ) -> Mapping[str, bytes]:
        words = [*state, *(event.id for event in told), f"from {next_round} on"]
        return {"told": ",".join(words).encode()}

    unit = at_rest(replace(counting(), puts_barriers=False, recall=recall), 5, barrier(6))
    assert accept(unit).commit.changelog == {"told": b"ada,m6,from 6 on"}
    assert replay(unit).commit.changelog["told"] == b"m6,from 0 on"


def test_what_was_heard_of_is_the_most_that_state_outputs_and_an_earlier_repair_say() -> None:
    def recall(*_: object) -> Mapping[str, bytes]:
        return {key_of(PUBLISHED_THROUGH, ""): rows_of(int).encode(7)}

    unheard = replace(counting(), puts_barriers=False)
    state_says = at_rest(unheard, 5)
    outputs_say = at_rest(replace(unheard, recall=recall), 5)
    mended = {**state_says.restored, HEARD_KEY: b"9"}
    clocked = replace(unheard, rounds=RoundSource.CLOCK)
    units = state_says, outputs_say, replace(state_says, restored=mended)
    assert [heard_in(replay(unit)) for unit in units] == [5, 7, 9]
    assert [heard_in(accept(unit)) for unit in units] == [-1, 7, 9], "its own last one says as much"
    for how in (accept, replay):
        assert heard_in(how(at_rest(clocked, 5))) == -1


def heard_in(mended: RepairedState) -> int:
    """Of which round a repaired state had heard."""
    changelog = mended.commit.changelog
    return heard_of({key: value for key, value in changelog.items() if value is not None})


def test_what_lies_where_another_count_put_it_is_distinguished_from_what_nobody_could_read() -> (
    None
):
    jobs = [submission(f"j{number}") for number in range(20)]
    six = Codec(Topics(kafka_partitions=6))
    records = [at_offset(new, offset) for offset, new in enumerate(encoded(*jobs))]
    unreadable = replace(records[0], value=b"\xff", offset=90)
    [ends, *_] = [at_offset(new, 91) for new in barriers(0, "jobs.events")]
    pairs = zip(records, jobs, strict=True)
    moved = [record for record, job in pairs if six.encode(job).partition != record.partition]
    assert 0 < len(moved) < len(jobs)
    assert list(misplaced_records(six, [*records, unreadable, ends])) == moved
    assert list(misplaced_records(CODEC, [*records, unreadable, ends])) == []


def test_what_a_unit_has_told_is_what_has_its_keys_after_there_are_more_kafka_partitions() -> None:
    jobs = [submission(f"j{number}") for number in range(20)]
    six = Codec(Topics(kafka_partitions=6))
    records = [at_offset(new, offset) for offset, new in enumerate(encoded(*jobs))]
    for number in range(6):
        there = [job for job in jobs if six.encode(job).partition.kafka_partition == number]
        found = outputs_of(counting(), number, six, records)
        assert {event.id for event in found} == {job.event.id for job in there}
