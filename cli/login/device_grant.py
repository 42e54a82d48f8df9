"""The device authorization grant: a code that is confirmed in a browser, on whatever device.

https://www.rfc-editor.org/rfc/rfc8628
"""

import asyncio
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlsplit

from coplace_client.errors import RejectedError, UnusableError
from shared.authority.issuer import ORIGIN, Issuer
from shared.authority.issuer_calls import (
    CALL_ERRORS,
    OK,
    IssuerAnswer,
    ask_issuer,
    discovered,
    endpoint,
)
from shared.authority.signed import parse_object

SCOPE: Final = "openid"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_PENDING: Final = "authorization_pending"
_SLOW_DOWN: Final = "slow_down"
_ENDED: Final = "invalid_grant"
_WITHIN_S: Final = 10.0
# As the standard says: where the provider names no interval, and by how much it grows.
_INTERVAL_S: Final = 5.0
_SLOWER_S: Final = 5.0
_LONGEST_INTERVAL_S: Final = 60.0
_LONGEST_CODE_S: Final = 3_600.0
_LONGEST_TOKEN_S: Final = 366 * 86_400.0
_LATEST_S: Final = 1e11
# Answers that cannot be used, one after another.
_MOST_FAILURES: Final = 5
_MOST_TEXT: Final = 200
_MOST_TOKEN: Final = 8_192
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.~+/=-]+")


class SignInError(UnusableError):
    """Nobody is signed in; the message says at which provider, why, and what to do."""


class SignInEndedError(SignInError):
    """The provider renews no token any more."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An issuer with what it said of itself, and the client as which people sign in there."""

    issuer: Issuer
    client_id: str
    token_url: str
    device_url: str = ""
    revocation_url: str = ""

    @classmethod
    async def discover(cls, issuer: Issuer, client_id: str) -> Self:
        """Ask an issuer where to sign in. Raises SignInError."""
        async with _calling(issuer):
            described = await discovered(issuer)
            device = endpoint(
                described, "device_authorization_endpoint", "devices sign in (RFC 8628)"
            )
            token = endpoint(described, "token_endpoint", "it gives tokens")
            revocation = ""
            if "revocation_endpoint" in described:
                revocation = endpoint(described, "revocation_endpoint", "tokens are revoked")
        return cls(issuer, client_id, token, device, revocation)


class DeviceCode(NamedTuple):
    """What the provider gave this device, and what its user types there. Times are in seconds."""

    device_code: str
    user_code: str
    page: str
    page_with_code: str
    expires_in_s: float
    interval_s: float


class TokenGrant(NamedTuple):
    """What the provider gave: a token, whom it names, how long it is valid, and what renews it,
    empty where nothing does."""

    access_token: str
    who: str
    expires_in_s: float
    refresh_token: str


class PollClock(NamedTuple):
    """How time passes."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


async def begin(provider: Provider, scope: str) -> DeviceCode:
    """Ask for a code. Raises SignInError."""
    form = {"client_id": provider.client_id, "scope": scope}
    issuer = provider.issuer
    async with _calling(issuer):
        status, said = await ask_issuer(issuer, provider.device_url, form)
        if status != OK:
            raise _refused(issuer, said, f"status {status}")
        page = _page(said.get("verification_uri", said.get("verification_url")))
        whole = said.get("verification_uri_complete")
        return DeviceCode(
            _text(said, "device_code", 4_096),
            _text(said, "user_code", 64),
            page,
            _page(whole) if whole is not None else "",
            _seconds(said, "expires_in", None, _LONGEST_CODE_S),
            _seconds(said, "interval", _INTERVAL_S, _LONGEST_INTERVAL_S),
        )


async def confirmed(provider: Provider, code: DeviceCode, clock: PollClock) -> TokenGrant:
    """Wait until the user has confirmed the code. Raises SignInError where they refuse, or do not
    in time."""
    form = {
        "grant_type": _GRANT,
        "device_code": code.device_code,
        "client_id": provider.client_id,
    }
    ends_s, interval_s, failures = clock.now_s() + code.expires_in_s, code.interval_s, 0
    while clock.now_s() + interval_s < ends_s:
        await clock.sleep(interval_s)
        try:
            status, said = await _answer(provider, form)
        except SignInError:
            failures += 1
            if failures == _MOST_FAILURES:
                raise
            interval_s = min(2 * interval_s, _LONGEST_INTERVAL_S)
            continue
        failures = 0
        if status == OK:
            return _tokens(provider.issuer, said)
        error = said.get("error")
        if error == _SLOW_DOWN:
            interval_s += _SLOWER_S
        elif error != _PENDING:
            raise _refused(provider.issuer, said, f"status {status}")
    raise SignInError(
        f"{provider.issuer.url}: nobody confirmed the code within {code.expires_in_s:.0f} s: run "
        "`coplace login` again"
    )


async def renewed(provider: Provider, refresh_token: str) -> TokenGrant:
    """Return new tokens. Raises SignInEndedError where the provider gives none any more,
    SignInError where it does not answer."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": refresh_token,
        "client_id": provider.client_id,
    }
    status, said = await _answer(provider, form)
    if status == OK:
        found = _tokens(provider.issuer, said)
        return found._replace(refresh_token=found.refresh_token or refresh_token)
    if said.get("error") == _ENDED:
        raise SignInEndedError(
            f"{provider.issuer.url}: the login has ended: run `coplace login` again"
        )
    raise _refused(provider.issuer, said, f"status {status}")


