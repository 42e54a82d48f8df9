"""Rows of a state and their bytes, which are derived from their types.

A row is two bytes, of which the second is the version of its type, and MessagePack: what msgspec
makes of dataclasses, tuples with names, enumerations, messages and arrays. Another form of a type
is another version. A release reads the version before too, by one function that the release after
it does without.
"""

import sys
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeGuard,
    TypeVar,
    get_type_hints,
)

import msgspec
from google.protobuf.message import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = TypeVar("Row")

# Begins neither MessagePack nor JSON, of which states were before rows had versions.
_MARK: Final = b"\xc1"
_HEADER_BYTES: Final = 2


class Form(NamedTuple, Generic[Row]):
    """What is kept of a row: its type, and how to come from the one to the other."""

    kept: Any
    of_row: Callable[[Row], Any]
    to_row: Callable[[Any], Row]


class UnreadableRowError(ValueError):
    """Raised for a row that another release wrote; says which one reads it."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what}: {advice}")
        self.what, self.advice = what, advice

    def of_row(self, table: str, key: str) -> "UnreadableRowError":
        """Return the error of this row of a table."""
        return UnreadableRowError(f"row {key!r} of table {table!r} {self.what}", self.advice)


class RowCodec(Generic[Row]):
    """The rows of one type, in one version.

    A dataclass goes by the places of its fields, all but those named by `without`; what lies within
    it goes by their names. A `form` says otherwise. `previous` reads the bytes of the version
    before: it names the `only` fields of then, so that a field that comes later does not change it.
    """

    def __init__(
        self,
        row: type[Row],
        *,
        version: int = 1,
        previous: Callable[[bytes], Row] | None = None,
        without: Collection[str] = (),
        only: Collection[str] = (),
        form: Form[Row] | None = None,
    ) -> None:
        self.version = version
        self._previous = previous
        self._header = _MARK + bytes([version])
        self._pack = msgspec.msgpack.Encoder(enc_hook=_plain).encode
        self._form = form or by_position(row, without, only)
        self._unpack = msgspec.msgpack.Decoder(self._form.kept, dec_hook=_restored).decode

    def encode(self, row: Row) -> bytes:
        """Return its bytes."""
        return self._header + self._pack(self._form.of_row(row))

    def decode(self, value: bytes) -> Row:
        """Return the row that has these bytes. Raises UnreadableRowError for those of other
        versions."""
        if self.is_current(value):
            return self._form.to_row(self._unpack(memoryview(value)[_HEADER_BYTES:]))
        found = version_of(value)
        if self._previous is None or found != self.version - 1:
            raise self._unreadable(found)
        return self._previous(value)

    def read(self, table: str, key: str, value: bytes) -> Row:
        """Return the row that a table has at a key. Raises UnreadableRowError that names it."""
        try:
            return self.decode(value)
        except UnreadableRowError as error:
            raise error.of_row(table, key) from error

    def is_current(self, value: bytes) -> bool:
        """Return whether these are bytes of this version."""
        return value.startswith(self._header)

    def _unreadable(self, found: int | None) -> UnreadableRowError:
        if found is None:
            return of_before_versions()
        oldest = self.version - (self._previous is not None)
        what = f"is of version {found}, this release reads {oldest} to {self.version}"
        if found > self.version:
            return UnreadableRowError(what, "start the release that wrote it, or a later one")
        return UnreadableRowError(what, "start each release between them once, the oldest first")


def of_before_versions() -> UnreadableRowError:
    """Return the error of what has no version."""
    return UnreadableRowError(
        "is of a release before 0.1.0",
        "end its jobs with that one, or have this one make the state anew from its inputs "
        "(`coplace restore replay STAGE`)",
    )


def version_of(value: bytes) -> int | None:
    """Return the version of a row, None where its bytes are of no row."""
    has_header = value.startswith(_MARK) and len(value) >= _HEADER_BYTES
    return value[1] if has_header else None


def rows_of(row: type[Row]) -> RowCodec[Row]:
    """Return the rows of a type whose first version holds."""
    if row not in _FIRST_VERSIONS:
        _FIRST_VERSIONS[row] = RowCodec(row)
    return _FIRST_VERSIONS[row]


_FIRST_VERSIONS: Final[dict[Any, RowCodec[Any]]] = {}


def by_position(
    row: type[Row], without: Collection[str] = (), only: Collection[str] = ()
) -> Form[Row]:
    """Return the form of a dataclass that goes by the places of its fields; others are kept as they
    are."""
    if not is_dataclass(row):
        return Form(row, _as_is, _as_is)
    names = [*only] or [field.name for field in fields(row) if field.name not in without]
    types = get_type_hints(row)

    def to_row(values: tuple[Any, ...]) -> Row:
        return row(**dict(zip(names, values, strict=True)))

    named_tuple: Any = NamedTuple
    kept = named_tuple(row.__name__, [(name, types[name]) for name in names])
    return Form(kept, _getter(names), to_row)


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A getter of one attribute gives no tuple."""
    found = attrgetter(*names)
    return found if len(names) > 1 else lambda row: (found(row),)


def _as_is(row: Any) -> Any:
    return row


def _plain(value: object) -> object:
    """Return what msgspec does not know, in terms that it does."""
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    if _is_array(value):
        return value.tolist()
    raise NotImplementedError(f"a row must not hold {type(value).__name__}")


def _restored(wanted: Any, kept: Any) -> object:
    """Return what `_plain` was given."""
    if isinstance(wanted, type) and issubclass(wanted, Message):
        return wanted.FromString(kept)
    import numpy as np

    return np.array(kept)


def _is_array(value: object) -> TypeGuard["NDArray[Any]"]:
    """Return whether it is an array. A process without any has not loaded numpy's 10 MiB."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)
