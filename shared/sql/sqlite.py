"""A SQLite database that one process writes: its connections, its schema, and who writes it."""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError

from coplace_client.errors import CannotStartError
from shared.sql.starting import upgrade, written_by_another

# Readers wait for no writer, the writer for nobody: this is for a backup, or a second process.
_BUSY_MS: Final = 10_000


class SqliteDatabase:
    """A database that one process reads and writes, in any of its threads.

    What was committed survives a kill of the process and a power failure. Its owner alone can read
    the file.
    """

    def __init__(self, file: Path) -> None:
        file.touch(mode=0o600)
        self._engine = open_file(file, "synchronous = FULL")
        self._lock = Lock()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Be the only one in the database, and commit at the end."""
        with self._lock, self._engine.begin() as connection:
            yield connection

    def migrate(self, folder: Path, remedy: str) -> None:
        """Bring the schema to what this release has. Raises CannotStartError for one of a later
        release and for what is no database, with what an operator may do."""
        file = self._engine.url.database
        try:
            with self.transaction() as connection:
                upgrade(connection, folder, file, remedy)
        except DatabaseError as error:
            raise CannotStartError(
                f"{file} is no usable database: {remedy} ({error.orig})"
            ) from None


def open_file(file: Path, *pragmas: str, writes: bool = True) -> Engine:
    """Open a file by connections with these pragmas. Each transaction of an engine that writes has
    all of the file; the write-ahead log lets others read meanwhile."""
    engine = create_engine(URL.create("sqlite", database=str(file)))

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: Any) -> None:
        # Transactions begin where SQLAlchemy says, also for those that only read.
        connection.isolation_level = None
        for pragma in (
            f"busy_timeout = {_BUSY_MS}",
            "journal_mode = WAL",
            "temp_store = MEMORY",
            *pragmas,
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def locked(file: Path, variable: str) -> Iterator[None]:
    """Be the only process that writes a database, which others choose by an environment variable.
    Raises CannotStartError where another process does, or where its folder cannot be written
    to."""
    with _opened(Path(f"{file}.lock"), variable) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise written_by_another(file, variable) from None
        yield


def _opened(file: Path, variable: str) -> IO[str]:
    try:
        return file.open("a")
    except OSError as error:
        problem = f"{file.parent} cannot be written to: {error.strerror}: make that folder"
        raise CannotStartError(f"{problem}, or choose another {variable}") from None
