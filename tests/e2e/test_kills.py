"""`kill -9` of any process in the middle of a run changes nothing of what the run comes to."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

import pytest

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import TARGETS, draw, run

KILLS = 3


@pytest.fixture(scope="session")
def seed() -> int:
    """COPLACE_CHAOS_SEED draws the moments of an earlier run again."""
    return int(os.environ.get("COPLACE_CHAOS_SEED") or SystemRandom().randrange(10_000))


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


@pytest.mark.parametrize("target", TARGETS)
def test_kills_in_the_middle_of_a_run_change_none_of_its_files(
    target: str,
    seed: int,
    undisturbed: DemoOptions,
    struck: LocalServers,
    out: Path,
) -> None:
    print(f"COPLACE_CHAOS_SEED={seed} draws when {target} is killed")
    blows = draw([target], undisturbed.jobs, KILLS, seed)
    run(replace(undisturbed, out=out), struck, blows, print)
    assert first_difference(undisturbed.out, out) is None
