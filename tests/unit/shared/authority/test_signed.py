"""Which signed tokens identify whom, and which nobody."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from shared.authority import signed as module
from shared.authority.issuer import Issuer
from shared.authority.signed import Keys, SignedTokens, UnverifiedTokenError
from shared.authority.tokens import BearerToken, RefusedTokenError
from shared.process.clock import now_us
from tests.support.issuer import HOUR_S, LocalIssuer, public, rsa_key


def issuer_of_tests() -> LocalIssuer:
    found = LocalIssuer(Path())
    found.url = "https://idp.example/realms/hpc"
    return found


ISSUER = issuer_of_tests()
DECLARED = Issuer(ISSUER.url, "coplace")


def judged(issuer: LocalIssuer = ISSUER, declared: Issuer = DECLARED) -> SignedTokens:
    found = SignedTokens(lambda: declared)
    found.take(declared, Keys(issuer.jwks))
    return found


def encoded(part: Any) -> str:
    text = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def unsigned(header: Any, claims: Any, signature: bytes = b"") -> str:
    return ".".join((encoded(header), encoded(claims), encoded(signature)))


def by_public_key(name: str) -> str:
    """A token whose HMAC has the public key for its secret."""
    key = ISSUER.keys["one"].public_key()
    pem = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    start = unsigned({"alg": "HS256", "kid": "one"}, ISSUER.claims(name)).rpartition(".")[0]
    return f"{start}.{encoded(hmac.digest(pem, start.encode(), hashlib.sha256))}"


def by_own_key(**headers: Any) -> str:
    """A token that a stranger signed, who says where the key is."""
    stranger = rsa_key()
    own = public("one", stranger)
    told = {name: own if value is None else value for name, value in headers.items()}
    return jwt.encode(ISSUER.claims("olga"), stranger, "RS256", {"kid": "one", **told})


def now_s() -> int:
    return now_us() // 1_000_000


ATTACKS: dict[str, Callable[[], str]] = {
    "no signature": lambda: unsigned({"alg": "none", "kid": "one"}, ISSUER.claims()),
    "None in capitals": lambda: unsigned({"alg": "NONE", "kid": "one"}, ISSUER.claims()),
    "no algorithm": lambda: unsigned({"kid": "one"}, ISSUER.claims(), b"x" * 256),
    "an algorithm that is no text": lambda: unsigned({"alg": ["RS256"], "kid": "one"}, {}, b"x"),
    "HMAC by the public key": lambda: by_public_key("olga"),
    "the algorithm of another key": lambda: unsigned({"alg": "ES256", "kid": "one"}, {}, b"x" * 64),
    "of another audience": lambda: ISSUER.token(aud="portal"),
    "of no audience": lambda: ISSUER.token(aud=None),
    "of another issuer": lambda: ISSUER.token(iss="https://idp.example/realms/other"),
    "of the issuer with a slash": lambda: ISSUER.token(iss=ISSUER.url + "/"),
    "of no issuer": lambda: ISSUER.token(iss=None),
    "expired": lambda: ISSUER.token(exp=now_s() - 1),
    "expired as a text": lambda: ISSUER.token(exp=str(now_s() + HOUR_S)),
    "expires never": lambda: ISSUER.token(exp=None),
    "expires at infinity": lambda: ISSUER.token(exp=float("inf")),
    "expires at no number": lambda: ISSUER.token(exp=float("nan")),
    "expires beyond all numbers": lambda: ISSUER.token(exp=10**400),
    "expires at true": lambda: ISSUER.token(exp=True),
    "not valid yet": lambda: ISSUER.token(nbf=now_s() + 60),
    "issued in the future": lambda: ISSUER.token(iat=now_s() + 60),
    "issued at no time": lambda: ISSUER.token(iat=None),
    "bound to a key": lambda: ISSUER.token(cnf={"jkt": "x"}),
    "without a name": lambda: ISSUER.token(sub=None),
    "with an empty name": lambda: ISSUER.token(sub=""),
    "with a list for a name": lambda: ISSUER.token(sub=["ada"]),
    "with a path for a name": lambda: ISSUER.token(sub="ada/x"),
    "with a pattern for a name": lambda: ISSUER.token(sub="*"),
    "with a line in its name": lambda: ISSUER.token(sub="ada\nolga"),
    "with blanks about its name": lambda: ISSUER.token(sub="ada "),
    "with a long name": lambda: ISSUER.token(sub="a" * 300),
    "huge": lambda: ISSUER.token(more="x" * 100_000),
    "with something critical": lambda: ISSUER.signed(ISSUER.claims(), headers={"crit": ["exp"]}),
    "with b64": lambda: unsigned({"alg": "RS256", "kid": "one", "b64": False}, b"", b"x"),
    "of another type": lambda: ISSUER.signed(ISSUER.claims(), headers={"typ": "logout+jwt"}),
    "with a path for a key": lambda: unsigned(
        {"alg": "RS256", "kid": "../../../dev/null"}, ISSUER.claims(), b"x" * 256
    ),
    "with a list for a key": lambda: unsigned({"alg": "RS256", "kid": ["one"]}, {}, b"x"),
    "with no key": lambda: jwt.encode(ISSUER.claims(), ISSUER.keys["one"], "RS256"),
    "with a key of its own": lambda: by_own_key(jwk=None),
    "with the address of a key": lambda: by_own_key(jku="https://evil.example/keys"),
    "with a certificate": lambda: by_own_key(x5u="https://evil.example/x.pem", x5c=["MIIB"]),
    "of a stranger": by_own_key,
    "nested deep": lambda: unsigned(b"[" * 3_000, {}, b"x"),
    "of nothing": lambda: "..",
    "of other characters": lambda: "ü.ü.\udcff",
    "of no JSON": lambda: unsigned(b"{", b"{", b"x"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_not_in_order_identifies_nobody(name: str) -> None:
    tokens, token = judged(), ATTACKS[name]()
    for _ in range(2):
        with pytest.raises(RefusedTokenError) as error:
            tokens.holder(token, now_us())
        assert not isinstance(error.value, UnverifiedTokenError)
        assert token[:40] == ".." or token not in str(error.value)


@pytest.mark.parametrize("kid", ["one", "two"])
def test_a_token_in_order_identifies_whom_it_names_with_the_origin(kid: str) -> None:
    tokens = judged()
    assert tokens.holder(ISSUER.token("ada", kid), now_us()) == "oidc:ada"
    # Who calls themselves by a name of the table is not whom the table names.
    assert tokens.holder(ISSUER.token("operator", kid), now_us()) == "oidc:operator"
    assert tokens.holder(ISSUER.token("oidc:ada", kid), now_us()) == "oidc:oidc:ada"
    assert tokens.holder(ISSUER.token(aud=["portal", "coplace"]), now_us()) == "oidc:ada"


def test_the_declared_claim_names_the_caller() -> None:
    declared = Issuer(ISSUER.url, "coplace", "preferred_username")
    token = ISSUER.token("7f3", preferred_username="ada")
    assert judged(declared=declared).holder(token, now_us()) == "oidc:ada"


@given(place=st.integers(0, 10_000), sign=st.characters(codec="utf-8"))
def test_no_token_with_another_character_is_accepted(place: int, sign: str) -> None:
    token = VALID
    place %= len(token)
    changed = token[:place] + sign + token[place + 1 :]
    if changed != token:
        with pytest.raises(RefusedTokenError):
            KNOWING.holder(changed, now_us())


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit"]), st.text() | st.none()))
def test_no_token_with_another_header_is_accepted(changed: dict[str, Any]) -> None:
    _, claims, signature = VALID.split(".")
    header = {"alg": "RS256", "kid": "one", "typ": "JWT"} | changed
    with pytest.raises(RefusedTokenError):
        # With blanks, so that it never is the one that was signed.
        KNOWING.holder(
            f"{encoded(json.dumps(header, indent=1).encode())}.{claims}.{signature}", now_us()
        )


VALID, KNOWING = ISSUER.token(), judged()


def test_before_the_keys_are_read_nobody_is_refused_for_it() -> None:
    tokens = SignedTokens(lambda: DECLARED)
    with pytest.raises(UnverifiedTokenError):
        tokens.holder(VALID, now_us())
    # Keys of the issuer before are none of this one's.
    tokens.take(Issuer(ISSUER.url, "portal"), Keys(ISSUER.jwks))
    with pytest.raises(UnverifiedTokenError):
        tokens.holder(VALID, now_us())


def test_where_no_issuer_is_declared_every_signed_token_is_refused() -> None:
    with pytest.raises(RefusedTokenError, match="no issuer") as error:
        SignedTokens(lambda: None).holder(VALID, now_us())
    assert not isinstance(error.value, UnverifiedTokenError)


def test_a_token_that_was_accepted_ends_with_its_time_and_with_its_key() -> None:
    tokens = judged()
    token = ISSUER.token()
    assert tokens.holder(token, now_us()) == "oidc:ada"
    with pytest.raises(RefusedTokenError, match="'oidc:ada' has expired"):
        tokens.holder(token, now_us() + 2 * HOUR_S * 1_000_000)
    assert tokens.holder(token, now_us()) == "oidc:ada"
    tokens.take(DECLARED, Keys({"keys": [public("two", ISSUER.keys["two"])]}))
    with pytest.raises(RefusedTokenError, match="no such key"):
        tokens.holder(token, now_us())
    assert tokens.wants_keys


def test_a_signature_is_verified_once_and_few_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verified: list[str] = []
    decode = jwt.decode

    def counted(token: str, *given: Any, **named: Any) -> Any:
        verified.append(token)
        return decode(token, *given, **named)

    monkeypatch.setattr(jwt, "decode", counted)
    monkeypatch.setattr(module, "_MOST_KNOWN", 2)
    tokens, [first, *more] = judged(), [ISSUER.token(name, "two") for name in ("a", "b", "c")]
    for _ in range(3):
        tokens.holder(first, now_us())
    assert verified == [first]
    for token in (*more, first):
        tokens.holder(token, now_us())
    assert verified == [first, *more, first]


def test_keys_that_sign_nothing_here_are_left_out() -> None:
    small, good = rsa_key(1_024), public("one", ISSUER.keys["one"])
    rows = [
        good,
        public("small", small),
        {**good, "kid": "enc", "use": "enc"},
        {**good, "kid": "hmac", "alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        public("koblitz", ec.generate_private_key(ec.SECP256K1())),
        {**good, "kid": "odd", "n": 7},
        {**good, "kid": ["x"]},
        {"kty": ["RSA"], "kid": "x"},
        {"kid": "none"},
        "text",
    ]
    assert list(Keys({"keys": rows}).of) == ["one"]


@pytest.mark.parametrize("document", [{}, {"keys": {}}, {"keys": [{}] * 65}])
def test_what_is_no_set_of_keys_is_none(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="keys"):
        Keys(document)


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example",
        "https://",
        "https://ada@idp.example",
        "https://idp.example?x",
        "https://idp.example#x",
        "https://idp.example:port",
        "https://[::1",
        "https://idp.example/ x",
        "file:///etc/passwd",
        "",
    ],
)
def test_an_issuer_is_reached_over_https_alone(url: str) -> None:
    with pytest.raises(RejectedError):
        Issuer(url, "coplace")


def test_certificates_that_are_none_are_refused_where_they_are_declared() -> None:
    with pytest.raises(RejectedError, match="PEM"):
        Issuer("https://idp.example", "coplace", ca="-----BEGIN CERTIFICATE-----\nx")


def test_no_token_of_ours_is_issued_for_a_name_that_an_issuer_gives() -> None:
    with pytest.raises(RejectedError, match="oidc:"):
        BearerToken(b"x" * 32, "oidc:ada", 0, 1)
