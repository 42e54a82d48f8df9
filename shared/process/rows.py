"""Rows of tables in text files, and what is wrong with them by file, row and field."""

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coplace_client.errors import RejectedError
from coplace_client.numbers import finite_number
from shared.process.user_files import lines

# A million rows of signatures; each is kept with the names of its fields.
MOST_TABLE_CHARACTERS: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file; rows count from 1 below the header."""

    path: Path
    number: int
    line: int
    values: dict[str, str]

    @property
    def where(self) -> str:
        """Return the row as errors name it."""
        return f"row {self.number} (line {self.line}) of {self.path}"

    def text(self, field: str, default: str | None = None) -> str:
        """Return the text of a field. Raises RejectedError when it is empty and has no default."""
        value = (self.values.get(field) or "").strip()
        if value:
            return value
        if default is None:
            raise RejectedError(field, f"is empty in {self.where}")
        return default

    def number_of(self, field: str, default: str | None = None) -> float:
        """Return a field as a number, finite or not, in the digits 0 to 9. Raises RejectedError for
        any other text."""
        value = self.text(field, default)
        try:
            is_word = value.lower().lstrip("+-") in ("inf", "nan")
            return float(value) if is_word else finite_number(value)
        except ValueError as error:
            problem = f"must be a number, got {value!r} in {self.where}"
            raise RejectedError(field, problem) from error

    def check(self, field: str, value: float, rule: Callable[[str, float], None]) -> float:
        """Return `value` when it keeps the rule. Raises RejectedError that names the row when
        not."""
        with self.named():
            rule(field, value)
        return value

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the row in errors from within."""
        try:
            yield
        except RejectedError as error:
            raise RejectedError(error.field, f"{error.problem} in {self.where}") from error


def read_rows(path: Path, required: Sequence[str], *, delimiter: str = ",") -> list[FileRow]:
    """Read all rows of a file with a header.

    Raises OSError when it cannot be read, UnusableError when it is too large, RejectedError when it
    is no text, has no rows or lacks a column or a value.
    """
    try:
        text = lines(path, most=MOST_TABLE_CHARACTERS, newline="")
        reader = csv.DictReader(text, delimiter=delimiter, skipinitialspace=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        _require_columns(path, header, required)
        found = [(reader.line_num, values) for values in reader]
    except csv.Error as error:
        raise RejectedError("file", f"{path} is not a table in UTF-8 text: {error}") from error
    rows = [FileRow(path, number, *each) for number, each in enumerate(found, start=1)]
    if not rows:
        raise RejectedError("rows", f"{path} has a header and no rows: add one row at least")
    for row in rows:
        _require_shape(row, header)
    return rows


def _require_columns(path: Path, header: Sequence[str], required: Sequence[str]) -> None:
    missing = [name for name in required if name not in header]
    if missing:
        problem = f"{path} must have the columns {', '.join(required)}: {missing[0]} is missing"
        raise RejectedError(missing[0], problem)


def _require_shape(row: FileRow, header: Sequence[str]) -> None:
    """DictReader puts what is too much under None, and None where values are too few."""
    if None in row.values or None in row.values.values():
        raise RejectedError("columns", f"must be {len(header)}, as in the header, in {row.where}")
