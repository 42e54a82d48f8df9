"""A SQLite database of one process."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from coplace_client.errors import CannotStartError
from services.webhooks.app import MIGRATIONS
from shared.sql.sqlite import SqliteDatabase, locked

_VARIABLE = "COPLACE_ANY_DATABASE"


def test_a_database_has_one_process_that_writes(tmp_path: Path) -> None:
    file = tmp_path / "any.db"
    with locked(file, _VARIABLE):
        with pytest.raises(CannotStartError, match=f"another process writes .* {_VARIABLE}"):
            locked(file, _VARIABLE).__enter__()
        with pytest.raises(BlockingIOError):
            raise_within(file)
    with locked(file, _VARIABLE):
        pass


def raise_within(file: Path) -> None:
    """An error of whoever has the lock is its own."""
    with locked(file.with_name("other.db"), _VARIABLE):
        raise BlockingIOError


def test_a_folder_that_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with (
        pytest.raises(CannotStartError, match=f"make that folder, or choose another {_VARIABLE}"),
        locked(tmp_path / "nowhere" / "any.db", _VARIABLE),
    ):
        pass


def test_its_owner_alone_reads_it(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "any.db")
    with database.transaction() as connection:
        connection.execute(text("CREATE TABLE a (b)"))
        connection.execute(text("INSERT INTO a VALUES (1)"))
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_threads_take_turns_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "any.db")
    with database.transaction() as connection:
        connection.execute(text("CREATE TABLE a (b)"))

    def count() -> None:
        for _ in range(50):
            with database.transaction() as connection:
                found = connection.execute(text("SELECT count(*) FROM a")).scalar_one()
                connection.execute(text(f"INSERT INTO a VALUES ({found})"))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(ZeroDivisionError):
        fail_within(database)
    with database.transaction() as connection:
        rows = connection.execute(text("SELECT b FROM a ORDER BY b")).scalars().all()
    assert rows == list(range(200))


def fail_within(database: SqliteDatabase) -> None:
    """Delete everything, and fail."""
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM a"))
        raise ZeroDivisionError


def test_a_schema_of_a_later_release_and_what_is_no_database_are_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "any.db")
    database.migrate(MIGRATIONS, "do this")
    database.migrate(MIGRATIONS, "do this")
    with database.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CannotStartError, match="of a later release: run that one, or do this"):
        database.migrate(MIGRATIONS, "do this")
    (tmp_path / "junk").write_text("no database" * 100)
    with pytest.raises(CannotStartError, match="is no usable database: do this"):
        SqliteDatabase(tmp_path / "junk").migrate(MIGRATIONS, "do this")
