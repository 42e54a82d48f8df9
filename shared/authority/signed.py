"""Signed tokens of the issuer in the table: whom one identifies, by keys that were read before.

Nothing here fetches anything, so a caller can make nobody fetch: it can ask for newer keys, and
`following_issuer` decides when.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from shared.authority.issuer import ORIGIN, Issuer
from shared.authority.tokens import RefusedTokenError

if TYPE_CHECKING:
    from jwt import PyJWK

# Signatures by a key pair: a secret that both sides have, and no signature, are never among them.
_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
# What a header may call its token; empty where it does not.
_TYPES: Final = ("", "jwt", "at+jwt", "application/at+jwt")
_MOST_CHARACTERS: Final = 8_192
_MOST_NAME: Final = 200
_MOST_KEYS: Final = 64
# Signatures that were verified, until these tokens expire.
_MOST_KNOWN: Final = 10_000
# How far ahead the issuer's clock may be.
_AHEAD_S: Final = 10.0
_RENEW: Final = "have the issuer give you another one (`coplace login`)"


class UnverifiedTokenError(RefusedTokenError):
    """Nobody can say yet whether a token is valid: the keys of its issuer were never read."""


class Keys:
    """Public keys of an issuer by their ids. Raises ValueError for what is no set of them; single
    ones that sign nothing here, or that cannot be used, are left out."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        rows = document.get("keys")
        if not isinstance(rows, list) or len(rows) > _MOST_KEYS:
            raise ValueError(f"must have a list of at most {_MOST_KEYS} keys")
        self.of: Mapping[str, PyJWK] = dict(_usable(rows))


def _usable(rows: Iterable[object]) -> Iterable[tuple[str, "PyJWK"]]:
    from jwt import PyJWK, PyJWTError

    for row in rows:
        if not isinstance(row, dict) or row.get("use", "sig") != "sig" or "d" in row:
            continue
        name = row.get("kid")
        if not isinstance(name, str) or not name or not isinstance(row.get("kty"), str):
            continue
        try:
            key = PyJWK(row)
        except (PyJWTError, TypeError, ValueError, KeyError, AttributeError):
            continue
        if key.algorithm_name in _ALGORITHMS and not key.Algorithm.check_key_length(key.key):
            yield name, key


class SignedTokens:
    """Whom signed tokens identify. `issuer` returns the one that is declared now."""

    def __init__(self, issuer: Callable[[], Issuer | None]) -> None:
        self.issuer = issuer
        # Whether a token named a key that was not among those read.
        self.wants_keys = False
        self._of: Issuer | None = None
        self._keys: Keys | None = None
        self._known: dict[bytes, tuple[str, float]] = {}

    def take(self, issuer: Issuer, keys: Keys) -> None:
        """Go by these keys from now on. What a key signed that is not among them is refused."""
        self._of, self._keys = issuer, keys
        self._known.clear()
        self.wants_keys = False

    def has_keys_of(self, issuer: Issuer) -> bool:
        """Return whether keys of this very issuer were read."""
        return self._keys is not None and self._of == issuer

    def holder(self, token: str, now_us: int) -> str:
        """Return the identity of a token, with its origin. Raises RefusedTokenError where it is not
        valid, UnverifiedTokenError while nobody knows."""
        issuer = self.issuer()
        if issuer is None:
            raise _refused("no issuer of signed tokens is declared")
        if self._keys is None or self._of != issuer:
            problem = "the keys of the issuer are not read yet"
            raise UnverifiedTokenError("", problem, "try again in some seconds")
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        who, expires_s = self._known.get(digest, ("", 0.0))
        if not who:
            claims = self._verified(token, issuer, self._keys)
            who, expires_s = _name(claims, issuer), _time_s(claims, "exp")
            _require_begun(who, claims, now_us / 1e6)
        if now_us / 1e6 >= expires_s:
            self._known.pop(digest, None)
            raise _refused(f"the signed token of {who!r} has expired", who)
        self._keep(digest, who, expires_s)
        return who

    def _keep(self, digest: bytes, who: str, expires_s: float) -> None:
        if digest not in self._known and len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[digest] = (who, expires_s)

    def _verified(self, token: str, issuer: Issuer, keys: Keys) -> Mapping[str, Any]:
        """Return the claims of a token that the issuer signed, for us."""
        import jwt

        if len(token) > _MOST_CHARACTERS:
            raise _refused(f"a signed token must be at most {_MOST_CHARACTERS} characters")
        try:
            key = self._key(jwt.get_unverified_header(token), keys)
            return jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=issuer.audience,
                issuer=issuer.url,
                options={
                    "require": ["exp", "iat", "iss", "aud"],
                    # Times are compared below, with the clock of the caller.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidAudienceError:
            raise _refused(f"the signed token is not for {issuer.audience!r}") from None
        except jwt.InvalidIssuerError:
            raise _refused(f"the signed token is not of {issuer.url!r}") from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise _refused("the signed token is malformed, or its signature is invalid") from None

    def _key(self, header: Mapping[str, Any], keys: Keys) -> "PyJWK":
        """Return the key that a header names. Nothing else in a header says where a key is."""
        if "crit" in header or "b64" in header:
            raise _refused("the signed token has a header `crit` or `b64`, which is not known here")
        kind = header.get("typ", "")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise _refused("the header `typ` of the signed token is not of an access token")
        if header.get("alg") not in _ALGORITHMS:
            raise _refused("the signed token is not signed by the key of an issuer")
        name = header.get("kid")
        key = keys.of.get(name) if isinstance(name, str) else None
        if key is None:
            self.wants_keys = True
            raise _refused("the issuer has no such key: if it is new, try again in a minute")
        return key


def is_signed(token: str) -> bool:
    """Return whether a token has the form of a signed one; those of ours have no dot."""
    return token.count(".") == 2


def parse_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises ValueError for anything else."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("must not be nested so deep") from None
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return found


def _name(claims: Mapping[str, Any], issuer: Issuer) -> str:
    """Return who the caller is. A token that is bound to a key of its holder is no bearer's."""
    if "cnf" in claims:
        raise _refused("the signed token is bound to a key (claim `cnf`): ask for one without")
    name = claims.get(issuer.name_claim)
    if not isinstance(name, str) or not _is_name(name):
        raise _refused(f"the signed token has no name in its claim {issuer.name_claim!r}")
    return ORIGIN + name


def _is_name(text: str) -> bool:
    is_text = 0 < len(text) <= _MOST_NAME and text.isprintable() and text == text.strip()
    return is_text and not set(text) & {"/", "*"}


def _require_begun(who: str, claims: Mapping[str, Any], now_s: float) -> None:
    times_s = [_time_s(claims, name) for name in ("nbf", "iat") if name in claims]
    if max(times_s) > now_s + _AHEAD_S:
        raise _refused(f"the signed token of {who!r} is not valid yet", who)


def _time_s(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(f"the signed token has no time in its claim {name!r}")
    try:
        time_s = float(value)
    except OverflowError:
        time_s = math.inf
    if not math.isfinite(time_s):
        raise _refused(f"the signed token has no time in its claim {name!r}")
    return time_s


def _refused(reason: str, who: str = "") -> RefusedTokenError:
    return RefusedTokenError(who, reason, _RENEW)
