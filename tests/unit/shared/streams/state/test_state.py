"""A state that is restored equals the one that was left, whatever happened to it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.streams.state.rows import RowCodec, UnreadableRowError
from shared.streams.state.state import State, Table, TablePart, key_of


@dataclass(slots=True)
class Row:
    number: int


KEYS = st.sampled_from(["", "a", "b|c", "d"])
# Nothing, or a number for a row that is put, or changed in place, or the end of a row or of a life.
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "change", "drop", "clear", "commit", "restore"]), KEYS)
)


def saved(state: dict[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """What a compacted changelog holds after a commit."""
    return {key: value for key, value in {**state, **changes}.items() if value is not None}


class Life:
    """A table beside the dictionary that it is to equal."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.expected: dict[str, int] = {}
        self.number = 0
        self.begin()

    def begin(self) -> None:
        """Restore the table."""
        self.state = State(self.kept)
        self.table: Table[Row] = self.state.table("row", Row)
        self.state.require_all_read()

    def commit(self) -> dict[str, bytes | None]:
        """Keep what changed."""
        changes = self.state.changes()
        self.kept = saved(self.kept, changes)
        return changes

    def step(self, what: str, key: str) -> None:
        """Do one thing."""
        self.number += 1
        match what:
            case "put":
                self.table.put(key, Row(self.number))
                self.expected[key] = self.number
            case "change" if key in self.table:
                self.table[key].number = self.number
                self.table.changed(key)
                self.expected[key] = self.number
            case "drop":
                dropped = self.table.drop(key)
                assert (dropped.number if dropped else None) == self.expected.pop(key, None)
            case "clear":
                TablePart(self.table, key).clear()
                for gone in [each for each in self.expected if each.startswith(key)]:
                    del self.expected[gone]
            case "commit":
                self.commit()
            case "restore":
                self.commit()
                self.begin()

    def found(self) -> dict[str, int]:
        """Rows by key."""
        return {key: row.number for key, row in self.table.items()}


@given(STEPS)
def test_any_sequence_of_puts_drops_and_restores_equals_a_dictionary(
    steps: list[tuple[str, str]],
) -> None:
    life = Life()
    for step in steps:
        life.step(*step)
        assert life.found() == dict(sorted(life.expected.items()))
        assert len(life.table) == len(life.expected)
    life.step("restore", "")
    assert life.found() == dict(sorted(life.expected.items()))
    assert life.commit() == {}


@given(STEPS)
def test_no_row_that_did_not_change_is_written(steps: list[tuple[str, str]]) -> None:
    life = Life()
    touched = set[str]()
    for what, key in steps:
        life.step(what, key)
        touched |= {key} if what in ("put", "change", "drop") else set()
        touched |= {"", "a", "b|c", "d"} if what == "clear" else set()
        if what in ("commit", "restore"):
            touched.clear()
    before = dict(life.kept)
    changes = life.commit()
    assert changes.keys() <= {key_of("row", key) for key in touched}
    assert all(key in before for key, value in changes.items() if value is None)


def test_a_row_that_changed_often_is_encoded_once() -> None:
    encoded = []

    class Counting(RowCodec[Row]):
        def encode(self, row: Row) -> bytes:
            encoded.append(row.number)
            return super().encode(row)

    state = State({})
    table = state.table("row", Counting(Row))
    for number in range(10):
        table.put("a", Row(number))
    assert state.changes().keys() == {"row|a"}
    assert encoded == [9]


def test_what_came_and_went_between_commits_leaves_no_trace() -> None:
    state = State({})
    table = state.table("row", Row)
    table.put("a", Row(1))
    table.drop("a")
    table.drop("b")
    assert state.changes() == {}


def test_what_is_gone_cannot_change() -> None:
    table = State({}).table("a", int)
    table.put("k", 1)
    assert table.rows == {"k": 1}
    table.drop("k")
    table.changed("k")
    assert (table.rows, list(table.take())) == ({}, [])


def test_rows_of_the_version_before_are_written_anew() -> None:
    old = State({})
    old.table("row", int).put("a", 1)
    second = RowCodec(Row, version=2, previous=lambda value: Row(RowCodec(int).decode(value)))
    state = State(saved({}, old.changes()))
    table = state.table("row", second)
    assert table["a"] == Row(1)
    assert state.changes() == {"row|a": second.encode(Row(1))}
    assert state.changes() == {}


def test_a_row_that_cannot_be_read_is_named() -> None:
    state = State({"row|a": RowCodec(Row, version=2).encode(Row(1))})
    with pytest.raises(UnreadableRowError, match="row 'a' of table 'row' is of version 2"):
        state.table("row", Row)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (RowCodec(int).encode(1), "start the one that wrote it"),
        (b"{}", "of a release before 0.1.0"),
    ],
)
def test_tables_that_nobody_reads_are_refused(value: bytes, words: str) -> None:
    state = State({"row|a": RowCodec(Row).encode(Row(1)), "other\na": value})
    state.table("row", Row)
    with pytest.raises(UnreadableRowError, match=words):
        state.require_all_read()


def test_a_value_is_a_table_of_one_row() -> None:
    state = State({})
    value = state.value("closed", int)
    assert value.get() is None
    value.put(3)
    kept = saved({}, state.changes())
    assert kept.keys() == {"closed|"}
    again = State(kept)
    found = again.value("closed", int)
    assert found.get() == 3
    found.drop()
    assert (found.get(), again.changes()) == (None, {"closed|": None})


@pytest.mark.parametrize("name", ["row", "a|b"])
def test_each_table_has_a_name_of_its_own(name: str) -> None:
    state = State({})
    state.table("row", Row)
    with pytest.raises(ValueError, match="must name one table"):
        state.table(name, Row)


def test_a_part_of_a_table_has_the_rows_whose_keys_begin_so() -> None:
    state = State({})
    table = state.table("row", int)
    part = TablePart(table, "m|")
    assert not part
    table.put("other", 1)
    part.put("b", 2)
    part.put("a", 3)
    assert (part.get("a"), part.get("other"), bool(part)) == (3, None, True)
    assert [*part.items()] == [("a", 3), ("b", 2)]
    assert [*table.items()] == [("m|a", 3), ("m|b", 2), ("other", 1)]
    part.clear()
    assert [*table.items()] == [("other", 1)]
