"""The database: connections that read, one that writes, and its schema."""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL, Engine, create_engine, event

from coplace_client.errors import CannotStartError

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
# A reader waits for no writer, the writer for nobody: this is for a backup, or a second process.
_BUSY_MS: Final = 10_000


def open_database(file: Path, *, writes: bool = False) -> Engine:
    """Open a SQLite database; each transaction of an engine that writes has all of it.

    The write-ahead log lets readers read while it is written. A commit survives a kill of the
    process; after a power failure the last ones may be missing, with the positions that belong to
    them.
    """
    engine = create_engine(URL.create("sqlite", database=str(file)))

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: Any) -> None:
        # Transactions begin where SQLAlchemy says, also for those that only read.
        connection.isolation_level = None
        for pragma in (
            f"busy_timeout = {_BUSY_MS}",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "temp_store = MEMORY",
            "cache_size = -65536",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def migrate(engine: Engine) -> None:
    """Bring the schema of a database to what this release has. Raises CannotStartError for one of a
    later release."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise CannotStartError(
                f"the schema of {engine.url.database} is of a later release: run that one, or "
                f"`coplace history rebuild` ({error})"
            ) from None


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Be the only one that writes a database, or builds it anew. Raises CannotStartError where
    another process does, or where its folder cannot be written to."""
    try:
        with Path(f"{file}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError:
        raise CannotStartError(
            f"another process writes {file}: stop it, or choose another COPLACE_HISTORY_DATABASE"
        ) from None
