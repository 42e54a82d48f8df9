"""The jars of the broker and of MirrorMaker 2: copied from Maven once, then used from a cache."""

import re
import subprocess
import tempfile
from pathlib import Path

from deploy.cache import cache_dir
from deploy.local.errors import LocalServersError
from deploy.local.prerequisites import require_command

_POM = Path(__file__).with_name("pom.xml")


def kafka_jars() -> Path:
    """Return the folder of these jars, filled on first use.

    Raises PrerequisiteError without Maven, LocalServersError if Maven fails.
    """
    jars = cache_dir() / f"kafka-{kafka_version()}-mirror"
    if not jars.is_dir():
        require_command("mvn", "The first start of Apache Kafka", "maven")
        _fill(jars)
    return jars


def kafka_version() -> str:
    """Return the version that the POM pins."""
    match = re.search(r"<kafka\.version>(.+)</kafka\.version>", _POM.read_text())
    if match is None:
        raise LocalServersError(f"{_POM} pins no kafka.version: restore that property")
    return match.group(1)


def _fill(jars: Path) -> None:
    """Complete or not at all: several processes may do this at once, or be killed at it."""
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix=f"{jars.name}.") as scratch:
        _copy_dependencies(Path(scratch) / "jars")
        try:
            (Path(scratch) / "jars").rename(jars)
        except OSError:
            if not jars.is_dir():
                raise


def _copy_dependencies(target: Path) -> None:
    command = ["mvn", "--quiet", "--batch-mode", "--file", str(_POM)]
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run([*command, *goal], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalServersError(
            "Maven could not copy Apache Kafka's jars: check that it reaches a Maven repository, "
            f"then try again.\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
