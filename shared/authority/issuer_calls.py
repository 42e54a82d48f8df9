"""Calls to an identity provider over HTTPS, bounded in size: no redirection is followed, and no
proxy asked. The caller bounds them in time."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from coplace_client.errors import RejectedError
from shared.authority.issuer import Issuer, require_url
from shared.authority.signed import parse_object

OK: Final = 200
_SILENT_S: Final = 5.0
_MOST_BYTES: Final = 524_288
_CHUNK_BYTES: Final = 65_536
# What calls end with that are answered by no JSON object, or not at all.
CALL_ERRORS: Final = (OSError, HTTPException, ValueError, RejectedError)


class IssuerFailedError(Exception):
    """The issuer did not say what it has to."""


class IssuerAnswer(NamedTuple):
    """The status of an answer, and its JSON object."""

    status: int
    document: dict[str, Any]


async def discovered(issuer: Issuer) -> dict[str, Any]:
    """Return how an issuer describes itself. Raises one of CALL_ERRORS."""
    found = await ask_issuer(issuer, issuer.discovery_url)
    if found.status != OK:
        raise ValueError(f"status {found.status} of {issuer.discovery_url[:80]}")
    if found.document.get("issuer") != issuer.url:
        raise ValueError(f"it says to be {str(found.document.get('issuer'))[:80]!r}")
    return found.document


def endpoint(described: Mapping[str, Any], name: str, what: str) -> str:
    """Return an address out of what an issuer says of itself. Raises ValueError where it says
    none, and RejectedError where that is not over HTTPS."""
    address = described.get(name)
    if not isinstance(address, str):
        raise ValueError(f"it does not say where {what}")
    require_url(name, address)
    return address


async def ask_issuer(
    issuer: Issuer, url: str, form: Mapping[str, str] | None = None
) -> IssuerAnswer:
    """Return what is answered at a URL, where a form is posted if there is one. Raises one of
    CALL_ERRORS."""
    parts, trusted = urlsplit(url), ssl.create_default_context(cadata=issuer.ca or None)
    connection = HTTPSConnection(
        parts.hostname or "", parts.port, timeout=_SILENT_S, context=trusted
    )
    opened: list[socket.socket] = []
    try:
        status, body = await asyncio.to_thread(_read, connection, parts.path or "/", form, opened)
        return IssuerAnswer(status, _parse(status, body, parts.path))
    finally:
        for each in opened:  # whoever still reads from it is woken
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        connection.close()


def _parse(status: int, body: bytes, path: str) -> dict[str, Any]:
    try:
        return parse_object(body)
    except ValueError:
        if status == OK:
            raise
        raise ValueError(f"status {status} of {path[:80]}") from None


def _read(
    connection: HTTPSConnection,
    path: str,
    form: Mapping[str, str] | None,
    opened: list[socket.socket],
) -> tuple[int, bytes]:
    connection.connect()
    opened.append(connection.sock)
    headers = {"Accept": "application/json", "Connection": "close"}
    if form is None:
        connection.request("GET", path, headers=headers)
    else:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request("POST", path, urlencode(form), headers)
    answer = connection.getresponse()
    body = b""
    while chunk := answer.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES} bytes at {path[:80]}")
    return answer.status, body
