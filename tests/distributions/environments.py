"""Environments in which one distribution is installed from its wheel, at the locked versions."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final[Mapping[str, Path]] = {
    "coplace-client": ROOT / "client",
    "coplace-agent": ROOT / "agent",
    "coplace": ROOT,
}
EXTRAS: Final = ("server", "placement", "planner", "prediction", "kubernetes", "lab")
# What an environment has before anything is installed, or that is ours.
_OWN: Final = frozenset(FOLDERS)
_UV: Final = Path(sys.executable).with_name("uv")


def build_wheels(folder: Path) -> Path:
    """Build the wheel of each distribution into a folder, and return it.

    That of the services is built without compiled modules: to compile them takes minutes, and they
    are the same modules. Raises CalledProcessError.
    """
    for source in FOLDERS.values():
        command = [_UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", folder]
        subprocess.run(
            [*command, "--python", sys.executable, source],
            check=True,
            env={**os.environ, "COPLACE_PLAIN": "1"},
        )
    return folder


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that has one distribution."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, wheels: Path, wanted: str) -> "Environment":
        """With what is wanted installed, such as `coplace[lab]`. Raises CalledProcessError."""
        made = cls(folder)
        subprocess.run([_UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        made._install(wheels, wanted)
        return made

    def _install(self, wheels: Path, wanted: str) -> None:
        name = wanted.partition("[")[0]
        [wheel] = wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
        command = [_UV, "pip", "install", "--quiet", "--python", self.python]
        pinned = ["--find-links", wheels, "--constraints", ROOT / "requirements.lock"]
        extras = wanted.removeprefix(name)
        subprocess.run([*command, *pinned, f"{name}{extras} @ file://{wheel}"], check=True)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def command(self, name: str) -> Path:
        """One of its commands."""
        return self.folder / "bin" / name

    def run(self, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program in it, outside of any checkout."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def packages(self) -> Sequence[str]:
        """What is installed beside our own, by name."""
        listed = subprocess.run(
            [_UV, "pip", "list", "--quiet", "--format", "freeze", "--python", self.python],
            check=True,
            capture_output=True,
            text=True,
        )
        names = (line.partition("==")[0].partition(" @ ")[0] for line in listed.stdout.split("\n"))
        return sorted(name for name in names if name and name not in _OWN)

    def size_mib(self) -> float:
        """What is in it, without bytecode and links to elsewhere."""
        return sum(path.stat().st_size for path in self._files()) / 2**20

    def _files(self) -> Iterator[Path]:
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.suffix != ".pyc":
                yield path


def resident_mib(pid: int) -> float:
    """What a process has in memory, its share of what it has in common with others counted whole.

    Raises FileNotFoundError for one that has ended.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.split("\n") if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024
