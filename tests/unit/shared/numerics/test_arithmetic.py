"""What the linter cannot forbid of what differs from processor to processor (ADR 0017)."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.snippets import REPOSITORY

SOURCES = sorted(
    source
    for root in ("shared", "services", "deploy")
    for source in (REPOSITORY / root).rglob("*.py")
)


def forbidden(tree: ast.AST) -> Iterator[str]:
    """What a source must not do, by line: `@` and `.dot()` call BLAS, and numpy's fast sorts leave
    equal values in another order on each processor."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                yield f"line {node.lineno}: @"
            case ast.Call(func=ast.Attribute(attr="dot")):
                yield f"line {node.lineno}: .dot()"
            case ast.Call(func=ast.Attribute(attr="argpartition")):
                yield f"line {node.lineno}: .argpartition()"
            case ast.Call(func=ast.Attribute(attr="argsort"), keywords=keywords):
                if not any(ast.unparse(each) == "kind='stable'" for each in keywords):
                    yield f"line {node.lineno}: .argsort() that is not stable"


@pytest.mark.parametrize(
    "written", ["x = a @ b", "a @= b", "a.dot(b)", "v.argsort()", "np.argsort(v)"]
)
def test_what_is_forbidden_is_found(written: str) -> None:
    assert list(forbidden(ast.parse(written)))


def test_a_stable_order_is_allowed() -> None:
    assert not list(forbidden(ast.parse("v.argsort(axis=1, kind='stable')")))


def test_no_source_does_what_differs_from_processor_to_processor() -> None:
    assert SOURCES
    found = {str(each): list(forbidden(ast.parse(each.read_text()))) for each in SOURCES}
    assert not {name: lines for name, lines in found.items() if lines}
