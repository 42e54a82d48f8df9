"""Where an archive lies: a folder, or an object store through pyarrow."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from shared.archive.errors import ArchiveError

_PART: Final = ".part"
_LOCK: Final = "_lock"


class Storage(Protocol):
    """Whole files by path below the archive; a file is there as a whole or not at all."""

    where: str

    def read(self, path: str) -> bytes:
        """Return a file. Raises FileNotFoundError, and OSError where the storage fails."""

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, in place of one that is. Raises OSError: nothing has changed then."""

    def delete(self, path: str) -> None:
        """Delete a file, if there is one. Raises OSError."""

    def names(self, path: str = "") -> list[str]:
        """Return the names of files and folders in a folder, sorted; none where it is missing."""


class LocalFolder:
    """A folder on a disk; what is written is on the disk when `write` returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = str(folder)
        self._taken: TextIO | None = None

    def take(self) -> None:
        """Keep other processes from writing there, as long as this one lives. Raises ArchiveError
        where one does, and OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._taken = (self.folder / _LOCK).open("w")
        try:
            fcntl.flock(self._taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveError(
                f"another process writes to {self.where}: stop it, or take another folder"
            ) from None

    def read(self, path: str) -> bytes:
        """Return a file."""
        return (self.folder / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a file under another name, and rename it once it is on the disk."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"_{target.name}{_PART}")
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        except OSError:
            with suppress(OSError):
                part.unlink()
            raise
        _sync_folder(target.parent)

    def delete(self, path: str) -> None:
        """Delete a file, if there is one."""
        (self.folder / path).unlink(missing_ok=True)

    def names(self, path: str = "") -> list[str]:
        """Return the names in a folder."""
        try:
            return sorted(each.name for each in (self.folder / path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []


class ObjectStore:
    """Objects below a prefix; one is seen once all of it is stored."""

    def __init__(self, where: str, file_system: Any, prefix: str) -> None:
        self.where = where
        self._file_system = file_system
        self._prefix = prefix.rstrip("/")

    def read(self, path: str) -> bytes:
        """Return an object."""
        with self._file_system.open_input_file(self._at(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, data: bytes) -> None:
        """Put an object. One that could not be written is not closed, which would store it."""
        stream = self._file_system.open_output_stream(self._at(path))
        stream.write(data)
        stream.close()

    def delete(self, path: str) -> None:
        """Delete an object, if there is one."""
        with suppress(FileNotFoundError):
            self._file_system.delete_file(self._at(path))

    def names(self, path: str = "") -> list[str]:
        """Return the names below a prefix."""
        from pyarrow.fs import FileSelector

        selector = FileSelector(self._at(path), allow_not_found=True)
        return sorted(each.base_name for each in self._file_system.get_file_info(selector))

    def _at(self, path: str) -> str:
        return f"{self._prefix}/{path}" if path else self._prefix


def open_storage(where: str) -> Storage:
    """Return the storage of an archive: a folder, or a URI such as
    `s3://bucket/prefix?region=eu-central-1`. Raises ArchiveError for one that pyarrow does not
    know."""
    if "://" not in where:
        return LocalFolder(Path(where))
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        file_system, prefix = FileSystem.from_uri(where)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise ArchiveError(f"{where} is not a place for an archive: {error}") from None
    return ObjectStore(where.partition("?")[0], file_system, prefix)


def _sync_folder(folder: Path) -> None:
    """A name is on the disk once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
