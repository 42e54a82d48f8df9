"""Tokens that identify a caller where no certificate is shown: what is known of them, and when"""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coplace.v1.authority_pb2 import IssuedToken

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.authority.issuer import require_no_origin

# By which a token is known for one, wherever it was left.
_PREFIX: Final = "coplace_"
_RANDOM_BYTES: Final = 32
_SHOWN: Final = 12
_MOST: Final = 10_000
# How long a refusal says that a token has expired, rather than that there is none.
_KEPT_US: Final = 30 * 86_400_000_000
_RENEW: Final = "have an operator issue one: `coplace tokens issue`"


class RefusedTokenError(Exception):
    """A token does not count; `who` is whose it was, empty where that is not known."""

    def __init__(self, who: str, reason: str, remedy: str = _RENEW) -> None:
        super().__init__(f"{reason}: {remedy}")
        self.who = who


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What is known of a token: its SHA-256, whom it identifies, and its times in microseconds
    since 1970; `revoked_at_us` is 0 while it counts. Raises RejectedError, naming the field."""

    digest: bytes
    who: str
    issued_at_us: int
    expires_at_us: int
    revoked_at_us: int = 0

    def __post_init__(self) -> None:
        require_text("who", self.who)
        require_no_origin("who", self.who)
        if len(self.digest) != hashlib.sha256().digest_size:
            raise RejectedError("digest", f"must be a SHA-256, got {len(self.digest)} bytes")
        if not 0 <= self.issued_at_us < self.expires_at_us:
            problem = f"must be after it was issued, got {self.expires_at_us}"
            raise RejectedError("expires_at_us", problem)

    @property
    def name(self) -> str:
        """Return the name by which it is listed and revoked, and which opens nothing."""
        return self.digest.hex()[:_SHOWN]

    def require_counts(self, now_us: int) -> None:
        """Raise RefusedTokenError if it was revoked or has expired."""
        if self.revoked_at_us:
            raise RefusedTokenError(self.who, f"token {self.name} of {self.who!r} was revoked")
        if now_us >= self.expires_at_us:
            raise RefusedTokenError(self.who, f"token {self.name} of {self.who!r} has expired")

    def is_worth_keeping(self, now_us: int) -> bool:
        """Return whether it is valid, or its holder may still come and need the reason why it is
        not."""
        return now_us < self.expires_at_us + _KEPT_US

    @property
    def message(self) -> IssuedToken:
        """Return the message that declares it."""
        return IssuedToken(
            digest=self.digest,
            who=self.who,
            issued_at_us=self.issued_at_us,
            expires_at_us=self.expires_at_us,
            revoked_at_us=self.revoked_at_us,
        )


class Tokens:
    """Those of one table. Raises RejectedError for two of one digest, and for too many."""

    def __init__(self, every: Iterable[BearerToken] = ()) -> None:
        self.every = tuple(every)
        self._of = {one.digest: one for one in self.every}
        if len(self._of) != len(self.every):
            raise RejectedError("tokens", "must hold each token once")
        if len(self.every) > _MOST:
            raise RejectedError("tokens", f"must be at most {_MOST}, got {len(self.every)}")

    @classmethod
    def from_rows(cls, rows: Iterable[IssuedToken], known: Iterable[str]) -> "Tokens":
        """Read the tokens that were declared, each of an identity that is known."""
        names = frozenset(known)
        return cls(_declared(number, row, names) for number, row in enumerate(rows))

    def holder(self, token: str, now_us: int) -> str:
        """Return the identity of a token. Raises RefusedTokenError where it is not valid."""
        if not token:
            raise RefusedTokenError("", "a caller without a token has no name here")
        found = self._of.get(digest_of(token))
        if found is None:
            raise RefusedTokenError("", "there is no such token, or it expired long ago")
        found.require_counts(now_us)
        return found.who


def fresh_token() -> str:
    """Return a token of 256 random bits, which nobody guesses: so its plain SHA-256 discloses
    nothing."""
    return _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def digest_of(token: str) -> bytes:
    """Return the digest by which a token is known without its text."""
    return hashlib.sha256(token.encode()).digest()


def _declared(number: int, row: IssuedToken, known: frozenset[str]) -> BearerToken:
    try:
        if row.who not in known:
            raise RejectedError("who", f"must be named by a binding, got {row.who[:40]!r}")
        return BearerToken(
            row.digest, row.who, row.issued_at_us, row.expires_at_us, row.revoked_at_us
        )
    except RejectedError as error:
        raise error.inside(f"tokens[{number}]") from None
