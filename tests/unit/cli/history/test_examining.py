"""What keeps archive and history from working is named before they start, and by the doctor."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.history.examining import database_problems
from cli.main import app
from cli.preflight import location_problems
from cli.restore.restore import rebuild
from coplace_client.errors import WrongSettingsError
from services.history.database import Database, locked
from services.history.settings import DatabaseSettings
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.postgresql import PASSWORD, PostgreSql


def test_a_database_that_answers_is_no_problem(
    postgres: PostgreSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    monkeypatch.setenv("COPLACE_HISTORY_DATABASE", postgres.fresh(password=""))
    monkeypatch.setenv("COPLACE_HISTORY_DATABASE_PASSWORD_FILE", str(password))
    assert list(location_problems()) == []


def test_a_wrong_password_is_named_and_not_shown(postgres: PostgreSql) -> None:
    url = postgres.fresh(password=":not it")
    [problem] = database_problems(DatabaseSettings(database=url))
    assert "COPLACE_HISTORY_DATABASE" in problem
    assert "not it" not in problem


def test_places_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COPLACE_HISTORY_DATABASE", str(tmp_path / "nowhere" / "history.db"))
    monkeypatch.setenv("COPLACE_ARCHIVE_WHERE", "nothing://known")
    archive, history = location_problems()
    assert "COPLACE_ARCHIVE_WHERE" in archive
    assert "COPLACE_HISTORY_DATABASE" in history


def test_a_database_that_cannot_be_built_anew_is_said_in_one_line(tmp_path: Path) -> None:
    file, nowhere = tmp_path / "history.db", tmp_path / "nowhere" / "history.db"
    with locked(Database(str(file))):
        for place, problem in ((file, "another process writes"), (nowhere, "make that folder")):
            found = CliRunner().invoke(app, ["history", "rebuild", "--database", str(place)])
            assert found.exit_code == 1
            assert problem in found.output
            assert "COPLACE_HISTORY_DATABASE" in found.output


@pytest.mark.parametrize("name", ["archive", "history"])
def test_what_has_a_command_to_build_it_anew_is_sent_there(name: str) -> None:
    deployment = Deployment.from_settings(Settings())
    with pytest.raises(ValueError, match=f"`coplace {name} rebuild`"):
        rebuild(deployment, name)


@pytest.mark.parametrize("database", ["mysql://host/db", "", "file:///history.db"])
def test_a_database_of_another_kind_is_refused(database: str) -> None:
    with pytest.raises(WrongSettingsError, match="COPLACE_HISTORY_DATABASE"):
        DatabaseSettings(database=database)
