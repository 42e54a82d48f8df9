"""Expressions of features: what they mean, and where they are wrong."""

from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.domain.features import MOST_TEXT, parse_features, require_feature

NAMES = ("a", "b", "c")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """As they are written, with all parentheses that Python needs to read them alike."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(NAMES))
    operator = draw(st.sampled_from("&|"))
    parts = draw(st.lists(expressions(depth - 1), min_size=2, max_size=3))
    return operator.join(f"({part})" for part in parts)


@given(expressions())
def test_an_expression_means_what_python_makes_of_it(text: str) -> None:
    found = parse_features(text)
    python = text.replace("&", " and ").replace("|", " or ")
    for has in product((False, True), repeat=len(NAMES)):
        names = dict(zip(NAMES, has, strict=True))
        features = {name for name, is_there in names.items() if is_there}
        assert found.holds(features) is eval(python, {}, names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a&b|c", "needs parentheses to mix & and | at character 4, got '|c'"),
        ("(a|b", "needs an operator or ) at character 5, got the end"),
        ("a)", "needs the end at character 2, got ')'"),
        ("a b", "needs an operator at character 3, got 'b'"),
        ("a&&b", "needs a feature at character 3, got '&b'"),
        ("", "needs a feature at character 1, got the end"),
        ("gpu*2", "needs a name, &, | or parentheses at character 4, got '*2'"),
        ("a&[b]", "needs a name, &, | or parentheses at character 3, got '[b]'"),
        ("(" * 17 + "a" + ")" * 17, "needs at most 16 parentheses within each other"),
        ("a" * (MOST_TEXT + 1), "must be at most 256 printable characters"),
    ],
)
def test_what_is_no_expression_is_rejected_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(RejectedError) as told:
        parse_features(text)
    assert problem in str(told.value)


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_rejected(text: str) -> None:
    with suppress(RejectedError):
        parse_features(text)


@pytest.mark.parametrize("name", ["", "a b", "a&b", "a,b", "x*2", "a(b", "!a", "[a]", "\x07"])
def test_a_feature_that_no_expression_can_have_is_rejected(name: str) -> None:
    with pytest.raises(RejectedError):
        require_feature("features", name)
