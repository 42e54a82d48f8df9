"""Which tests call what: a mutant is held to those alone that call the function it is in."""

import ast
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Final

SCHEDULING: Final = "shared/scheduling"
CORE: Final = "tests/core/"


@dataclass(frozen=True)
class Tried:
    """A test: its name, the CPU time that it takes, and what it calls, by file and first line."""

    test: str
    seconds: float
    calls: frozenset[tuple[str, int]]

    def as_json(self) -> dict[str, Any]:
        """To be written down."""
        return {**asdict(self), "calls": sorted(self.calls)}


def tried(stored: dict[str, Any]) -> Tried:
    """As it was written down."""
    return Tried(stored["test"], stored["seconds"], frozenset((f, n) for f, n in stored["calls"]))


def function_at(source: str, line: int) -> int | None:
    """The first line of the innermost function there. None outside of all, and in one of which
    results are kept: who uses them again does not call it again."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    around = [each for each in functions if each.body[0].lineno <= line <= (each.end_lineno or 0)]
    innermost = max(around, key=lambda each: each.lineno, default=None)
    if innermost is None or any("cache" in ast.dump(each) for each in innermost.decorator_list):
        return None
    return min([innermost.lineno, *(each.lineno for each in innermost.decorator_list)])


def concerned(tests: Sequence[Tried], file: str, source: str, line: int) -> list[str]:
    """The tests that call the function in this line; where there are none, those that call anything
    of the file, or else all."""
    function = function_at(source, line)
    of_function = [each for each in tests if (file, function) in each.calls]
    of_file = [each for each in tests if any(called == file for called, _ in each.calls)]
    return in_order(of_function or of_file or tests)


def in_order(tests: Sequence[Tried]) -> list[str]:
    """Random systems last; before, of each test one case, the fastest first, then the others."""
    cases: dict[str, count[int]] = {}

    def key(one: Tried) -> tuple[bool, bool, float]:
        earlier = next(cases.setdefault(one.test.split("[")[0], count()))
        return one.test.startswith(CORE), earlier > 0, one.seconds

    return [one.test for one in sorted(tests, key=key)]
