"""An archive is read as it was written, or the error says which file is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from shared.archive.errors import ArchiveError, BrokenArchiveError, NotArchivedError
from shared.archive.reading import ArchivedRange, archived_range, read_archive
from shared.archive.storage import LocalFolder, open_storage
from shared.archive.verifying import damages
from tests.unit.shared.archive.records import TOPIC, TOPIC_ID, record
from tests.unit.shared.archive.test_writing import resumed, written

RECORDS: Final = [record(offset) for offset in range(50)]
FIRST: Final = "00000000000000000000.parquet"


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """An archive of several files and a tail."""
    found = LocalFolder(tmp_path)
    written(found, RECORDS)
    return found


def partition(folder: LocalFolder) -> Path:
    """The folder of its one Kafka partition."""
    return folder.folder / TOPIC / "0"


def test_it_is_read_from_any_offset_on(folder: LocalFolder) -> None:
    for offset in (0, 1, 15, 16, 49, 50, 1_000):
        assert list(read_archive(folder.where, TOPIC, 0, offset)) == RECORDS[offset:]


def test_it_says_which_topic_it_is_of_and_where_it_ends(folder: LocalFolder) -> None:
    assert archived_range(folder.where, TOPIC, 0) == ArchivedRange(TOPIC_ID, 0, 50)


def test_what_was_never_archived_is_not_taken_for_empty(folder: LocalFolder) -> None:
    with pytest.raises(NotArchivedError, match=r"holds no jobs\.events/1"):
        read_archive(folder.where, TOPIC, 1)


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _replace(file: Path) -> None:
    others = sorted(each for each in file.parent.glob("*.parquet") if each != file)
    file.write_bytes(others[0].read_bytes())


@pytest.mark.parametrize("damage", [_flip, _cut, _replace, Path.unlink])
@pytest.mark.parametrize("name", ["0*.parquet", "_tail*"])
def test_a_damaged_file_is_named_with_what_to_do(
    folder: LocalFolder, name: str, damage: Callable[[Path], object]
) -> None:
    file = max(partition(folder).glob(name))
    damage(file)
    with pytest.raises(BrokenArchiveError) as caught:
        list(read_archive(folder.where, TOPIC, 0))
    assert caught.value.path == f"{TOPIC}/0/{file.name}"
    assert "coplace archive rebuild" in str(caught.value)
    assert [each.path for each in damages(folder)] == [caught.value.path]


def test_what_lies_behind_a_damaged_file_is_readable(folder: LocalFolder) -> None:
    _flip(partition(folder) / FIRST)
    begin = resumed(folder).index.files[1].from_offset
    assert list(read_archive(folder.where, TOPIC, 0, begin)) == RECORDS[begin:]


def _changed(folder: LocalFolder, **changes: Any) -> None:
    index = partition(folder) / "_index.json"
    found = json.loads(index.read_text())
    found["files"][0].update(changes)
    index.write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"records": 3}, "records, _index.json says 3"),
        ({"from_offset": 1}, "has a gap"),
        ({"sha256": "00"}, "another SHA-256"),
        ({"records_sha256": "00"}, "by records_sha256"),
        ({"sha": "00"}, "is not an index"),
    ],
)
def test_an_index_that_does_not_fit_its_files_is_found(
    folder: LocalFolder, changes: dict[str, Any], told: str
) -> None:
    _changed(folder, **changes)
    [found] = damages(folder)
    assert told in str(found)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": 2}'])
def test_an_index_that_is_none_is_named(folder: LocalFolder, content: bytes) -> None:
    (partition(folder) / "_index.json").write_bytes(content)
    with pytest.raises(BrokenArchiveError, match=r"_index\.json"):
        read_archive(folder.where, TOPIC, 0)
    assert [each.path for each in damages(folder)] == [f"{TOPIC}/0/_index.json"]


def test_a_tail_that_is_replaced_meanwhile_is_read_from_where_it_is_now(
    folder: LocalFolder,
) -> None:
    reading = read_archive(folder.where, TOPIC, 0)
    first = next(reading)
    archive = resumed(folder)
    archive.add(record(offset) for offset in range(50, 90))
    archive.write(with_tail=True)
    assert [first, *reading] == RECORDS


def test_a_place_that_cannot_be_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not a place for an archive"):
        open_storage("nowhere://x")
    with pytest.raises(ArchiveError, match="holds no archive"):
        list(damages(LocalFolder(tmp_path)))
