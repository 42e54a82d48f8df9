"""`kill -9` of any of our processes and of Redis in the middle of a run changes nothing of what the
run decides and charges. Kafka has a module of its own: another worker takes it.

A run takes as long to begin as to be played: the processes that services share are struck in one
run, and those of each service in one whose every connection is encrypted and whose every process
may do no more than it has to.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cli.rotation import has_begun
from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from lab.demo.parity import first_difference
from tests.chaos.kills.blows import (
    CREDENTIALS,
    SHARED_TARGETS,
    TARGETS,
    on_each,
    rotation_amid_kills,
    run,
)
from tests.chaos.kills.matrix import secure_servers
from tests.e2e.conftest import KILLS

_SECURE: Final = [target for target in TARGETS if target != "kafka"]


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path is short, as those of Unix sockets have to be."""
    return tmp_path_factory.mktemp("s")


@pytest.mark.gate
@pytest.mark.long
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    chaos_seed: int, undisturbed: DemoOptions, servers: LocalServers, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when they are killed: {SHARED_TARGETS}")
    blows = on_each(SHARED_TARGETS, undisturbed.jobs, KILLS, chaos_seed)
    run(replace(undisturbed, out=out, together=True), servers, blows, print)
    assert first_difference(undisturbed.out, out) is None


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.usefixtures("own_servers")
def test_new_credentials_in_the_middle_of_a_run_change_none_of_its_files_and_restart_nobody(
    chaos_seed: int, undisturbed: DemoOptions, short: Path, out: Path
) -> None:
    options = replace(undisturbed, out=out, secure=True)
    blows = on_each([CREDENTIALS], options.jobs, KILLS, chaos_seed)
    with secure_servers(short) as (servers, security):
        run(options, servers, blows, print, security)
        said = [servers.log(name).read_text() for name in ("kafka", "supervisord")]
    assert first_difference(undisturbed.out, out) is None
    kafka, supervisord = said
    assert "is Denied" not in kafka
    assert "ERROR" not in kafka
    assert "not expected" not in supervisord


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.usefixtures("own_servers")
def test_kills_between_the_steps_of_new_credentials_change_none_of_a_runs_files(
    chaos_seed: int, undisturbed: DemoOptions, short: Path, out: Path
) -> None:
    blow = rotation_amid_kills(TARGETS, undisturbed.jobs // 3, chaos_seed)
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws {blow}")
    options = replace(undisturbed, out=out, secure=True)
    with secure_servers(short) as (servers, security):
        old = security.credentials.authority.read_text()
        run(options, servers, [blow], print, security)
        kafka = servers.log("kafka").read_text()
        assert security.credentials.authority.read_text() != old
        assert not has_begun(security)
    assert first_difference(undisturbed.out, out) is None
    assert "is Denied" not in kafka


@pytest.mark.long
@pytest.mark.thorough
@pytest.mark.usefixtures("own_servers")
def test_kills_in_the_middle_of_a_secure_run_change_none_of_its_files(
    chaos_seed: int, undisturbed: DemoOptions, short: Path, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when they are killed: {_SECURE}")
    options = replace(undisturbed, out=out, secure=True)
    blows = on_each(_SECURE, options.jobs, KILLS, chaos_seed)
    with secure_servers(short) as (servers, security):
        run(options, servers, blows, print, security)
        log = servers.log("kafka").read_text()
    assert first_difference(undisturbed.out, out) is None
    assert "is Denied" not in log
