"""Files that are written into a folder that a user named, and stay in it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.domain.errors import UnusableError


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Where to write what shall be at `path`: a new file that takes its place once it is whole.

    A link in its place is replaced, not followed. Its folder is made. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        fresh = Path(folder) / path.name
        yield fresh
        fresh.replace(path)


def within(folder: Path, name: str) -> Path:
    """A file or folder of this name in `folder`.

    Raises UnusableError for a name that leads out of it, and for a folder there that is a link.
    """
    path = folder / name
    if name in ("", ".", "..") or path.parent != folder:
        raise UnusableError(f"{name!r} is no name of a file in {folder}: it leads out of it")
    if path.is_symlink() and path.is_dir():
        raise UnusableError(f"{path} is a link to another folder: remove it, or choose another")
    return path
