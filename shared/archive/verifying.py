"""Looks at every file of an archive."""

from collections.abc import Iterator
from hashlib import sha256

from shared.archive.errors import ArchiveError, BrokenArchiveError
from shared.archive.index import NAME, FileEntry, Index
from shared.archive.reading import read_file, require_index
from shared.archive.record import digest_input
from shared.archive.storage import Storage


def archived_partitions(storage: Storage) -> Iterator[tuple[str, int]]:
    """Yield the topics and Kafka partitions that an archive has a folder of. Raises ArchiveError
    where it has none at all."""
    is_empty = True
    for topic in storage.names():
        numbers = [int(name) for name in storage.names(topic) if name.isdecimal()]
        for number in sorted(numbers):
            is_empty = False
            yield topic, number
    if is_empty:
        raise ArchiveError(
            f"{storage.where} holds no archive: name the folder or object store that "
            "COPLACE_ARCHIVE_WHERE of the process names"
        )


def damages(storage: Storage) -> Iterator[BrokenArchiveError]:
    """Yield what is wrong with the files of an archive; each is read whole."""
    for topic, number in archived_partitions(storage):
        try:
            index = require_index(storage, topic, number)
        except BrokenArchiveError as error:
            yield error
            continue
        except ArchiveError:
            path = f"{topic}/{number}/{NAME}"
            yield BrokenArchiveError(storage.where, path, "is missing")
            continue
        for entry in index.entries:
            if problem := damage(storage, index, entry):
                yield problem


def damage(storage: Storage, index: Index, entry: FileEntry) -> BrokenArchiveError | None:
    """Return what is wrong with a file: its bytes, its offsets, or the digest of its contents."""
    try:
        records = read_file(storage, index, entry)
    except BrokenArchiveError as error:
        return error
    if sha256(digest_input(records)).hexdigest() == entry.records_sha256:
        return None
    problem = f"has other records than {NAME} says, by records_sha256"
    return BrokenArchiveError(storage.where, index.path(entry.name), problem)
