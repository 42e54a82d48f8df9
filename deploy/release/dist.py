"""The distributions as wheels, each with a bill of materials, and the schemas as a buf module."""

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.release.tools import ROOT, pack, run, write_checksums

# Folders of the sources by distribution. The bill of the last has all that its services may need.
SOURCES: Final[Mapping[str, str]] = {
    "coplace-client": "client",
    "coplace-agent": "agent",
    "coplace": ".",
}
EXTRAS: Final = (
    *("archive", "history", "kubernetes", "lab", "mcp", "placement", "planner", "prediction"),
    *("rest", "server", "slurm", "webhooks"),
)
_LOCK: Final = "requirements.lock"
# The same versions for pip, which would demand hashes of our own wheels too.
CONSTRAINTS: Final = "constraints.txt"


def build_dist(out: Path) -> None:
    """Build all of it into a folder, anew. Raises CalledProcessError."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for folder in SOURCES.values():
        build_wheel(ROOT / folder, out)
    describe(out)


def build_wheel(source: Path, out: Path) -> None:
    """Build the wheel of one distribution. Raises CalledProcessError."""
    run(
        "uv",
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        out.absolute(),
        source,
    )
    # Copies of modules, which whoever looks for names would find twice. That of the services has
    # what was compiled, for the next time.
    if source != ROOT:
        shutil.rmtree(source / "build", ignore_errors=True)


def describe(out: Path) -> None:
    """Write what is beside the wheels of a folder: bills of materials, schemas, lock, checksums.
    Raises CalledProcessError."""
    for name in SOURCES:
        _write_bill(name, out.absolute())
    pack(out / "coplace-protos.tar.gz", ROOT, ("LICENSE", "buf.yaml", "proto"))
    shutil.copy(ROOT / _LOCK, out)
    (out / CONSTRAINTS).write_text(_constraints(), encoding="utf-8")
    # As uv leaves it.
    (out / ".gitignore").unlink(missing_ok=True)
    write_checksums(out)


def wanted(name: str, out: Path, extras: Sequence[str] = EXTRAS) -> str:
    """Return what installs a distribution from its wheel; that of the services with extras."""
    [wheel] = out.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    asked = f"[{','.join(extras)}]" if name == "coplace" and extras else ""
    return f"{name}{asked} @ {wheel.absolute().as_uri()}"


def _constraints() -> str:
    lines = (ROOT / _LOCK).read_text(encoding="utf-8").splitlines()
    pinned = (line.removesuffix("\\").rstrip() for line in lines if not line.startswith(" "))
    return "".join(f"{line}\n" for line in pinned)


def _write_bill(name: str, out: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        run("uv", "venv", "--quiet", "--python", sys.executable, environment)
        python = environment / "bin" / "python"
        locked = ("--find-links", out, "--constraints", ROOT / _LOCK)
        run("uv", "pip", "install", "--quiet", "--python", python, *locked, wanted(name, out))
        bill = ("--output-reproducible", "--output-file", out / f"{name}.cdx.json")
        run(
            "cyclonedx-py",
            "environment",
            *bill,
            "--pyproject",
            ROOT / SOURCES[name] / "pyproject.toml",
            python,
        )
