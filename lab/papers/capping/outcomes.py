"""Outcomes in a CSV file that grows as plays end, so that a run that is ended keeps them."""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final

from coplace_client.errors import UnusableError
from coplace_client.files import write_whole
from lab.papers.capping.plays import Outcome

_COLUMNS: Final = [field.name for field in fields(Outcome)]
_TYPES: Final = (str, str, int, str, *[float] * 7, *[int] * 3)


def read_outcomes(path: Path) -> list[Outcome]:
    """Read the outcomes that a run left, without the line that it was in when it ended; none where
    there is no file. Raises UnusableError for a file of other columns."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    header, *rows = csv.reader(whole.splitlines()) if whole else [_COLUMNS]
    if header != _COLUMNS:
        raise UnusableError(f"{path} has other columns: play anew, without --resume")
    return [Outcome(*(of(cell) for of, cell in zip(_TYPES, row, strict=True))) for row in rows]


def appended(path: Path, known: Iterable[Outcome], found: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield all outcomes, new ones once they are on disk; what the file had before is replaced by
    the known ones."""
    kept = list(known)
    with write_whole(path) as fresh, fresh.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *map(astuple, kept)])
    yield from kept
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for outcome in found:
            writer.writerow(astuple(outcome))
            file.flush()
            yield outcome
