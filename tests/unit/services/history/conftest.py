"""What is tested of the history is tested on each database."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from services.history.database import Database
from tests.support.postgresql import PostgreSql


@pytest.fixture(params=["sqlite", "postgresql"], scope="module")
def fresh_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Database]]:
    """What makes another empty database each time."""
    numbers = count(1)
    if request.param == "sqlite":
        folder: Path = tmp_path_factory.mktemp("history")
        yield lambda: Database(str(folder / f"{next(numbers)}.db"))
        return
    server: PostgreSql = request.getfixturevalue("postgres")
    yield lambda: Database(server.fresh())


@pytest.fixture
def empty(fresh_database: Callable[[], Database]) -> Database:
    """An empty database."""
    return fresh_database()
