"""The archiver goes on behind its files, and writes nothing that is of another topic."""

import asyncio
from pathlib import Path

import pytest

from services.archive.settings import ArchiveSettings
from shared.archive.errors import BrokenArchiveError
from shared.archive.reading import archived_range
from shared.catalogue.record import NewRecord, TopicPartition
from shared.catalogue.topics import load_topics
from shared.streams.stages.consistency import InconsistentError
from tests.unit.services.archive.memory import CHARGES, DAY_MS, JOBS, Region


@pytest.fixture
async def region(tmp_path: Path) -> Region:
    """An archive that has just begun."""
    found = Region(tmp_path)
    assert await found.restart() == []
    return found


async def test_what_does_not_fill_a_file_is_written_after_a_while(region: Region) -> None:
    region.append(CHARGES, 0, b"a", b"b")
    await region.step()
    assert region.values(CHARGES, 0) == []
    assert region.archiver.waiting == 2
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"a", b"b"]
    assert region.archiver.waiting == 0


async def test_a_process_that_was_killed_goes_on_behind_its_last_file(region: Region) -> None:
    region.append(CHARGES, 0, b"a", b"b")
    await region.step(after_s=60)
    region.append(CHARGES, 0, b"c")
    await region.step()
    assert await region.restart() == []
    assert region.kafka.positions[TopicPartition(CHARGES, 0)] == 2
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"a", b"b", b"c"]


async def test_all_that_was_read_is_written_when_the_process_stops(region: Region) -> None:
    region.append(JOBS, 1, b"a")
    await region.step()
    stop = asyncio.Event()
    stop.set()
    await region.archiver.run(stop)
    assert region.values(JOBS, 1) == [b"a"]


async def test_kafka_partitions_that_hold_nothing_are_known_to_be_archived(region: Region) -> None:
    await region.step(after_s=60)
    assert archived_range(region.storage.where, JOBS, 1).ends_at == 0


async def test_kafka_partitions_that_come_later_are_taken_up_from_their_beginning(
    region: Region,
) -> None:
    region.append(JOBS, 0, b"a")
    await region.step(after_s=60)
    region.log.grow(JOBS, 3)
    region.append(JOBS, 2, b"new")
    await region.step(after_s=60)
    await region.step(after_s=60)
    assert region.values(JOBS, 2) == [b"new"]
    assert region.values(JOBS, 0) == [b"a"]


async def test_an_archive_that_begins_late_says_where(tmp_path: Path) -> None:
    region = Region(tmp_path)
    region.append(CHARGES, 0, b"a", b"b")
    region.log.delete_before(TopicPartition(CHARGES, 0), 1)
    assert await region.restart() == []
    await region.step(after_s=60)
    assert archived_range(region.storage.where, CHARGES, 0)[1:] == (1, 2)


async def test_a_topic_that_was_replaced_is_refused_at_the_start(region: Region) -> None:
    region.append(JOBS, 0, b"a")
    await region.step(after_s=60)
    region.log.recreate(JOBS)
    [wrong, *_] = await region.restart()
    assert "jobs.events is another topic" in wrong.what
    assert "move the folder jobs.events of the archive away" in wrong.advice


async def test_what_was_read_of_a_topic_that_was_replaced_meanwhile_is_not_written(
    region: Region,
) -> None:
    region.append(JOBS, 0, b"a")
    await region.step(after_s=60)
    region.log.recreate(JOBS)
    region.append(JOBS, 0, b"another", b"topic")
    with pytest.raises(InconsistentError, match="another topic"):
        await region.step(after_s=60)
    assert region.values(JOBS, 0) == [b"a"]


async def test_a_topic_that_was_restored_older_is_refused(region: Region) -> None:
    region.append(JOBS, 0, b"a")
    backup = region.log.backup(JOBS)
    region.append(JOBS, 0, b"b")
    await region.step(after_s=60)
    region.log.put_back(JOBS, backup)
    [wrong] = await region.restart()
    assert "jobs.events/0 ends at 1, it was read up to 2" in wrong.what
    region.append(JOBS, 0, b"something else")
    [wrong] = await region.restart()
    assert "jobs.events/0 has another record at 1" in wrong.what


