"""A database as a whole: who may write it, its schema, and one that takes the place of another."""

from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import select, text

from coplace_client.errors import CannotStartError
from services.history import database as module
from services.history.database import (
    Database,
    locked,
    migrate,
    open_database,
    remove_rebuilding,
    replace_by_rebuilt,
)
from services.history.tables import METADATA, RUNS
from services.history.writing import HistoryWriter
from tests.unit.services.history.made import (
    CODEC,
    FactLog,
    apply_all,
    audited,
    batch,
    database,
    dump,
    submitted,
)


def test_one_process_writes_and_the_next_one_may_after_it(empty: Database) -> None:
    refused = pytest.raises(CannotStartError, match="another process writes")
    with locked(empty), refused, locked(empty):
        pass
    with locked(empty):
        pass


def test_a_writer_whose_lock_was_lost_writes_nothing_twice(empty: Database) -> None:
    log = FactLog()
    log.add("audit", audited("ada"), audited("bob"))
    [records] = log.records.values()
    engine, first = database(empty)
    second = HistoryWriter(open_database(empty, writes=True), CODEC)
    assert (first.apply([batch(records[:1])]), second.apply([batch(records)])) == (1, 1)
    assert first.apply([batch(records)]) == 0
    assert [row[2] for row in dump(engine)["audit"]] == ["ada", "bob"]


def test_an_answer_is_from_one_state_while_others_write(empty: Database) -> None:
    _, writer = database(empty)
    reading = open_database(empty)
    with reading.begin() as connection:
        assert connection.execute(select(RUNS)).all() == []
        log = FactLog()
        log.add("jobs.events", submitted("a"))
        apply_all(writer, log)
        assert connection.execute(select(RUNS)).all() == []
    with reading.begin() as connection:
        assert len(connection.execute(select(RUNS)).all()) == 1


def test_a_database_that_was_built_beside_the_old_one_takes_its_place(empty: Database) -> None:
    log = FactLog()
    log.add("jobs.events", submitted("old"))
    engine, writer = database(empty)
    apply_all(writer, log)
    engine.dispose()
    for name in ("half", "new"):
        remove_rebuilding(empty)
        fresh = FactLog()
        fresh.add("jobs.events", submitted(name))
        rebuilt, other = database(empty.rebuilding)
        apply_all(other, fresh)
        rebuilt.dispose()
        assert [row[0] for row in dump(open_database(empty))["runs"]] == ["old"]
    replace_by_rebuilt(empty)
    assert [row[0] for row in dump(open_database(empty))["runs"]] == ["new"]


def test_a_schema_of_a_later_release_is_refused(empty: Database) -> None:
    engine, _ = database(empty)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CannotStartError, match="is of a later release"):
        migrate(empty, engine)


def test_a_database_of_the_first_schema_is_brought_to_this_one_and_read_anew(
    empty: Database,
) -> None:
    engine = open_database(empty, writes=True)
    config = Config()
    config.set_main_option("script_location", str(Path(module.__file__).parent / "migrations"))
    with engine.begin() as connection:
        if not empty.is_file:
            connection.execute(text("CREATE SCHEMA coplace_history"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text("INSERT INTO clusters VALUES ('alpha', 'north')"))
    migrate(empty, engine)
    assert dump(engine) == {table.name: [] for table in METADATA.sorted_tables}


def test_a_password_is_shown_nowhere(fresh_database: Callable[[], Database]) -> None:
    assert str(Database("postgresql://ada:secret@host:5432/db")) == (
        "postgresql://ada:***@host:5432/db"
    )
    assert "a secret" not in str(fresh_database())
