"""`kill -9` of Kafka and of Redis in the middle of a run changes nothing of what it comes to."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import SERVERS, draw, run
from tests.e2e.conftest import KILLS


@pytest.fixture
def struck(
    target: str,
    own_servers: None,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[LocalServers]:
    """The servers of all tests, or a broker that has the topics of no other run to recover."""
    if target != "kafka":
        yield request.getfixturevalue("servers")
        return
    # A short folder: Unix sockets have short paths.
    with LocalServers(tmp_path_factory.mktemp("broker")) as servers:
        yield servers


@pytest.mark.long
@pytest.mark.parametrize("target", SERVERS)
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    target: str, chaos_seed: int, undisturbed: DemoOptions, struck: LocalServers, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when {target} is killed")
    blows = draw([target], undisturbed.jobs, KILLS, chaos_seed)
    run(replace(undisturbed, out=out), struck, blows, print)
    assert first_difference(undisturbed.out, out) is None
