"""Files that are there as a whole or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Give a new file to write, which takes the place of `path` once it is whole.

    A link in its place is replaced, not followed. Its folder is made. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        fresh = Path(folder) / path.name
        yield fresh
        fresh.replace(path)
