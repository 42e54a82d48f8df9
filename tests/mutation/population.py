"""Every mutant of the schedulers, and the sample that a seed draws of them.

A mutant is known by its file, its operator and its occurrence, and is drawn by a digest of these: a
change of one file leaves the draws of all others as they are, and fewer are the first of more.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutation.calls import SCHEDULING

Position = tuple[int, int]


class Mutant(NamedTuple):
    """A change that an operator makes in a file, at its how-manieth place there."""

    file: str
    operator: str
    occurrence: int
    starts: Position
    ends: Position

    @property
    def name(self) -> str:
        """What it is known by."""
        return f"{self.file}:{self.operator}:{self.occurrence}"


def mutants(root: Path) -> Iterator[Mutant]:
    """All in the sources below a folder, but those that change no more than a signature."""
    for path in sorted((root / SCHEDULING).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        ignored = [*annotations(source), *asterisks(source)]
        for mutant in _of_file(path.relative_to(root).as_posix(), source):
            if not any(starts <= mutant.starts < ends for starts, ends in ignored):
                yield mutant


def _of_file(file: str, source: str) -> Iterator[Mutant]:
    nodes = list(ast_nodes(get_ast(source)))
    for name in operator_names():
        operator = get_operator(name)
        if not operator.arguments():
            found = chain.from_iterable(map(operator().mutation_positions, nodes))
            for occurrence, (starts, ends) in enumerate(found):
                yield Mutant(file, name, occurrence, starts, ends)


def annotations(source: str) -> list[tuple[Position, Position]]:
    """Where the types are: no test sees them, and a change there is none or no program."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.returns)
    return [_span(each) for each in found if each]


def asterisks(source: str) -> Iterator[tuple[Position, Position]]:
    """Those before parameters that have to be named: no multiplications, though taken for such."""
    for row, line in enumerate(source.splitlines(), start=1):
        for found in re.finditer(r"\*,", line):
            yield (row, found.start()), (row, found.end())


def _span(node: ast.expr) -> tuple[Position, Position]:
    ends = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset), ends


def in_order(found: Iterable[Mutant], seed: int) -> list[Mutant]:
    """As a seed draws them."""
    return sorted(found, key=lambda each: turn(each.name, seed))


def turn(name: str, seed: int) -> bytes:
    """When one of this name is drawn."""
    return sha256(f"{seed}:{name}".encode()).digest()


def mutated(root: Path, mutant: Mutant) -> str:
    """The source with the change in it."""
    source = (root / mutant.file).read_text(encoding="utf-8")
    return str(mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence))


def compiles(source: str) -> bool:
    """Whether that is a program: what is none needs no test."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
