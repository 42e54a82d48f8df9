"""Following topics: over gaps that only the archive has, over what nobody can use, and while topics
grow."""

from pathlib import Path

import psycopg
import pytest
import structlog
from sqlalchemy.exc import OperationalError

from services.history import writing
from services.history.database import Database
from services.history.model import fold_runs
from shared.archive.errors import ArchiveError
from shared.catalogue.record import NewRecord, TopicPartition
from shared.streams import following
from shared.streams.stages.consistency import InconsistentError
from tests.unit.services.history.made import (
    FactLog,
    apply_all,
    audited,
    charge,
    database,
    dump,
    finished,
    places,
    started,
    submitted,
)
from tests.unit.services.history.memory import AFTER, Region, RemovedOffsetError

JOBS = [f"north/alpha/{number}/1767225600" for number in range(6)]


def facts(*jobs: str) -> FactLog:
    log = FactLog()
    for job in jobs:
        log.add("jobs.events", submitted(job), started(job), finished(job))
        log.add("prices.charges", charge(job))
    log.add("audit", audited(jobs[0]))
    return log


@pytest.fixture
def region(empty: Database, tmp_path: Path) -> Region:
    """A region whose history has not begun."""
    (tmp_path / "archive").mkdir()
    return Region(empty, tmp_path / "archive")


def rows(region: Region) -> dict[str, list[object]]:
    """All but the positions, which have the topics' identity."""
    return {name: found for name, found in dump(region.engine).items() if name != "positions"}


async def test_what_retention_removed_behind_the_history_comes_from_the_archive(
    region: Region, tmp_path: Path
) -> None:
    assert await region.follower.open() == []
    region.append(facts(*JOBS[:2]))
    await region.step()
    region.append(facts(*JOBS[2:4]))
    for place in places():
        await region.archive(place)
        region.log.delete_before(place, region.log.end_offset(place))
    region.append(facts(*JOBS[4:]))
    with pytest.raises(RemovedOffsetError):
        await region.step()
    assert await region.new().open() == []
    await region.step()
    other = Region(Database(str(tmp_path / "whole.db")), tmp_path)
    assert await other.follower.open() == []
    for jobs in (JOBS[:2], JOBS[2:4], JOBS[4:]):
        other.append(facts(*jobs))
        await other.step()
    assert rows(region) == rows(other)
    assert len(rows(region)["charges"]) == len(JOBS)


async def test_a_gap_that_no_archive_has_is_refused_and_nothing_is_written(region: Region) -> None:
    assert await region.follower.open() == []
    region.append(facts(*JOBS[:2]))
    await region.step()
    before = dump(region.engine)
    place = TopicPartition("audit", 0)
    region.append(facts(JOBS[2]))
    region.append(facts(JOBS[3]))
    region.log.delete_before(place, 4)
    with pytest.raises(ArchiveError, match=r"audit/0 was applied to offset 2, and Kafka begins at"):
        await region.new(archive=False).open()
    with pytest.raises(ArchiveError, match="COPLACE_HISTORY_ARCHIVE"):
        await region.new().open()
    assert dump(region.engine) == before


async def test_what_kafka_removed_with_the_ends_of_transactions_is_no_gap(
    region: Region, empty: Database, tmp_path: Path
) -> None:
    """A quiet topic is empty after its retention, behind the end of its last transaction."""
    assert await region.follower.open() == []
    region.append(facts(*JOBS[:2]))
    await region.step()
    for place in places():
        await region.archive(place)
        region.log.delete_before(place, region.log.end_offset(place))
    assert await region.new(archive=False).open() == []
    other = Region(Database(str(tmp_path / "again.db")), region.folder)
    other.topics = region.topics
    assert await other.new().open() == []
    assert rows(other) == rows(region)


async def test_an_archive_that_ends_within_the_gap_is_refused(region: Region) -> None:
    assert await region.follower.open() == []
    place = TopicPartition("audit", 0)
    region.append(facts(JOBS[0]))
    await region.archive(place)
    for job in JOBS[1:4]:
        region.append(facts(job))
    region.log.delete_before(place, 3)
    with pytest.raises(ArchiveError, match="records between are lost"):
        await region.new().open()


