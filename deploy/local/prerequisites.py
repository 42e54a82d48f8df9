"""The system's commands that the local servers need, each checked with one clear message."""

import re
import shutil
import subprocess

from deploy.local.errors import PrerequisiteError

_OLDEST_JAVA = 17


def require_command(command: str, purpose: str, debian_package: str) -> None:
    """Raise PrerequisiteError unless `command` is on the PATH."""
    if shutil.which(command) is None:
        raise PrerequisiteError(
            f"{purpose} needs `{command}`, which is not on the PATH. "
            f"On Debian: apt-get install {debian_package}"
        )


def require_java() -> None:
    """Raise PrerequisiteError unless a Java that can run Kafka is on the PATH."""
    require_command("java", "Apache Kafka", "openjdk-17-jdk-headless")
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = java_major_version(said)
    if version < _OLDEST_JAVA:
        raise PrerequisiteError(
            f"Apache Kafka needs Java {_OLDEST_JAVA} or newer; `java` on the PATH is {version}. "
            "On Debian: apt-get install openjdk-17-jdk-headless"
        )


def java_major_version(said: str) -> int:
    """Parse the major version of what `java -version` printed; 0 if there is none."""
    match = re.search(r'version "(\d+)', said)
    return int(match.group(1)) if match else 0
