"""The classes of the broker in an archive of the Java virtual machine: with it a start takes three
fifths of its CPU time.

https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html (dynamic archive). A machine
takes no archive of another Java or of other jars: it reads the classes from these, as without one.
"""

import shutil
import subprocess
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.local.readiness import is_ready

_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.05


def taking(archive: Path) -> list[str]:
    """Return the options of a Java that takes its classes from an archive, where that is there."""
    return [f"-XX:SharedArchiveFile={archive}"]


def archive_of(jars: Path) -> Path:
    """Return where the archive of the Java on the PATH and of some jars is, or will be."""
    java = Path(shutil.which("java") or "").resolve()
    which = f"{java} {java.stat().st_mtime_ns} {jars.stat().st_mtime_ns}"
    return jars.with_name(f"{jars.name}.{sha256(which.encode()).hexdigest()[:12]}.jsa")


def make(archive: Path, broker: Sequence[str], ready_url: str) -> None:
    """Start a broker until it answers, and keep what classes it has read; none where it does not.

    `broker` is its command, of a Java that takes no archive. Several processes may do this at once,
    or be killed at it.
    """
    with TemporaryDirectory(dir=archive.parent, prefix=f"{archive.name}.") as scratch:
        made = Path(scratch) / archive.name
        java, *words = broker
        command = [java, f"-XX:ArchiveClassesAtExit={made}", *words]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            deadline_s = time.monotonic() + _WITHIN_S
            while run.poll() is None and time.monotonic() < deadline_s and not is_ready(ready_url):
                time.sleep(_POLL_S)
            run.terminate()
        if made.exists():
            made.rename(archive)
            _remove_others(archive)


def _remove_others(archive: Path) -> None:
    """Remove archives of these jars of a Java that was there before."""
    jars = Path(archive.stem).stem
    for each in archive.parent.glob(f"{jars}.*{archive.suffix}"):
        if each != archive:
            each.unlink(missing_ok=True)
