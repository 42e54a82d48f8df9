"""Programs of the environment that a release is made in, and files that go into it."""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# The beginning of 1980, before which archives of wheels have no times: the same files are the same
# bytes.
_EPOCH_S: Final = 315_532_800


def run(program: str, *words: str | Path) -> None:
    """Run a program of this environment, which sees no checkout. Raises CalledProcessError."""
    path = Path(sys.executable).with_name(program)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([path, *words], check=True, cwd=ROOT, env=kept)


def pack(archive: Path, folder: Path, names: Iterable[str]) -> None:
    """Write files and folders into an archive, the same bytes of the same files."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.mtime, info.uid, info.gid, info.uname, info.gname = _EPOCH_S, 0, 0, "", ""
        return info

    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for name in sorted(names):
            packed.add(folder / name, name, filter=plain)


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS of all files of a folder, as sha256sum checks them."""
    sums = folder / "SHA256SUMS"
    sums.unlink(missing_ok=True)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = (f"{_digest(path)}  {path.relative_to(folder)}\n" for path in files)
    sums.write_text("".join(lines), encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
