"""What the linter cannot forbid of what differs from processor to processor (ADR 0017)."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.snippets import REPOSITORY

# Of the laboratory those whose digits are recorded.
RECORDED = ("emulator", "power_prediction", "simulation", "workloads")
ROOTS = ("shared", "services", "deploy", *(f"lab/{folder}" for folder in RECORDED))


def forbidden(tree: ast.AST) -> Iterator[str]:
    """What a source must not do."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp() | ast.AugAssign() if _is_forbidden_operator(node):
                yield ast.unparse(node)
            case ast.Call() if _is_forbidden_call(node):
                yield ast.unparse(node)


def _is_forbidden_operator(node: ast.AST) -> bool:
    """`@` calls BLAS, and a power the C library, even a square, but one of whole numbers."""
    match node:
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            is_whole = _is_whole(left) and _is_whole(right)
            return not (is_whole or _is_power_of_two(left, right))
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult() | ast.Pow()):
            return True
    return False


def _is_forbidden_call(node: ast.AST) -> bool:
    """`.dot()` calls BLAS; numpy's fast sorts leave equal values in an order of the processor's.
    With a modulus `pow` takes whole numbers alone."""
    match node:
        case ast.Call(func=ast.Name(id="pow"), args=[_, _, _]):
            return False
        case ast.Call(func=ast.Name(id="pow") | ast.Attribute(attr="dot" | "argpartition")):
            return True
        case ast.Call(func=ast.Attribute(attr="argsort"), keywords=keywords):
            return not any(ast.unparse(each) == "kind='stable'" for each in keywords)
    return False


def _is_whole(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_power_of_two(base: ast.AST, exponent: ast.AST) -> bool:
    """Of a number that the source says."""
    match base, exponent:
        case ast.Constant(value=2), ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
    return False


@pytest.mark.parametrize(
    "written",
    [
        *("x = a @ b", "a @= b", "a.dot(b)", "x**2", "2**x", "0.1**2", "x **= 2", "pow(x, 2)"),
        *("v.argsort()", "np.argsort(v)", "v.argsort(axis=1)", "np.argpartition(v, 3)"),
    ],
)
def test_what_is_forbidden_is_found(written: str) -> None:
    assert list(forbidden(ast.parse(written)))


@pytest.mark.parametrize(
    "written", ["v.argsort(axis=1, kind='stable')", "10**6", "2.0 ** (-30)", "pow(3, -1, 7)"]
)
def test_what_is_the_same_everywhere_is_allowed(written: str) -> None:
    assert not list(forbidden(ast.parse(written)))


@pytest.mark.parametrize("root", ROOTS)
def test_no_source_does_what_differs_from_processor_to_processor(root: str) -> None:
    sources = sorted((REPOSITORY / root).rglob("*.py"))
    assert sources
    found = {str(each): list(forbidden(ast.parse(each.read_text()))) for each in sources}
    assert not {name: lines for name, lines in found.items() if lines}
