"""The database: connections that read, one that writes, and its schema.

A file is SQLite, a URL is PostgreSQL. There the tables lie in a schema of their own, so that others
can be built beside them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import URL, Engine, create_engine, event, make_url, text
from sqlalchemy.pool import NullPool

from shared.sql import sqlite
from shared.sql.starting import upgrade, written_by_another

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_VARIABLE: Final = "COPLACE_HISTORY_DATABASE"
# A commit survives a kill of the process; after a power failure the last ones may be missing, with
# the positions that belong to them.
_PRAGMAS: Final = ("synchronous = NORMAL", "cache_size = -65536")
# A server that does not answer for so long is down.
_CONNECT_S: Final = 10
_SCHEMA: Final = "coplace_history"
_REBUILDING: Final = f"{_SCHEMA}_rebuilding"
# Of PostgreSQL's advisory locks the one of who writes: "coplace" as a number.
_LOCK: Final = int.from_bytes(b"coplace", "big")


class Database(NamedTuple):
    """Where the rows are: a file, or a URL of PostgreSQL whose password may be in a file of its
    own."""

    place: str
    password_file: Path | None = None
    schema: str = _SCHEMA

    @property
    def is_file(self) -> bool:
        """Return whether it is SQLite."""
        return "://" not in self.place

    @property
    def file(self) -> Path:
        """Return the file of a SQLite database."""
        return Path(self.place)

    @property
    def url(self) -> URL:
        """Return the URL of a PostgreSQL database."""
        return make_url(self.place).set(drivername="postgresql+psycopg")

    @property
    def rebuilding(self) -> "Database":
        """Return where the database is built anew."""
        if self.is_file:
            return self._replace(place=str(self.file.with_name(f"{self.file.name}.rebuilding")))
        return self._replace(schema=_REBUILDING)

    def __str__(self) -> str:
        """Name it without its password."""
        return self.place if self.is_file else str(self.url.set(drivername="postgresql"))


def open_database(database: Database, *, writes: bool = False) -> Engine:
    """Open a database; an engine that only reads sees one state of it in each transaction."""
    if database.is_file:
        return sqlite.open_file(database.file, *_PRAGMAS, writes=writes)
    return _open_postgresql(database, writes=writes)


def _open_postgresql(database: Database, *, writes: bool, pooled: bool = True) -> Engine:
    engine = create_engine(
        database.url,
        # Answers come from a connection that is alive, also after a restart of the server.
        **({"pool_pre_ping": True} if pooled else {"poolclass": NullPool}),
        isolation_level="READ COMMITTED" if writes else "REPEATABLE READ",
        connect_args={
            "application_name": "coplace-history",
            "connect_timeout": _CONNECT_S,
            "options": f"-csearch_path={database.schema} -ctimezone=UTC",
        },
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, _of: Any, options: dict[str, Any]) -> None:
        # Read for each connection: a password that was changed counts at once.
        if database.password_file:
            options["password"] = database.password_file.read_text().strip()

    return engine


def migrate(database: Database, engine: Engine) -> None:
    """Bring the schema of a database to what this release has. Raises CannotStartError for one of a
    later release."""
    with engine.begin() as connection:
        if not database.is_file:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {database.schema}"))
        upgrade(connection, _MIGRATIONS, database, "`coplace history rebuild`")


def locked(database: Database) -> AbstractContextManager[None]:
    """Be the only one that writes a database, or builds it anew. Raises CannotStartError where
    another process does, or where its folder cannot be written to."""
    return sqlite.locked(database.file, _VARIABLE) if database.is_file else _server_lock(database)


@contextmanager
def _server_lock(database: Database) -> Iterator[None]:
    """The lock ends with its connection. Who loses it writes nothing twice all the same: positions
    are read with a lock on their rows in each transaction."""
    engine = _open_postgresql(database, writes=True, pooled=False)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}):
            raise written_by_another(database, _VARIABLE)
        yield


def remove_rebuilding(database: Database) -> None:
    """Remove what a rebuild of before has left."""
    fresh = database.rebuilding
    if fresh.is_file:
        fresh.file.unlink(missing_ok=True)
        _remove_logs(fresh.file)
        return
    engine = _open_postgresql(fresh, writes=True, pooled=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA IF EXISTS {fresh.schema} CASCADE"))


def replace_by_rebuilt(database: Database) -> None:
    """Put the database that was built anew in the place of the old one."""
    fresh = database.rebuilding
    if database.is_file:
        _without_log(fresh)
        # Without its log the old one is whole, if older: it is never beside a log of another.
        _remove_logs(database.file)
        fresh.file.replace(database.file)
        return
    engine = _open_postgresql(database, writes=True, pooled=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE"))
        connection.execute(text(f"ALTER SCHEMA {fresh.schema} RENAME TO {database.schema}"))


def _without_log(database: Database) -> None:
    """Put all of a database into its file."""
    engine = open_database(database)
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA journal_mode = DELETE")
    finally:
        connection.close()
        engine.dispose()


def _remove_logs(file: Path) -> None:
    for end in ("-wal", "-shm", "-journal"):
        Path(f"{file}{end}").unlink(missing_ok=True)
