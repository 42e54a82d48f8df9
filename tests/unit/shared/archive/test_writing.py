"""Files are a function of the records: however they come, and whatever dies in between."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.archive.errors import ArchiveError, BrokenArchiveError
from shared.archive.index import Cut
from shared.archive.reading import read_archive
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder
from shared.archive.verifying import damages
from shared.archive.writing import PartitionArchive
from tests.unit.shared.archive.records import T0_MS, TOPIC, TOPIC_ID, any_records, record

CUT: Final = Cut(window_offsets=16, most_bytes=400)


class DeathError(Exception):
    """The process was killed here."""


class MortalFolder(LocalFolder):
    """Dies at the step that `dies` names, before or after what it does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lives_for = -1

    def write(self, path: str, data: bytes) -> None:
        """Write, or die."""
        self._live()
        super().write(path, data)
        self._live()

    def delete(self, path: str) -> None:
        """Delete, or die."""
        self._live()
        super().delete(path)

    def _live(self) -> None:
        self.lives_for -= 1
        if self.lives_for == 0:
            raise DeathError


def resumed(folder: LocalFolder, cut: Cut = CUT) -> PartitionArchive:
    """The archive as a process finds it that starts."""
    return PartitionArchive.resume(folder, TOPIC, 0, TOPIC_ID, 0, cut)


def written(folder: LocalFolder, records: Sequence[ArchivedRecord], cut: Cut = CUT) -> None:
    """Write all at once, with the tail."""
    archive = resumed(folder, cut)
    archive.add(records)
    archive.write(with_tail=True)


def files(folder: LocalFolder) -> dict[str, bytes]:
    """All that is there."""
    found = sorted(each for each in folder.folder.rglob("*") if each.is_file())
    return {str(each.relative_to(folder.folder)): each.read_bytes() for each in found}


@contextmanager
def folders() -> Iterator[Callable[[], MortalFolder]]:
    """Makes new folders."""
    with TemporaryDirectory() as root:
        numbers = iter(range(1_000))
        yield lambda: MortalFolder(Path(root) / str(next(numbers)))


@settings(max_examples=40)
@given(any_records())
def test_what_is_read_is_what_was_written(records: list[ArchivedRecord]) -> None:
    with folders() as new:
        folder = new()
        written(folder, records)
        assert list(read_archive(folder.where, TOPIC, 0)) == records
        assert list(damages(folder)) == []


@settings(max_examples=40)
@given(any_records(), st.data())
def test_the_same_bytes_come_of_any_batches_and_deaths(
    records: list[ArchivedRecord], data: st.DataObject
) -> None:
    with folders() as new:
        once, often = new(), new()
        written(once, records)
        for _ in range(data.draw(st.integers(1, 8))):
            often.lives_for = data.draw(st.integers(1, 8)) if data.draw(st.booleans()) else -1
            with suppress(DeathError):
                archive = resumed(often)
                left = [each for each in records if each.offset >= archive.position]
                archive.add(left[: data.draw(st.integers(0, 9))])
                archive.write(with_tail=data.draw(st.booleans()))
        often.lives_for = -1
        archive = resumed(often)
        archive.add(each for each in records if each.offset >= archive.position)
        archive.write(with_tail=True)
        assert files(often) == files(once)


@settings(max_examples=30)
@given(any_records(), st.integers(0, 40))
def test_an_archive_that_begins_at_a_file_goes_on_as_the_whole_one(
    records: list[ArchivedRecord], number: int
) -> None:
    with folders() as new:
        whole, later = new(), new()
        written(whole, records)
        names = sorted(name for name in files(whole) if name.endswith(".parquet"))
        if not names:
            return
        begin = int(Path(names[number % len(names)]).stem)
        archive = PartitionArchive.resume(later, TOPIC, 0, TOPIC_ID, begin, CUT)
        archive.add(each for each in records if each.offset >= begin)
        archive.write(with_tail=True)
        of_later = {name: data for name, data in files(later).items() if "_index" not in name}
        assert of_later.items() <= files(whole).items()
        assert set(names[number % len(names) :]) <= set(of_later)


