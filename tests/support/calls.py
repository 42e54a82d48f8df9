"""How often functions are called, by their names: a measure of work that no other work disturbs.
Compiled functions call each other unseen."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count calls meanwhile."""
    found = Counter[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
