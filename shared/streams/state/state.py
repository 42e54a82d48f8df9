"""A processor's state: tables of rows that a changelog rebuilds, and what changed in them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic

from shared.streams.state.rows import (
    Row,
    RowCodec,
    UnreadableRowError,
    of_before_versions,
    rows_of,
    version_of,
)

_SEPARATOR: Final = "|"


class Table(Generic[Row]):
    """Rows by key, each of them one record of the changelog."""

    def __init__(self, name: str, rows: RowCodec[Row], restored: Mapping[str, bytes]) -> None:
        self.name = name
        self._codec = rows
        self._rows = {key: rows.read(name, key, value) for key, value in restored.items()}
        # Rows of the version before are written anew: the next release does not read them.
        self._changed = {key for key, value in restored.items() if not rows.is_current(value)}
        # Changed rows that the changelog does not have.
        self._new: set[str] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def get(self, key: str) -> Row | None:
        """Return the row of a key, None when there is none."""
        return self._rows.get(key)

    @property
    def rows(self) -> Mapping[str, Row]:
        """Return the rows by key, as they are and will be, in no order."""
        return self._rows

    def items(self) -> Iterator[tuple[str, Row]]:
        """Iterate over keys and rows, ascending by key: as in a state that was restored."""
        return iter(sorted(self._rows.items(), key=lambda item: item[0]))

    def values(self) -> Iterator[Row]:
        """Iterate over rows, ascending by key."""
        return (row for _, row in self.items())

    def put(self, key: str, row: Row) -> None:
        """Set the row of a key."""
        if key not in self._rows and key not in self._changed:
            self._new.add(key)
        self._rows[key] = row
        self._changed.add(key)

    def changed(self, key: str) -> None:
        """Note that the row of a key, where there is one, was changed in place."""
        if key in self._rows:
            self._changed.add(key)

    def drop(self, key: str) -> Row | None:
        """Forget a key; return its row. What no changelog has yet leaves no trace there."""
        row = self._rows.pop(key, None)
        if key in self._new:
            self._new.discard(key)
            self._changed.discard(key)
        elif row is not None:
            self._changed.add(key)
        return row

    def clear(self) -> None:
        """Forget all keys."""
        for key in list(self._rows):
            self.drop(key)

    def take(self) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over the keys that changed since the last call: their bytes, None where a key was
        dropped. However often a row changed, it is encoded once."""
        changed, self._changed, self._new = self._changed, set(), set()
        for key in sorted(changed):
            row = self._rows.get(key)
            yield key, None if row is None else self._codec.encode(row)


class TablePart(Generic[Row]):
    """The rows of a table whose keys begin alike, by what follows."""

    def __init__(self, table: Table[Row], beginning: str) -> None:
        self._table = table
        self._beginning = beginning

    def __bool__(self) -> bool:
        return any(True for _ in self.items())

    def get(self, key: str) -> Row | None:
        """Return the row of a key, None when there is none."""
        return self._table.get(self._beginning + key)

    def items(self) -> Iterator[tuple[str, Row]]:
        """Iterate over keys and rows, ascending by key."""
        for key, row in self._table.items():
            if key.startswith(self._beginning):
                yield key.removeprefix(self._beginning), row

    def values(self) -> Iterator[Row]:
        """Iterate over rows, ascending by key."""
        return (row for _, row in self.items())

    def put(self, key: str, row: Row) -> None:
        """Set the row of a key."""
        self._table.put(self._beginning + key, row)

    def clear(self) -> None:
        """Forget all of them."""
        for key, _ in list(self.items()):
            self._table.drop(self._beginning + key)


class SingleRow(Generic[Row]):
    """A table of at most one row."""

    def __init__(self, table: Table[Row]) -> None:
        self._table = table

    def get(self) -> Row | None:
        """Return it, None when it was never set."""
        return self._table.get("")

    def put(self, row: Row) -> None:
        """Set it."""
        self._table.put("", row)

    def drop(self) -> None:
        """Forget it."""
        self._table.drop("")


class State:
    """The tables of one processor, made of what earlier commits left in the changelog."""

    def __init__(self, restored: Mapping[str, bytes]) -> None:
        self._unread: dict[str, dict[str, bytes]] = defaultdict(dict)
        for key, value in restored.items():
            table, _, of_row = key.partition(_SEPARATOR)
            self._unread[table][of_row] = value
        self._tables: dict[str, Table[Any]] = {}

    def table(self, name: str, rows: RowCodec[Row] | type[Row]) -> Table[Row]:
        """Make the table of this name. Raises UnreadableRowError."""
        if name in self._tables or _SEPARATOR in name:
            raise ValueError(f"{name!r} must name one table")
        codec = rows if isinstance(rows, RowCodec) else rows_of(rows)
        table = Table(name, codec, self._unread.pop(name, {}))
        self._tables[name] = table
        return table

    def value(self, name: str, rows: RowCodec[Row] | type[Row]) -> SingleRow[Row]:
        """Make the table of this name that has at most one row. Raises UnreadableRowError."""
        return SingleRow(self.table(name, rows))

    def require_all_read(self) -> None:
        """Raise UnreadableRowError where the changelog has tables that were not made: going on
        without them would lose them."""
        for name, rows in sorted(self._unread.items()):
            key, value = min(rows.items())
            if version_of(value) is None:
                raise of_before_versions().of_row(name, key)
            advice = "start the one that wrote it, or a later one"
            raise UnreadableRowError("is of another release", advice).of_row(name, key)

    def changes(self) -> dict[str, bytes | None]:
        """Return what changed in all tables since the last call, by key of the changelog."""
        return {
            key_of(name, key): value
            for name, table in self._tables.items()
            for key, value in table.take()
        }


def key_of(table: str, key: str) -> str:
    """Return where the changelog has a row."""
    return f"{table}{_SEPARATOR}{key}"