async def test_records_that_kafka_removed_before_they_were_archived_are_not_left_out_in_silence(
    region: Region,
) -> None:
    region.append(JOBS, 0, b"a")
    await region.step(after_s=60)
    region.append(JOBS, 0, b"b", b"c")
    region.log.delete_before(TopicPartition(JOBS, 0), 2)
    [wrong] = await region.restart()
    assert "begins at 2, it was read up to 1" in wrong.what


async def test_records_that_retention_of_kafka_removed_later_stay_archived(region: Region) -> None:
    region.append(JOBS, 0, b"a", b"b")
    await region.step(after_s=60)
    region.log.delete_before(TopicPartition(JOBS, 0), 2)
    assert await region.restart() == []
    region.append(JOBS, 0, b"c")
    await region.step(after_s=60)
    assert region.values(JOBS, 0) == [b"a", b"b", b"c"]


async def test_a_damaged_tail_is_not_gone_on_with(region: Region) -> None:
    region.append(JOBS, 0, b"a")
    await region.step(after_s=60)
    [tail] = Path(region.storage.where, JOBS, "0").glob("_tail*")
    tail.write_bytes(b"")
    with pytest.raises(BrokenArchiveError, match="_tail"):
        await region.restart()


async def test_old_files_are_removed_where_this_is_wanted(tmp_path: Path) -> None:
    region = Region(tmp_path)
    region.retention_days = 30
    assert await region.restart() == []
    place = TopicPartition(CHARGES, 0)
    region.append(CHARGES, 0, *[b"old"] * 32_768, b"young")
    while region.kafka.behind():
        await region.step()
    await region.step(after_s=60)
    assert region.archiver.archives[place].index.full_until == 32_768
    region.now_ms = 31 * DAY_MS
    await region.step(after_s=3_600)
    assert archived_range(region.storage.where, CHARGES, 0)[1:] == (32_768, 32_769)
    assert await region.restart() == []


async def test_aborted_records_and_markers_leave_no_gap_between_files(region: Region) -> None:
    place = TopicPartition(CHARGES, 0)
    producer = region.log.open_producer("p")
    for number in range(3):
        region.log.begin(producer)
        region.log.send(producer, [NewRecord(place, b"key", b"%d" % number)])
        region.log.end(producer, is_committed=number != 1)
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"0", b"2"]
    region.append(CHARGES, 0, b"3")
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"0", b"2", b"3"]


def test_topics_of_the_setting_come_once_each() -> None:
    own = ArchiveSettings(where="x", topics="commands,jobs.events,commands")
    assert own.topic_names == ("commands", "jobs.events")


def test_what_the_history_is_built_from_is_archived_by_default() -> None:
    """Kafka keeps the audit for a year and outcomes for 30 days: who builds anew needs them."""
    topics = load_topics()
    of_history = {name for name, spec in topics.items() if "history" in spec.consumers}
    archived = ArchiveSettings(where="x").topic_names
    assert {*archived} == of_history | {"placement.inputs"}
    assert [name for name in archived if "archive" not in topics[name].consumers] == []


async def test_a_quiet_topic_of_which_kafka_removed_all_is_followed_on(region: Region) -> None:
    """Behind the last record is the end of its transaction: nothing is missing there."""
    assert await region.archiver.open() == []
    producer, place = region.log.open_producer("test"), TopicPartition(CHARGES, 0)
    region.log.begin(producer)
    region.log.send(producer, [NewRecord(place, b"key", b"value")])
    region.log.end(producer)
    await region.step(after_s=60)
    region.log.delete_before(place, region.log.end_offset(place))
    assert await region.restart() == []
    region.append(CHARGES, 0, b"later")
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"value", b"later"]


async def test_a_record_that_was_read_and_is_in_no_file_is_read_again(region: Region) -> None:
    """What was read to is known of files alone."""
    assert await region.archiver.open() == []
    region.append(CHARGES, 0, b"first")
    await region.step()
    assert await region.restart() == []
    await region.step(after_s=60)
    assert region.values(CHARGES, 0) == [b"first"]