async def test_topics_that_are_not_archived_are_named(region: Region) -> None:
    region.append(facts(*JOBS[:2]))
    for place in places():
        if place.topic == "jobs.events":
            await region.archive(place)
    with structlog.testing.capture_logs() as logged:
        assert await region.follower.open() == []
    named = {each["topic"] for each in logged if each["event"].startswith("not archived")}
    assert named == {"audit", "prices.charges"}


async def test_a_larger_topic_is_followed(region: Region) -> None:
    assert await region.follower.open() == []
    region.topics.counts["jobs.events"] = 3
    region.log.grow("jobs.events", 3)
    await region.follower._check()
    assert TopicPartition("jobs.events", 2) in region.topics.positions


async def test_a_topic_that_was_replaced_while_another_one_grew_is_refused(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await region.follower.open() == []
    region.append(facts(*JOBS[:2]))
    await region.step()
    region.topics.counts["jobs.events"] = 3
    region.log.grow("jobs.events", 3)
    whole, asked = following.differences, list[int]()

    async def replaced_between(*of, **how):  # type: ignore[no-untyped-def]
        wrong = await whole(*of, **how)
        if not asked:
            region.log.recreate("audit")
        asked.append(1)
        return wrong

    monkeypatch.setattr(following, "differences", replaced_between)
    with pytest.raises(InconsistentError, match="audit"):
        await region.follower._check()


async def test_what_nobody_can_use_is_handed_over_before_it_is_passed(region: Region) -> None:
    assert await region.follower.open() == []
    log = facts(JOBS[0])
    log.add("prices.charges", charge(JOBS[1], "NaN"))
    log.add("jobs.events", started(JOBS[2], freq_ghz=float("nan")))
    place = log.records[next(p for p in log.records if p.topic == "jobs.events")][0]
    region.append(log)
    region.log.append([NewRecord(place.partition, place.key, b"\xff\xff", place.headers)])
    region.append(facts(JOBS[3]))
    await region.step()
    assert {each.record.partition.topic for each in region.rejected} == {
        "prices.charges", "jobs.events",
    }  # fmt: skip
    assert len(region.rejected) == 3
    assert {row[0] for row in dump(region.engine)["charges"]} == {JOBS[0], JOBS[3]}


def test_a_text_that_one_database_cannot_hold_is_no_row_in_any(empty: Database) -> None:
    rejected: list[writing.Rejected] = []
    engine, writer = database(empty, rejected.extend)
    made = FactLog()
    made.add("audit", audited("ada"), audited("bob", reason="a\0b"))
    apply_all(writer, made)
    assert [row[2] for row in dump(engine)["audit"]] == ["ada"]
    assert len(rejected) == 1


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a defect"),
        OperationalError("INSERT", {}, psycopg.errors.ProgramLimitExceeded("index row size")),
    ],
)
async def test_a_record_that_makes_the_history_fail_is_quarantined_after_restarts(
    region: Region, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert await region.follower.open() == []
    whole = fold_runs

    def fails(known, told):  # type: ignore[no-untyped-def]
        every = list(told)
        if any(fact.job_id == JOBS[1] for fact in every):
            raise error
        return whole(known, every)

    monkeypatch.setattr(writing, "fold_runs", fails)
    region.append(facts(*JOBS[:3]))
    for _ in range(AFTER - 1):
        with pytest.raises(type(error)):
            await region.step()
        assert await region.new().open() == []
    for _ in range(10 * AFTER):
        if region.quarantined and not region.topics.behind():
            break
        try:
            await region.step()
        except type(error):
            assert await region.new().open() == []
    places_of = {record.partition.topic for record in region.quarantined}
    assert places_of == {"jobs.events", "prices.charges"}
    assert len(region.quarantined) == 4
    assert {row[0] for row in dump(region.engine)["runs"]} == {JOBS[0], JOBS[2]}
    region.append(facts(JOBS[3]))
    await region.step()
    assert all(not row[-1] for row in dump(region.engine)["positions"])


async def test_a_database_that_is_down_is_no_fault_of_a_record(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await region.follower.open() == []

    def fails(_known, _told):  # type: ignore[no-untyped-def]
        raise OperationalError("INSERT", {}, psycopg.errors.AdminShutdown())

    monkeypatch.setattr(writing, "fold_runs", fails)
    region.append(facts(JOBS[0]))
    for _ in range(2 * AFTER):
        with pytest.raises(OperationalError):
            await region.step()
        assert await region.new().open() == []
    assert region.quarantined == []
