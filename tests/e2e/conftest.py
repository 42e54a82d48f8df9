"""Runs of sixty jobs: long enough that something happens, short enough for many of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest
from rich.console import Console

from deploy.local.servers import LocalServers
from lab.demo.options import DemoOptions
from lab.demo.run import run_embedded

JOBS: Final = 60
KILLS: Final = 3
# A worker that does not rejoin is given up soon.
_SESSION_S: Final = 3


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> DemoOptions:
    """The run that others are compared with, and where its files are."""
    options = DemoOptions(jobs=JOBS, out=tmp_path_factory.mktemp("undisturbed"))
    run_embedded(options, Console(quiet=True))
    return options


@pytest.fixture(scope="module")
def own_servers() -> Iterator[None]:
    """No server but those that tests start, and short sessions on them."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("COPLACE_KAFKA_BOOTSTRAP", raising=False)
        environment.delenv("COPLACE_REDIS_URL", raising=False)
        environment.setenv("COPLACE_SESSION_TIMEOUT_S", str(_SESSION_S))
        yield


@pytest.fixture(scope="module")
def servers(own_servers: None, servers: LocalServers) -> LocalServers:
    """Those of all tests, for many runs, each in its own namespace."""
    return servers


@pytest.fixture(scope="session")
def chaos_seed() -> int:
    """COPLACE_CHAOS_SEED draws the moments of an earlier run again."""
    return int(os.environ.get("COPLACE_CHAOS_SEED") or SystemRandom().randrange(10_000))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where a run writes its files."""
    return tmp_path / "out"
