from pathlib import Path

import pytest

from deploy.local.errors import LocalServersError, PrerequisiteError
from deploy.local.kafka.artifacts import kafka_jars, kafka_version

_COPIES = """
for word in "$@"; do
    case $word in -DoutputDirectory=*) target=${word#*=} ;; esac
done
mkdir -p "$target" && touch "$target/kafka.jar"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "coplace"


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A replacement of the command `mvn`, whose script the test writes."""
    commands = tmp_path / "bin"
    commands.mkdir()
    script = commands / "mvn"
    script.touch(0o755)
    monkeypatch.setenv("PATH", str(commands), prepend=":")
    return script


def test_the_pinned_version_is_read_from_the_pom() -> None:
    assert kafka_version() == "4.2.0"


def test_the_jars_are_copied_once_and_then_used_without_maven(
    cache: Path, maven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.write_text(f"#!/bin/sh\n{_COPIES}")
    jars = kafka_jars()
    monkeypatch.setenv("PATH", "")
    assert kafka_jars() == jars == cache / "kafka-4.2.0-mirror"
    assert [file.name for file in jars.iterdir()] == ["kafka.jar"]


def test_a_failed_copy_leaves_nothing_behind_and_shows_what_maven_said(
    cache: Path, maven: Path
) -> None:
    maven.write_text(f"#!/bin/sh\n{_COPIES}\necho no such artifact\nexit 1\n")
    with pytest.raises(LocalServersError, match="no such artifact"):
        kafka_jars()
    assert list(cache.iterdir()) == []


def test_two_at_once_end_with_one_complete_folder(cache: Path, maven: Path) -> None:
    other = cache / "kafka-4.2.0-mirror"
    maven.write_text(f"#!/bin/sh\n{_COPIES}\nmkdir {other} && touch {other}/first.jar\n")
    assert [file.name for file in kafka_jars().iterdir()] == ["first.jar"]
    assert list(cache.iterdir()) == [other]


def test_without_maven_the_first_start_says_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PrerequisiteError, match="apt-get install maven"):
        kafka_jars()
