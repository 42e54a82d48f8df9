"""A secure installation as the how-to has it: every service works with what it may do, and nobody
else comes in."""

import json
import re
import stat
from collections.abc import Iterator

import psutil
import pytest

from cli.stages import access
from tests.support.reader import Reader
from tests.support.snippets import HOW_TO, write_programs


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has typed what the how-to begins with."""
    found = Reader(tmp_path_factory.mktemp("reader"))
    try:
        up = found.paste("coplace up --secure --planner")
        assert up.returncode == 0, up.stderr
        yield found
    finally:
        found.paste("coplace down --delete")


@pytest.fixture(scope="module")
def worked(reader: Reader) -> str:
    """What is shown of a job that went through every service."""
    done = reader.paste("coplace smoke-test\ncoplace doctor\ncoplace status\ncoplace accounts")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_job_goes_through_and_nothing_is_missing_or_too_much(worked: str) -> None:
    assert re.search(r"charged [\d.]+ SU", worked)
    assert "access to Kafka\tfits" in worked
    assert "access to Redis\tfits" in worked
    assert "not fit" not in worked


@pytest.mark.usefixtures("worked")
def test_no_service_asks_for_what_it_may_not(reader: Reader) -> None:
    log = (reader.installation.folder / "log" / "kafka.log").read_text()
    assert not [line for line in log.splitlines() if "is Denied" in line]


@pytest.mark.usefixtures("worked")
def test_secrets_are_in_files_of_their_owner_alone_and_nowhere_else(reader: Reader) -> None:
    folder = reader.installation.folder / "credentials"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    secrets = {file: file.read_text().strip() for file in files if file.suffix == ".password"}
    # Every service has one, and each is a secret of its own.
    assert {file.stem for file in secrets} == set(access().principals)
    assert len(set(secrets.values())) == len(secrets)
    kept = [file for file in reader.installation.folder.rglob("*") if file.is_file()]
    # Kafka's indexes are of 10 MB each, and hold numbers.
    read = [file for file in kept if file not in secrets and "index" not in file.suffix]
    told = "\n".join(file.read_text(errors="replace") for file in read)
    running = (psutil.Process(one.pid) for one in reader.installation.processes())
    shown = json.dumps([(one.cmdline(), one.environ()) for one in running])
    told += reader.paste("coplace env").stdout
    for file, secret in secrets.items():
        assert secret not in told, file
        assert secret not in shown, file


@pytest.mark.usefixtures("worked")
def test_somebody_from_outside_reads_what_the_role_says(reader: Reader) -> None:
    write_programs(HOW_TO / "secure.md", reader.folder)
    issued = 'eval "$(coplace certificates issue north --role resource-manager)"\n'
    read = reader.paste(issued + "coplace tail placement.decisions")
    assert "smoke-test/smoke-test" in read.stdout, read.stderr
    assert reader.paste(issued + "coplace tail prices.charges").returncode == 1
    assert "access to Kafka\tfits" in reader.paste("coplace doctor").stdout


@pytest.mark.parametrize("name", ["kafka", "operator", "pricing", "../x", "a/CN=kafka", ""])
def test_no_name_of_a_service_and_no_path_is_issued(reader: Reader, name: str) -> None:
    result = reader.paste(f"coplace certificates issue '{name}' --role agent")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("worked")
def test_credentials_are_renewed_while_all_of_it_runs(reader: Reader) -> None:
    def pids() -> dict[str, int]:
        return {one.name: one.pid for one in reader.installation.processes()}

    def secrets() -> set[str]:
        folder = reader.installation.folder / "credentials"
        names = (".acl", ".json")
        return {file.read_text() for file in folder.rglob("*") if file.suffix not in names}

    before, old = pids(), secrets() - {""}
    kept = reader.paste("coplace certificates rotate --keep-old")
    assert kept.returncode == 0, kept.stderr
    refused = reader.paste("coplace certificates issue west --role agent")
    assert "error: a rotation was interrupted" in refused.stderr
    assert reader.paste("coplace certificates rotate").returncode == 0
    assert pids() == before
    names = [file.name for file in (reader.installation.folder / "credentials").iterdir()]
    assert not [name for name in names if name.startswith("next")]
    assert {text for text in secrets() & old if "BEGIN" in text or len(text) < 100} == set()
    assert "access to Kafka\tfits" in reader.paste("coplace doctor").stdout
    ended = reader.paste("coplace certificates rotate --disconnect")
    assert ended.returncode == 0, ended.stderr
    assert not set(pids().values()) & set(before.values())
    done = reader.paste("coplace smoke-test\ncoplace status\ncoplace accounts\ncoplace doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    log = (reader.installation.folder / "log" / "kafka.log").read_text()
    assert not [line for line in log.splitlines() if "is Denied" in line or "ERROR" in line]


@pytest.mark.thorough
def test_what_was_secure_is_so_after_a_new_start_with_new_credentials(reader: Reader) -> None:
    renewed = [
        "coplace certificates issue east --role agent",
        "coplace down",
        f"rm {reader.installation.folder}/credentials/*.{{pem,key,password}}",
        "coplace up",
        "coplace clusters",
        "coplace accounts",
        "ls " + str(reader.installation.folder / "credentials" / "east.pem"),
    ]
    again = reader.paste("\n".join(renewed))
    assert again.returncode == 0, again.stderr
    assert "asks who somebody is" in again.stdout
