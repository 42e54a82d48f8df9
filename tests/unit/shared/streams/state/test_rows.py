"""Rows are read as they were, and none of another version is taken for one of this."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np
import pytest
from coplace.v1.accounts_pb2 import PeriodClosed
from numpy.typing import NDArray

from shared.streams.state.rows import RowCodec, UnreadableRowError


class Colour(StrEnum):
    RED = "red"


class Place(NamedTuple):
    cluster: str
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    place: Place | None = None


@dataclass(slots=True)
class Thing:
    name: str
    points: tuple[Point, ...]
    colour: Colour
    by_clock: dict[float, Place]
    closed: PeriodClosed | None = None
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    gram: NDArray[np.float64]
    published: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Single:
    point: Point


THING = Thing(
    "a|b",
    (Point(inf, Place("c", (1, 2))), Point(-0.1)),
    Colour.RED,
    {2.5: Place("c"), 1.0: Place("d")},
    PeriodClosed(until_us=7),
    ["x"],
)


def again(row: object) -> object:
    """The row after it was kept."""
    rows = RowCodec(type(row))
    return rows.decode(rows.encode(row))


def test_a_row_comes_back_with_its_types() -> None:
    found = again(THING)
    assert found == THING
    assert isinstance(found, Thing)
    assert found.colour is Colour.RED
    assert [*found.by_clock] == [2.5, 1.0]


@pytest.mark.parametrize("row", [Place("c", (3,)), Single(Point(1.0)), PeriodClosed(until_us=3), 7])
def test_rows_are_tuples_with_names_dataclasses_messages_and_plain_values(row: object) -> None:
    assert again(row) == row


def test_a_row_of_a_generic_type_comes_back() -> None:
    kernel = {2.0: Place("c", (1,))}
    rows = RowCodec(dict[float, Place])
    assert rows.decode(rows.encode(kernel)) == kernel


def test_arrays_come_back_to_the_last_digit() -> None:
    learned = Learned(np.array([[1 / 3, nan], [0.1, inf]]))
    found = again(learned)
    assert isinstance(found, Learned)
    assert np.array_equal(found.gram, learned.gram, equal_nan=True)
    assert found.published is None
    assert np.array_equal(
        RowCodec(Learned).decode(RowCodec(Learned).encode(found)).gram, found.gram, True
    )


def test_what_is_no_number_stays_so() -> None:
    found = again(Point(nan))
    assert isinstance(found, Point)
    assert isnan(found.x)


def test_fields_may_be_kept_elsewhere() -> None:
    rows = RowCodec(Thing, without=("shown", "closed"))
    found = rows.decode(rows.encode(THING))
    assert (found.closed, found.shown) == (None, [])
    assert found.points == THING.points


def test_a_row_must_hold_what_can_be_kept() -> None:
    with pytest.raises(NotImplementedError, match="must not hold object"):
        RowCodec(tuple[object, ...]).encode((object(),))


def read_before(value: bytes) -> Point:
    """The second version gave points a place."""
    return Point(RowCodec(float).decode(value), Place("unknown"))


def test_the_version_before_is_read_by_its_own_function() -> None:
    second = RowCodec(Point, version=2, previous=read_before)
    assert second.decode(RowCodec(float).encode(3.0)) == Point(3.0, Place("unknown"))
    assert second.decode(second.encode(Point(1.0))) == Point(1.0)


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (1, "is of version 1, this release reads 2 to 3: start each release between them once"),
        (4, "is of version 4, this release reads 2 to 3: start the release that wrote it"),
    ],
)
def test_rows_of_other_versions_are_refused(version: int, words: str) -> None:
    third = RowCodec(Point, version=3, previous=read_before)
    with pytest.raises(UnreadableRowError, match=words):
        third.decode(RowCodec(Point, version=version).encode(Point(1.0)))


@pytest.mark.parametrize("value", [b'{"x":1.0}', b"[1]", b"\x0a\x03abc", b"", b"\xc1"])
def test_what_has_no_version_is_of_before_there_were_any(value: bytes) -> None:
    with pytest.raises(UnreadableRowError, match=r"before 0.1.0: end its jobs .* restore replay"):
        RowCodec(Point).decode(value)
