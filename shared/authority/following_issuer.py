"""The keys of the declared issuer, fetched beside the calls and never by one."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from coplace_client.errors import RejectedError
from shared.authority.issuer import Issuer, require_url
from shared.authority.signed import Keys, SignedTokens, parse_object

_LOOK_S: Final = 0.5
# Keys that the issuer withdrew count until then at most.
_EVERY_S: Final = 300.0
# At most so often because a token names a key that is not known, or since a fetch failed.
_AGAIN_S: Final = 30.0
_FIRST_AGAIN_S: Final = 5.0
_WITHIN_S: Final = 10.0
_SILENT_S: Final = 5.0
_MOST_BYTES: Final = 524_288
_CHUNK_BYTES: Final = 65_536
_OK: Final = 200

log = structlog.get_logger(__name__)


class IssuerFailedError(Exception):
    """The issuer did not say what it has to."""


class KeysSchedule:
    """When the keys of an issuer are fetched, by the seconds of a clock that never jumps."""

    def __init__(self) -> None:
        self._issuer: Issuer | None = None
        self._tried_s = 0.0
        self._is_read = False

    def is_due(self, issuer: Issuer, now_s: float, *, wanted: bool) -> bool:
        """Return whether to fetch now, of an issuer that tokens perhaps want newer keys of."""
        if issuer != self._issuer:
            return True
        if not self._is_read:
            return now_s >= self._tried_s + _FIRST_AGAIN_S
        return now_s >= self._tried_s + (_AGAIN_S if wanted else _EVERY_S)

    def tried(self, issuer: Issuer, now_s: float, *, succeeded: bool) -> None:
        """Take in that a fetch has ended."""
        self._is_read = succeeded or (self._is_read and issuer == self._issuer)
        self._issuer, self._tried_s = issuer, now_s


@asynccontextmanager
async def issuer_followed(
    signed: SignedTokens, crash: Callable[[Exception], object]
) -> AsyncIterator[None]:
    """Keep the keys of the issuer that is declared, whichever that is meanwhile."""
    running = asyncio.create_task(_run(signed, crash))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _run(signed: SignedTokens, crash: Callable[[Exception], object]) -> None:
    schedule = KeysSchedule()
    try:
        while True:
            issuer = signed.issuer()
            if issuer and schedule.is_due(issuer, time.monotonic(), wanted=signed.wants_keys):
                succeeded = await _refresh(signed, issuer)
                schedule.tried(issuer, time.monotonic(), succeeded=succeeded)
            await asyncio.sleep(_LOOK_S)
    except Exception as error:  # noqa: BLE001 the process ends here, whatever it was
        crash(error)


async def _refresh(signed: SignedTokens, issuer: Issuer) -> bool:
    """Take the newest keys; those that are known go on where the issuer does not answer."""
    try:
        keys = await fetch_keys(issuer)
    except IssuerFailedError as error:
        kept = signed.has_keys_of(issuer)
        log.warning("no keys of the issuer", issuer=issuer.url, problem=str(error), kept=kept)
        return False
    signed.take(issuer, keys)
    log.info("keys of the issuer", issuer=issuer.url, keys=len(keys.of))
    return True


async def fetch_keys(issuer: Issuer) -> Keys:
    """Return the keys that an issuer publishes. Raises IssuerFailedError."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            found = await _fetch(issuer, issuer.discovery_url)
            if found.get("issuer") != issuer.url:
                raise ValueError(f"it says to be {str(found.get('issuer'))[:80]!r}")
            address = found.get("jwks_uri")
            if not isinstance(address, str):
                raise ValueError("it does not say where its keys are")
            require_url("jwks_uri", address)
            return Keys(await _fetch(issuer, address))
    except TimeoutError:
        raise IssuerFailedError(f"no answer within {_WITHIN_S:g} s") from None
    except (OSError, HTTPException, ValueError, RejectedError) as error:
        raise IssuerFailedError(str(error)[:200] or type(error).__name__) from error


async def _fetch(issuer: Issuer, url: str) -> dict[str, Any]:
    """Return a JSON object at a URL, with no redirection followed and no proxy asked."""
    parts, trusted = urlsplit(url), ssl.create_default_context(cadata=issuer.ca or None)
    connection = HTTPSConnection(
        parts.hostname or "", parts.port, timeout=_SILENT_S, context=trusted
    )
    opened: list[socket.socket] = []
    try:
        return parse_object(await asyncio.to_thread(_read, connection, parts.path or "/", opened))
    finally:
        for each in opened:  # whoever still reads from it is woken
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        connection.close()


def _read(connection: HTTPSConnection, path: str, opened: list[socket.socket]) -> bytes:
    connection.connect()
    opened.append(connection.sock)
    connection.request("GET", path, headers={"Accept": "application/json", "Connection": "close"})
    answer = connection.getresponse()
    if answer.status != _OK:
        raise ValueError(f"status {answer.status} of {path[:80]}")
    body = b""
    while chunk := answer.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes at {path[:80]}")
    return body
