"""Rows of another form have another version, and every stage refuses what it cannot read.

`python -m tests.unit.services.test_row_versions` writes the forms of today.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import inspect

from cli.stages import every_stage
from shared.process.settings import Settings
from shared.streams.state.rows import RowCodec, UnreadableRowError
from shared.streams.state.state import State, Table

RECORDED = Path(__file__).with_name("row_forms.json")
STAGES = every_stage(Settings())
Forms = dict[str, dict[str, str]]


def words(kind: inspect.Type) -> str:
    """A type as what is kept of it."""
    match kind:
        case inspect.DataclassType() | inspect.NamedTupleType():
            listed = ", ".join(f"{each.name}: {words(each.type)}" for each in kind.fields)
            return f"{kind.cls.__name__}({listed})"
        case inspect.TupleType():
            return f"[{', '.join(map(words, kind.item_types))}]"
        case inspect.VarTupleType() | inspect.ListType():
            return f"[{words(kind.item_type)}, ...]"
        case inspect.DictType():
            return f"{{{words(kind.key_type)}: {words(kind.value_type)}}}"
        case inspect.UnionType():
            return " | ".join(map(words, kind.types))
        case inspect.CustomType() | inspect.EnumType():
            return kind.cls.__name__
        case _:
            return type(kind).__name__.removesuffix("Type").lower()


@contextmanager
def noted() -> Iterator[dict[str, str]]:
    """What tables are made meanwhile, and the version and form of their rows."""
    found: dict[str, str] = {}

    class Noting(Table[Any]):
        def __init__(self, name: str, rows: RowCodec[Any], restored: Any) -> None:
            form = words(inspect.type_info(rows._form.kept))
            found[name] = f"version {rows.version}: {form}"
            super().__init__(name, rows, restored)

    with patch("shared.streams.state.state.Table", Noting):
        yield found


def forms() -> Forms:
    """Of every stage's tables."""
    found: Forms = {}
    for stage in STAGES:
        with noted() as tables:
            stage.create(0, {})
        found[stage.name] = dict(sorted(tables.items()))
    return found


def version(form: str) -> str:
    return form.partition(":")[0]


def test_rows_of_another_form_have_another_version() -> None:
    recorded: Forms = json.loads(RECORDED.read_text())
    for stage, tables in forms().items():
        for name, form in tables.items():
            known = recorded.get(stage, {}).get(name, "")
            changed = form != known and version(form) == version(known)
            assert not changed, (
                f"{name} of {stage} needs another version: it is\n{form}, was\n{known}"
            )
    assert forms() == recorded, f"run python -m {__name__}"


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_stage_refuses_what_no_table_of_it_reads(stage: Any) -> None:
    with pytest.raises(UnreadableRowError, match="of table 'nobody'"):
        stage.create(0, {"nobody|x": RowCodec(int).encode(1)})


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_every_table_refuses_what_was_before_there_were_versions(stage: Any) -> None:
    for table in forms()[stage.name]:
        with pytest.raises(UnreadableRowError, match=f"of table '{table}' is of a release before"):
            stage.create(0, {f"{table}|x": b"{}"})


def test_rows_are_described() -> None:
    state = State({})
    with noted() as found:
        state.table("a", dict[float, tuple[int | None, ...]])
    assert found == {"a": "version 1: {float: [int | none, ...]}"}


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(forms(), indent=1) + "\n")
