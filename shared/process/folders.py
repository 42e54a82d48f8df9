"""Files that are written into a folder that a user named, and stay in it."""

import csv
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from coplace_client.errors import UnusableError
from coplace_client.files import write_whole


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a table as CSV at `path`, once it is whole; devices and pipes there are written to as
    they are. Raises OSError."""
    is_stream = path.exists() and not path.is_file()
    with (
        nullcontext(path) if is_stream else write_whole(path) as fresh,
        fresh.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def path_within(folder: Path, name: str) -> Path:
    """Return a file or folder of this name in `folder`.

    Raises UnusableError for a name that leads out of it, and for a folder there that is a link.
    """
    path = folder / name
    if name in ("", ".", "..") or path.parent != folder:
        raise UnusableError(f"{name!r} is not a name of a file in {folder}: it leads out of it")
    if path.is_symlink() and path.is_dir():
        raise UnusableError(f"{path} is a link to another folder: remove it, or choose another")
    return path
