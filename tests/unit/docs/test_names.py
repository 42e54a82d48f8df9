"""Who looks for something finds it by the field's word, and finds it once."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.snippets import REPOSITORY
from tests.unit.docs.words import RETIRED

# Where such a word means something else.
ALLOWED: Final = {
    "Bands.place": "the verb",
    "JobTable.place": "the verb",
    "Block.place_of": "an index",
    "Binding.speaks_for": "the verb",
    "Shown.stands_at": "the verb",
    "stands_still": "the verb",
    "export_lines": "lines of text",
    "line_of": "a line of text",
    "lines": "lines of text",
    "parse_line": "a line of text",
    "options": "what is given to a command",
    "DemoOptions": "what is given to a command",
    "ScenarioOption": "what is given to a command",
    "kafka_options": "keyword arguments of a client",
    "redis_options": "keyword arguments of a client",
}
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PARAMETER: Final = ("Annotated[", "TypeVar(")
_ALIAS: Final = re.compile(r"[A-Z]\w*[a-z]\w*")


class Named(NamedTuple):
    """A module, class, alias or function: `name` as the allow-list has it. Of what is private, a
    class alone."""

    name: str
    path: str
    is_class: bool = False
    is_alias: bool = False

    @property
    def words(self) -> set[str]:
        """The words of its own name in lower case, with what may be their singular."""
        words = {word.lower() for word in _WORD.findall(self.name.rpartition(".")[2])}
        return words | {word.removesuffix("s") for word in words}


def named(source: str, path: str) -> Iterator[Named]:
    """What is public in a module, its private classes, and the module."""
    for part in Path(path).with_suffix("").parts:
        yield Named(part, path)
    tree = ast.parse(source).body
    for node in tree:
        match node:
            case ast.ClassDef(name=name, body=body):
                yield Named(name, path, is_class=True)
                if name[0] != "_":
                    yield from (Named(f"{name}.{each}", path) for each in _functions(body))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _ALIAS.fullmatch(name):
                # Parameters of commands and type variables are a module's own.
                if not ast.unparse(value).startswith(_PARAMETER):
                    yield Named(name, path, is_alias=True)
    yield from (Named(name, path) for name in _functions(tree))


def _functions(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node.name


def taken_twice(all_named: list[Named]) -> dict[str, list[str]]:
    """Where classes are of one name with another one, or with an alias."""
    found: dict[str, list[Named]] = defaultdict(list)
    for each in all_named:
        if each.is_class or each.is_alias:
            found[each.name].append(each)
    return {
        name: [each.path for each in those]
        for name, those in found.items()
        if len(those) > 1 and any(each.is_class for each in those)
    }


def retired(all_named: list[Named]) -> set[tuple[str, str]]:
    """What is named by a retired word: name and path."""
    return {
        (each.name, each.path)
        for each in all_named
        if each.name[0] != "_" and each.words & RETIRED and each.name not in ALLOWED
    }


@pytest.fixture(scope="module")
def everything() -> list[Named]:
    paths = [
        path
        for root in (
            *("agent", "cli", "client/coplace_client", "coplace_testing"),
            *("lab", "services", "shared"),
        )
        for path in (REPOSITORY / root).rglob("*.py")
        if not path.is_relative_to(REPOSITORY / "lab/papers")
        if not path.is_relative_to(REPOSITORY / "lab/benchmarks")
    ]
    return [
        each
        for path in sorted(paths)
        for each in named(path.read_text(encoding="utf-8"), str(path.relative_to(REPOSITORY)))
    ]


def test_no_two_classes_have_one_name(everything: list[Named]) -> None:
    assert not taken_twice(everything)


def test_nothing_is_named_by_a_retired_word(everything: list[Named]) -> None:
    assert not retired(everything)


def test_what_is_allowed_is_there_still(everything: list[Named]) -> None:
    assert ALLOWED.keys() <= {each.name for each in everything}


@pytest.mark.parametrize(
    ("first", "second", "is_taken_twice"),
    [
        ("class _Row: ...", "class _Row: ...", True),
        ("class _Row: ...", "class Row: ...", False),
        ("class Held: ...\nclass Own: ...", "Held = tuple[int, int]", True),
        ("Row = list[int]", "Row = list[str]", False),
        ("class Limit: ...", "Limit = Annotated[int, 1]", False),
    ],
)
def test_a_class_of_the_name_of_a_class_or_an_alias_is_found(
    first: str, second: str, is_taken_twice: bool
) -> None:
    found = taken_twice([*named(first, "a.py"), *named(second, "b.py")])
    assert list(found.values()) == [["a.py", "b.py"]] * is_taken_twice


@pytest.mark.parametrize(
    ("source", "path", "names"),
    [
        ("class ClusterStanding: ...", "a.py", ["ClusterStanding"]),
        ("class Plan:\n    def stand(self): ...", "a.py", ["Plan.stand"]),
        ("async def make_room(): ...\ndef free_rooms(): ...", "a.py", ["make_room", "free_rooms"]),
        ("", "shared/news/a.py", ["news"]),
        ("", "shared/lane_queues.py", ["lane_queues"]),
        ("class Outline: ...\nclass _Line:\n    def stand(self): ...", "a.py", []),
        ("def _room(): ...\ndef replace(): ...", "a.py", []),
    ],
)
def test_a_retired_word_is_found_in_a_name_of_several_that_is_public(
    source: str, path: str, names: list[str]
) -> None:
    assert retired(list(named(source, path))) == {(name, path) for name in names}
