"""A broker starts with an archive of its classes, without one, and with one of no use."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from deploy.cache import cache_dir
from deploy.local.kafka.archive import archive_of
from deploy.local.kafka.artifacts import kafka_jars
from deploy.local.servers import LocalServers


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where that of a new cache is, which has the jars alone."""
    jars, cache = kafka_jars(), tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    cache_dir().mkdir(parents=True)
    (cache_dir() / jars.name).symlink_to(jars)
    for name in ("COPLACE_KAFKA_BOOTSTRAP", "COPLACE_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    return archive_of(kafka_jars())


def started() -> str:
    """What a broker wrote that was ready; the path of its socket is to be short."""
    with TemporaryDirectory() as folder, LocalServers(Path(folder) / "run", redis=False):
        return next(Path(folder).rglob("kafka.log")).read_text()


def test_the_first_broker_leaves_an_archive_and_removes_those_of_another_java(
    archive: Path,
) -> None:
    other = archive.with_name(f"{kafka_jars().name}.0123456789ab.jsa")
    other.touch()
    started()
    assert archive.stat().st_size > 10_000_000
    assert not other.exists()


def test_a_broker_starts_where_the_archive_is_of_no_use(archive: Path) -> None:
    archive.write_bytes(b"of another Java")
    assert "jsa" not in started()
    assert archive.read_bytes() == b"of another Java"
