from pathlib import Path

import pytest

from deploy.local.errors import PrerequisiteError
from deploy.local.prerequisites import java_major_version, require_command, require_java


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 1),
        ("no such thing", 0),
    ],
)
def test_the_major_version_of_java_is_read(said: str, version: int) -> None:
    assert java_major_version(said) == version


def test_a_missing_command_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        PrerequisiteError, match=r"Redis needs `redis-server`.*install redis-server"
    ):
        require_command("redis-server", "Redis", "redis-server")


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(PrerequisiteError, match=r"Java 17 or newer.*is 11"):
        require_java()
