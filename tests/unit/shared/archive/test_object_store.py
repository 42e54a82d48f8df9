"""In an object store the archive is the same to the byte as in a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from shared.archive.errors import BrokenArchiveError
from shared.archive.reading import read_archive
from shared.archive.storage import LocalFolder, open_storage
from shared.archive.verifying import damages
from shared.archive.writing import PartitionArchive
from tests.support.object_store import ObjectStoreServer, object_store
from tests.unit.shared.archive.records import TOPIC, TOPIC_ID, record
from tests.unit.shared.archive.test_writing import CUT, files

RECORDS: Final = [record(offset) for offset in range(60)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreServer]:
    """An empty bucket, and what AWS's library needs to speak to it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with object_store() as server:
        yield server


def written(where: str) -> None:
    """Write in several lives, each of which finds what the one before left."""
    for begin in range(0, len(RECORDS), 7):
        archive = PartitionArchive.resume(open_storage(where), TOPIC, 0, TOPIC_ID, 0, CUT)
        archive.add(RECORDS[begin : begin + 7])
        archive.write(with_tail=True)


def test_objects_have_the_bytes_of_files(store: ObjectStoreServer, tmp_path: Path) -> None:
    written(store.where)
    written(str(tmp_path))
    prefix = "region/archive/"
    assert all(key.startswith(prefix) for key in store.objects)
    found = {key.removeprefix(prefix): data for key, data in store.objects.items()}
    # pyarrow leaves an empty object for the folder where it deletes something.
    found.pop(f"{TOPIC}/0/", None)
    assert found == files(LocalFolder(tmp_path))
    assert list(read_archive(store.where, TOPIC, 0)) == RECORDS


def test_what_the_store_refuses_ends_the_process_and_changes_nothing(
    store: ObjectStoreServer,
) -> None:
    written(store.where)
    before = dict(store.objects)
    archive = PartitionArchive.resume(open_storage(store.where), TOPIC, 0, TOPIC_ID, 0, CUT)
    archive.add([record(60)])
    store.refuses = True
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        archive.write(with_tail=True)
    assert store.objects == before


def test_a_missing_object_is_named(store: ObjectStoreServer) -> None:
    written(store.where)
    key = min(key for key in store.objects if key.endswith(".parquet"))
    del store.objects[key]
    storage = open_storage(store.where)
    assert [each.path for each in damages(storage)] == [key.removeprefix("region/archive/")]
    with pytest.raises(BrokenArchiveError, match=r"s3://bucket/region/archive/.* is missing"):
        list(read_archive(store.where, TOPIC, 0))
