"""What holds for every test."""

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import settings

import shared
from deploy.local.servers import LocalServers
from lab.papers.published_data import DATA
from tests.support.postgresql import PostgreSql, postgresql

# A busy machine is no failure: time limits belong to benchmarks.
settings.register_profile("coplace", deadline=None)
settings.load_profile("coplace")

pytest_plugins = ("tests.support.properties",)

# Whole systems, programs and servers: `make test` has one run of them, which is marked `gate`.
_REST: Final = ("cluster", "distributions", "e2e", "integration", "same", "tutorial")
_HERE: Final = Path(__file__).parent
# Where the Kafka and Redis of all workers are.
_SHARED: Final = "SHARED_TEST_SERVERS"


def pytest_addoption(parser: pytest.Parser) -> None:
    """A second broker costs as much as the tests that use it."""
    parser.addoption("--share-servers", action="store_true", help="one Kafka for all workers")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the servers of all workers before there is one; they end with the last test."""
    config = session.config
    if config.getoption("share_servers") and not hasattr(config, "workerinput"):
        stack = ExitStack()
        config.add_cleanup(stack.close)
        folder = stack.enter_context(TemporaryDirectory())
        servers = stack.enter_context(_local_servers(Path(folder)))
        os.environ[_SHARED] = f"{servers.kafka_bootstrap} {servers.redis_url}"


def pytest_collection() -> None:
    """Nothing that is made while tests are collected becomes garbage: looking for it takes a third
    of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was collected stays."""
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """Test what is written: a compiled module goes before a source that was changed since."""
    for compiled in Path(*shared.__path__).rglob("*.so"):
        source = compiled.with_name(compiled.name.split(".")[0]).with_suffix(".py")
        if source.exists() and source.stat().st_mtime > compiled.stat().st_mtime:
            raise pytest.UsageError(f"{source} is newer than its compiled form: make setup")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with modules that have what is long, each in its own order, in which tests may count on
    one another; and know what `make test` leaves out."""
    with_long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in with_long)
    for item in items:
        is_of_rest = item.path.relative_to(_HERE).parts[0] in _REST
        if is_of_rest and not item.get_closest_marker("gate"):
            item.add_marker(pytest.mark.rest)


@pytest.fixture(scope="session", autouse=True)
def _no_installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is up on this machine (`coplace up`) is nothing to the tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServers]:
    """Kafka and Redis for all tests of this process, of its own or those of all workers: each test
    takes a namespace that no other has, and removes the programs that it started."""
    with _local_servers(tmp_path_factory.mktemp("servers"), os.environ.get(_SHARED)) as running:
        yield running


def _local_servers(folder: Path, shared_by_all: str | None = None) -> LocalServers:
    """Return servers of the folder's own, or those of all workers with programs of its own."""
    names = ("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL")
    with pytest.MonkeyPatch.context() as environment:
        for name in names:
            environment.delenv(name, raising=False)
        if shared_by_all:
            for name, address in zip(names, shared_by_all.split(), strict=True):
                environment.setenv(name, address)
        return LocalServers(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSql]:
    """A PostgreSQL for all tests of this process."""
    with postgresql() as running:
        yield running


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of published data; where CI runs it is always there."""
    if not DATA.is_dir() and os.environ.get("CI") != "true":
        pytest.skip(f"no published data at {DATA}: set COPLACE_DATA to its folder")
    return DATA