async def revoke(provider: Provider, refresh_token: str) -> None:
    """Have the provider renew nothing by this token any more (RFC 7009). Raises SignInError."""
    form = {
        "token": refresh_token,
        "token_type_hint": "refresh_token",
        "client_id": provider.client_id,
    }
    async with _calling(provider.issuer):
        try:
            await ask_issuer(provider.issuer, provider.revocation_url, form)
        except ValueError:
            return  # it answers with a status alone


async def _answer(provider: Provider, form: Mapping[str, str]) -> IssuerAnswer:
    async with _calling(provider.issuer):
        return await ask_issuer(provider.issuer, provider.token_url, form)


@asynccontextmanager
async def _calling(issuer: Issuer) -> AsyncIterator[None]:
    """Bound calls of an issuer in time, and say in words how they failed. Raises SignInError."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            yield
    except TimeoutError:
        raise SignInError(f"{issuer.url}: no answer within {_WITHIN_S:g} s: try again") from None
    except CALL_ERRORS as error:
        problem = _plain(str(error)) or type(error).__name__
        raise SignInError(
            f"{issuer.url}: {problem}: is it up, and as the table of authority declares it?"
        ) from error


def _tokens(issuer: Issuer, said: Mapping[str, Any]) -> TokenGrant:
    """Read the tokens of an answer. Raises SignInError for what the region would refuse."""
    token, renewing = said.get("access_token"), said.get("refresh_token", "")
    try:
        if not isinstance(token, str) or len(token) > _MOST_TOKEN or not _TOKEN.fullmatch(token):
            raise ValueError("it gave no access token of up to 8,192 characters")
        if not isinstance(renewing, str) or len(renewing) > 2 * _MOST_TOKEN:
            raise ValueError("it gave an invalid refresh token")
        claims = _claims(token)
        audience = claims.get("aud")
        if issuer.audience not in (audience if isinstance(audience, list) else [audience]):
            raise ValueError(f"its access token is not for {issuer.audience!r}: add that audience")
        name = claims.get(issuer.name_claim)
        if not isinstance(name, str) or not name.isprintable():
            raise ValueError(f"its access token has no name in the claim {issuer.name_claim!r}")
        left_s = _seconds(claims, "exp", None, _LATEST_S) - time.time()
        expires_in_s = _seconds(said, "expires_in", max(left_s, 1.0), _LONGEST_TOKEN_S)
    except (ValueError, RejectedError) as error:
        raise SignInError(f"{issuer.url}: {error}: see docs/how-to/oidc.md") from None
    return TokenGrant(token, ORIGIN + name[:_MOST_TEXT], expires_in_s, renewing)


def _claims(token: str) -> dict[str, Any]:
    """Read what a signed token says. The services alone check by whom it is signed."""
    parts = token.split(".")
    try:
        if len(parts) != 3:
            raise ValueError
        return parse_object(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        raise ValueError("its access token is not a signed JWT") from None


def _refused(issuer: Issuer, said: Mapping[str, Any], otherwise: str) -> SignInError:
    error = said.get("error")
    name = _plain(error) if isinstance(error, str) else otherwise
    words = said.get("error_description")
    details = f": {_plain(words)}" if isinstance(words, str) else ""
    todo = {
        "access_denied": "you, or the provider, refused it",
        "expired_token": "the code has expired: run `coplace login` again",
        "unauthorized_client": "allow the device grant for the client there",
        "invalid_client": "register the client there without a secret, or say --client-id",
        "invalid_scope": "say another --scope",
    }.get(name, "the provider's operators know more")
    return SignInError(f"{issuer.url}: {name}{details}: {todo}")


def _text(said: Mapping[str, Any], name: str, most: int) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= most:
        raise RejectedError(name, f"must be 1 to {most} printable characters")
    return value


def _page(value: object) -> str:
    """Return an address that may be shown in a terminal and opened in a browser."""
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise RejectedError("verification_uri", "must be a URL")
    parts = urlsplit(value)
    if parts.scheme != "https" or not parts.hostname or " " in value or len(value) > 2_048:
        raise RejectedError("verification_uri", "must be a URL over HTTPS")
    return value


def _seconds(said: Mapping[str, Any], name: str, default: float | None, most: float) -> float:
    value = said.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise RejectedError(name, "must be a number of seconds above 0")
    return float(min(value, most))


def _plain(text: str) -> str:
    """Return what a terminal may show."""
    return "".join(sign if sign.isprintable() else "?" for sign in text[:_MOST_TEXT])
