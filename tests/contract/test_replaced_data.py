"""Operators replace data under stages: what does not belong together is refused, and named."""

from collections import defaultdict

from shared.catalogue.record import NewRecord, Record, TopicPartition
from shared.streams.stages.provenance import PROVENANCE_KEY
from tests.contract.backends import Backend, Plan
from tests.contract.in_memory import MemoryBackend
from tests.contract.marks import KAFKA_IN_REST
from tests.contract.test_delivery import ROUNDS, outputs, rounds_closed, state, undisturbed, work

INPUT, OUTPUT, CHANGELOG = "jobs.events", "prices.charges", "changelog.counting"
PARTITIONS = [TopicPartition(INPUT, number) for number in range(4)]


def worked(backend: Backend, rounds: int = ROUNDS - 1) -> list[NewRecord]:
    """Let a worker do the first rounds and end; the records of the last one are still to come."""
    records = work()
    size = len(records) // ROUNDS
    worker = backend.start(Plan())
    for done in range(rounds):
        backend.append(records[done * size : (done + 1) * size])
        backend.until(rounds_closed(backend, done + 1))
    worker.stop()
    return records[rounds * size :]


def again(records: list[Record]) -> list[NewRecord]:
    """Records as a backup restores them."""
    return [NewRecord(found.partition, found.key, found.value, found.headers) for found in records]


def everything(backend: Backend, topic: str) -> list[Record]:
    """All records of a topic."""
    return [found for number in range(4) for found in backend.read(TopicPartition(topic, number))]


def up_to_the_first_commit(changelog: list[Record]) -> list[Record]:
    """An old backup of a changelog: each commit ends with its provenance."""
    old: dict[TopicPartition, list[Record]] = defaultdict(list)
    for found in changelog:
        if PROVENANCE_KEY.encode() not in [one.key for one in old[found.partition]]:
            old[found.partition].append(found)
    return [found for records in old.values() for found in records]


def test_what_nobody_touched_fits_and_goes_on(backend: Backend) -> None:
    rest = worked(backend)
    assert backend.inconsistencies() == []
    backend.append(rest)
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (outputs(backend), state(backend)) == undisturbed(work())


def test_a_changelog_that_was_lost_or_is_older_is_refused(backend: Backend) -> None:
    worked(backend)
    kept = everything(backend, CHANGELOG)
    backend.recreate(CHANGELOG)
    lost = backend.inconsistencies()
    assert len(lost) == 4
    assert all("the state is lost: restore a backup of changelog.counting" in one for one in lost)
    backend.append(again(up_to_the_first_commit(kept)))
    older = backend.inconsistencies()
    assert any("but the group is at" in one for one in older)
    assert any("changelog.counting is another topic" in one for one in older)


@KAFKA_IN_REST
def test_a_unit_that_looks_new_is_refused_where_it_has_written(backend: Backend) -> None:
    worked(backend)
    backend.recreate(CHANGELOG)
    backend.forget_positions("counting")
    found = backend.inconsistencies()
    assert len(found) == 4
    for number, one in enumerate(found):
        assert f"but prices.charges/{number} holds what counting wrote: it is not new" in one
        assert "`coplace restore replay counting`" in one


@KAFKA_IN_REST
def test_a_new_unit_may_begin_where_only_others_have_written(backend: Backend) -> None:
    others = [("ce_source", b"counting.x"), ("ce_source", b"pricing"), ("ce_source", b"\xff")]
    places = [TopicPartition(OUTPUT, number) for number in range(4)]
    backend.append([NewRecord(place, b"", b"", (one,)) for place in places for one in others])
    assert backend.inconsistencies() == []


@KAFKA_IN_REST
def test_a_refused_worker_stays_and_does_nothing_until_what_it_misses_is_back(
    backend: Backend,
) -> None:
    rest = worked(backend)
    position = backend.position("counting", PARTITIONS[0])
    backend.set_position("counting", PARTITIONS[0], 1)
    backend.append(rest)
    before = outputs(backend)
    refused = backend.start(Plan())
    backend.until(lambda: "the group is at 1" in refused.last_words)
    assert (refused.ended, outputs(backend)) == (False, before)
    refused.stop()
    backend.set_position("counting", PARTITIONS[0], position)
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (outputs(backend), state(backend)) == undisturbed(work())


@KAFKA_IN_REST
def test_positions_that_expired_are_taken_from_the_state(backend: Backend) -> None:
    rest = worked(backend)
    backend.forget_positions("counting")
    assert backend.inconsistencies() == []
    backend.append(rest)
    backend.start(Plan())
    backend.until(rounds_closed(backend, ROUNDS))
    assert (outputs(backend), state(backend)) == undisturbed(work())


@KAFKA_IN_REST
def test_inputs_and_outputs_that_were_restored_older_are_refused(backend: Backend) -> None:
    worked(backend)
    inputs, ledger = everything(backend, INPUT), everything(backend, OUTPUT)
    for topic, kept in ((INPUT, inputs), (OUTPUT, ledger)):
        backend.recreate(topic)
        backend.append(again([found for found in kept if found.offset < 30]))
    found = backend.inconsistencies()
    for says in (
        "jobs.events is another topic",
        "prices.charges is another topic",
        "jobs.events/0 ends at 30, it was read up to",
        "prices.charges/0 ends at",
    ):
        assert any(says in one for one in found), (says, found)


@KAFKA_IN_REST
def test_positions_of_groups_go_with_a_topic(backend: Backend) -> None:
    worked(backend)
    assert backend.position("counting", PARTITIONS[0]) > 0
    backend.recreate(INPUT)
    backend.until(lambda: backend.position("counting", PARTITIONS[0]) == 0)


@KAFKA_IN_REST
def test_records_that_were_deleted_unread_are_missed(backend: Backend) -> None:
    backend.append(worked(backend))
    begin = backend.position("counting", PARTITIONS[2]) + 5
    backend.delete_before(PARTITIONS[2], begin)
    [unread] = backend.inconsistencies()
    assert f"jobs.events/2 begins at {begin}" in unread
    assert "records were deleted unread" in unread


def test_more_kafka_partitions_are_refused_before_a_key_is_looked_for_in_them(
    backend: Backend,
) -> None:
    worked(backend)
    backend.grow(INPUT, 6)
    found = backend.inconsistencies()
    assert any("jobs.events has 6 Kafka partitions, declared are 4" in one for one in found)
    assert any("the state was made with 4" in one for one in found)


def test_a_topic_that_is_replaced_under_a_running_worker_stops_it(backend: Backend) -> None:
    backend.append(work()[: len(work()) // ROUNDS])
    worker = backend.start(Plan())
    backend.until(rounds_closed(backend, 1))
    backend.recreate(INPUT)
    backend.until(lambda: "refused" in worker.last_words)
    assert not worker.ended


def test_more_kafka_partitions_under_a_running_worker_stop_it() -> None:
    backend = MemoryBackend()
    backend.append(work())
    worker = backend.start(Plan())
    backend.until(rounds_closed(backend, 1))
    backend.grow(INPUT, 6)
    backend.until(lambda: "the state was made with 4" in worker.last_words)
