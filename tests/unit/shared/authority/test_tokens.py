"""Whom a token identifies, and when it is valid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.authority.binding import Binding, Role
from shared.authority.table import AuthorityTable, message_of
from shared.authority.tokens import (
    BearerToken,
    RefusedTokenError,
    Tokens,
    digest_of,
    fresh_token,
)

_NOW_US = 1_767_225_600_000_000
_DAY_US = 86_400_000_000
_OLGA = Binding("olga", Role.OPERATOR, sites=("*",))
_ADA = Binding("ada", Role.USER, accounts=("physics",))


def known(
    token: str, who: str = "ada", *, until_us: int = _NOW_US + _DAY_US, revoked_at_us: int = 0
) -> BearerToken:
    """What a table says of a token."""
    return BearerToken(digest_of(token), who, _NOW_US - _DAY_US, until_us, revoked_at_us)


def refusal(tokens: Tokens, token: str, now_us: int = _NOW_US) -> RefusedTokenError:
    """Why a token does not count."""
    with pytest.raises(RefusedTokenError) as error:
        tokens.holder(token, now_us)
    return error.value


def test_one_that_does_not_count_is_refused_with_what_to_do_and_not_repeated() -> None:
    expired, revoked, unknown = fresh_token(), fresh_token(), fresh_token()
    tokens = Tokens([known(expired, until_us=_NOW_US), known(revoked, revoked_at_us=_NOW_US)])
    told = {token: refusal(tokens, token) for token in (expired, revoked, unknown, "")}
    assert "has expired" in str(told[expired])
    assert "was revoked" in str(told[revoked])
    assert "there is no such token" in str(told[unknown])
    assert "without a token" in str(told[""])
    for token, error in told.items():
        assert str(error).endswith("have an operator issue one: `coplace tokens issue`")
        assert "\n" not in str(error)
        assert not token or token not in str(error)
    old = known(expired, until_us=_NOW_US)
    assert old.is_worth_keeping(_NOW_US + 29 * _DAY_US)
    assert not old.is_worth_keeping(_NOW_US + 30 * _DAY_US)
    assert [told[token].who for token in (expired, revoked, unknown)] == ["ada", "ada", ""]


@given(st.integers(0, 2 * _DAY_US))
def test_a_token_counts_until_it_expires_and_not_from_then_on(later_us: int) -> None:
    token, of_ben = fresh_token(), fresh_token()
    tokens = Tokens([known(token), known(of_ben, "ben", until_us=_NOW_US + 3 * _DAY_US)])
    assert tokens.holder(of_ben, _NOW_US + later_us) == "ben"
    assert len(token) == len("coplace_") + 43, "nobody guesses it"
    if later_us < _DAY_US:
        assert tokens.holder(token, _NOW_US + later_us) == "ada"
    else:
        assert "has expired" in str(refusal(tokens, token, _NOW_US + later_us))


@given(st.text(max_size=60))
def test_no_other_text_opens_anything(text: str) -> None:
    token = fresh_token()
    found = Tokens([known(token)])
    assert refusal(found, text).who == ""
    assert refusal(found, token + text[:1] + "x").who == ""
    assert refusal(found, digest_of(token).hex()).who == ""


def test_a_table_has_its_tokens_and_no_token_is_in_its_message() -> None:
    token = fresh_token()
    message = message_of(1, [_OLGA, _ADA], "", _NOW_US, [known(token, revoked_at_us=7)])
    assert AuthorityTable.from_message(message).tokens.every == (known(token, revoked_at_us=7),)
    assert token.encode() not in message.SerializeToString()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"who": "mallory"}, "tokens[0].who"),
        ({"digest": b"short"}, "tokens[0].digest"),
        ({"who": ""}, "tokens[0].who"),
        ({"expires_at_us": 0}, "tokens[0].expires_at_us"),
        ({}, "tokens"),
    ],
    ids=["of nobody", "short", "without a name", "never valid", "twice"],
)
def test_what_is_no_token_is_refused_by_its_field(wrong: dict[str, object], field: str) -> None:
    message = message_of(1, [_OLGA, _ADA], "", _NOW_US, [known(fresh_token())] * 2)
    for name, value in wrong.items():
        setattr(message.tokens[0], name, value)
    with pytest.raises(RejectedError) as error:
        AuthorityTable.from_message(message)
    assert error.value.field == field