def test_files_end_at_windows_of_offsets_and_before_they_are_too_large(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    large = [record(offset, bytes(150)) for offset in (40, 41, 42)]
    written(folder, [record(offset, b"", key=None) for offset in (1, 2, 15, 17)] + large)
    index = resumed(folder).index
    assert [(each.from_offset, each.to_offset) for each in index.files] == [
        (0, 16),
        (16, 32),
        (32, 41),
        (41, 42),
    ]
    assert index.tail is not None
    assert (index.tail.from_offset, index.tail.to_offset, index.tail.records) == (42, 43, 1)


def test_windows_that_nobody_wrote_to_are_part_of_the_file_before(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    written(folder, [record(100), record(1_000)])
    index = resumed(folder).index
    assert [(each.from_offset, each.to_offset) for each in index.entries] == [(0, 992), (992, 1001)]


def test_a_record_that_is_larger_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    records = [record(0), record(1, bytes(1_048_576)), record(2)]
    written(folder, records)
    assert len(resumed(folder).index.entries) == 3
    assert list(read_archive(folder.where, TOPIC, 0)) == records


def test_records_that_are_handed_over_again_are_archived_once(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    archive = resumed(folder)
    records = [record(offset) for offset in range(20)]
    archive.add(records[:12])
    archive.add(records[5:])
    archive.write(with_tail=True)
    assert list(read_archive(folder.where, TOPIC, 0)) == records


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    written(folder, [record(0)])
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    archive = resumed(folder)
    archive.write(with_tail=True)
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before


def test_a_full_disk_leaves_no_half_file_and_the_next_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = LocalFolder(tmp_path)
    records = [record(offset) for offset in range(40)]
    written(folder, records[:10])
    before = files(folder)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        archive = resumed(folder)
        archive.add(records[10:])
        with pytest.raises(OSError, match="No space left"):
            archive.write(with_tail=True)
    assert files(folder) == before
    assert list(read_archive(folder.where, TOPIC, 0)) == records[:10]
    archive = resumed(folder)
    archive.add(records[10:])
    archive.write(with_tail=True)
    assert list(read_archive(folder.where, TOPIC, 0)) == records


def test_retention_removes_whole_files_at_the_beginning_alone(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    young = record(20, time_ms=T0_MS + 10**9)
    records = [record(3), record(17), young, record(40), record(60)]
    written(folder, records)
    archive = resumed(folder)
    assert archive.remove_before(T0_MS + 3_001) == 1
    assert archive.remove_before(T0_MS + 10**8) == 0, "a file has one that is young"
    assert resumed(folder).index.begins_at == 16
    assert list(read_archive(folder.where, TOPIC, 0, 16)) == records[1:]
    with pytest.raises(ArchiveError, match="begins at 16, 0 was asked for"):
        read_archive(folder.where, TOPIC, 0)
    assert list(damages(folder)) == []


def test_a_death_while_old_files_are_removed_is_made_good(tmp_path: Path) -> None:
    folder = MortalFolder(tmp_path)
    written(folder, [record(3), record(17), record(40)])
    archive = resumed(folder)
    folder.lives_for = 3
    with pytest.raises(DeathError):
        archive.remove_before(T0_MS + 20_000)
    folder.lives_for = -1
    resumed(folder)
    assert sorted(Path(name).name for name in files(folder)) == [
        "_index.json",
        "_tail-00000000000000000032-00000000000000000041",
    ]


def test_files_without_their_index_are_not_written_over(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    written(folder, [record(0), record(20)])
    (tmp_path / TOPIC / "0/_index.json").unlink()
    with pytest.raises(BrokenArchiveError, match=r"_index\.json is missing, files are there"):
        resumed(folder)


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    first, second = LocalFolder(tmp_path), LocalFolder(tmp_path)
    first.take()
    with pytest.raises(ArchiveError, match="another process writes to"):
        second.take()
