"""Environments in which one distribution is installed from its wheel, at the locked versions."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# What the wheel of each is built of: a folder of a checkout, and what in it.
_SOURCES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "coplace-client": ("client", ("pyproject.toml", "LICENSE", "coplace", "coplace_client")),
    "coplace-agent": ("agent", ("pyproject.toml", "LICENSE", "coplace_agent")),
    "coplace": (
        ".",
        (
            *("pyproject.toml", "LICENSE", "setup.py", "proto"),
            *("shared", "services", "cli", "deploy", "coplace_testing", "lab"),
        ),
    ),
}
EXTRAS: Final = (
    *("server", "placement", "planner", "prediction", "kubernetes", "rest", "archive", "mcp"),
    *("history", "webhooks", "slurm", "lab"),
)
# What an environment has before anything is installed, or that is ours.
_OWN: Final = frozenset(_SOURCES)
_BUILT: Final = shutil.ignore_patterns("*.so", "__pycache__")
_UV: Final = Path(sys.executable).with_name("uv")


def build_wheels(folder: Path, checkout: Path = ROOT) -> Path:
    """Build the wheel of each distribution of a checkout into a folder, and return it.

    That of the services is built without compiled modules: to compile them takes minutes, and they
    are the same modules. Raises CalledProcessError.
    """
    for name, (source, parts) in _SOURCES.items():
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / name
            _copy(checkout / source, parts, copy)
            _build_wheel(copy, folder)
    return folder


def compile_core_in_isolation(scratch: Path) -> None:
    """Check and translate the compiled modules with what the build requires alone, at the locked
    versions. The C compiler, which takes minutes, is not called.

    Raises CalledProcessError.
    """
    copy = scratch / "coplace"
    _copy(ROOT, (*_SOURCES["coplace"][1], "client", "agent"), copy)
    locked = ("--build-constraints", ROOT / "requirements.lock")
    subprocess.run(
        [_UV, "build", "--quiet", "--sdist", *locked, "--python", sys.executable, copy],
        check=True,
        env={name: value for name, value in os.environ.items() if name != "COPLACE_PLAIN"},
    )


def _copy(source: Path, parts: Sequence[str], target: Path) -> None:
    """A build leaves files in what it is built of."""
    target.mkdir()
    # An earlier commit may not have a part yet.
    for part in filter(lambda part: (source / part).exists(), parts):
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, ignore=_BUILT)
        else:
            shutil.copy(source / part, target / part)


def _build_wheel(source: Path, folder: Path) -> None:
    command: list[str | Path] = [_UV, "build", "--quiet", "--wheel", "--no-build-isolation"]
    subprocess.run(
        [*command, "--out-dir", folder, "--python", sys.executable, source],
        check=True,
        env={**os.environ, "COPLACE_PLAIN": "1"},
    )


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that has one distribution."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, wheels: Path, wanted: str, checkout: Path = ROOT) -> "Environment":
        """With what is wanted installed, such as `coplace[lab]`, at the versions that a checkout
        locks. Raises CalledProcessError."""
        made = cls(folder)
        subprocess.run([_UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        made._install(wheels, wanted, checkout / "requirements.lock")
        return made

    def _install(self, wheels: Path, wanted: str, lock: Path) -> None:
        name = wanted.partition("[")[0]
        [wheel] = wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
        command: list[str | Path] = [_UV, "pip", "install", "--quiet", "--python", self.python]
        pinned: list[str | Path] = [
            "--find-links",
            wheels,
            "--constraints",
            lock,
        ]
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
