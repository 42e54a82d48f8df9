"""What is known of an installation without starting one."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.installation.installation import (
    Installation,
    InstallationError,
    names_another,
    reachable,
    stale_variables,
)
from cli.installation.record import InstallationRecord, last_folder, remember_folder
from deploy.local.servers import LocalServers
from tests.unit.cli.command_line import coplace, refusal, said

RECORD = InstallationRecord(
    {"COPLACE_KAFKA_BOOTSTRAP": "127.0.0.1:1", "COPLACE_REDIS_URL": "redis://x"}, 1
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's state folder, with no variable set."""
    for name in [name for name in os.environ if name.startswith("COPLACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@contextmanager
def sleeping(folder: Path) -> Iterator[Installation]:
    """An installation that is up, of no process but its supervisor."""
    with LocalServers(folder, kafka=False, redis=False):
        RECORD.save(folder)
        remember_folder(folder)
        yield Installation(folder)


def test_the_folder_of_the_last_start_is_found_and_before_it_the_users_own(
    state: Path, tmp_path: Path
) -> None:
    assert last_folder() == state / "coplace" / "installation"
    remember_folder(tmp_path)
    assert last_folder() == tmp_path


def test_its_addresses_are_in_the_environment_while_it_is_up(tmp_path: Path) -> None:
    with sleeping(tmp_path / "up"), reachable():
        assert {name: os.environ[name] for name in RECORD.environment} == RECORD.environment
    assert not set(RECORD.environment) & set(os.environ)
    with reachable():
        assert not set(RECORD.environment) & set(os.environ)


def test_an_environment_that_names_another_system_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPLACE_KAFKA_BOOTSTRAP", "kafka.example:9092")
    assert names_another(RECORD) == ["COPLACE_KAFKA_BOOTSTRAP"]
    with sleeping(tmp_path / "up"), reachable():
        assert os.environ["COPLACE_KAFKA_BOOTSTRAP"] == "kafka.example:9092"
        assert "COPLACE_REDIS_URL" not in os.environ
        told = coplace("status").stderr
    assert "go to another system, by COPLACE_KAFKA_BOOTSTRAP: if you mean this one" in told


def test_addresses_that_a_shell_has_from_servers_that_have_ended_are_stale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("COPLACE_KAFKA_BOOTSTRAP", there)
        monkeypatch.setenv("COPLACE_REDIS_URL", "redis://127.0.0.1:1/0")
        assert stale_variables() == []
        monkeypatch.setenv("COPLACE_FOLDER", "/any")
        assert stale_variables() == ["COPLACE_REDIS_URL"]
    assert stale_variables() == ["COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"]


def test_a_second_start_is_refused_in_any_folder(tmp_path: Path) -> None:
    with sleeping(tmp_path / "up") as installation:
        for folder in (installation.folder, tmp_path / "other"):
            with pytest.raises(InstallationError, match=f"already in {installation.folder}"):
                Installation(folder).up(planned=False, on_begin=str, on_state=lambda *_: None)


def test_a_folder_of_other_files_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InstallationError, match="holds files that are not of an installation"):
        Installation(tmp_path).up(planned=False, on_begin=str, on_state=lambda *_: None)
    Installation(tmp_path).down(delete=True)
    assert (tmp_path / "thesis.tex").exists()


def test_what_was_killed_is_reported_and_is_down_after_down(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    RECORD.save(folder)
    remember_folder(folder)
    killed = f"error: Coplace was killed in {folder}: start it with `coplace up`"
    assert refusal("status") == killed
    said("down")
    assert refusal("status").startswith("error: Coplace is not up")
    assert Installation(folder).record.environment == RECORD.environment


def test_a_log_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "kafka.log").touch()
    remember_folder(tmp_path)
    assert refusal("logs", "../kafka").endswith(f"no log of ../kafka in {tmp_path}: kafka")


def test_the_log_of_a_service_that_shares_a_process_is_that_of_the_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "background.log").write_text("charged\n")
    remember_folder(tmp_path)
    said("logs", "pricing")
    assert capfd.readouterr().out == "charged\n"
