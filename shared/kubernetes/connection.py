"""Connections to an API server."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from shared.kubernetes.access import ApiAccess

_AT_ONCE: Final = 100
# A watch has a whole object in a line, which etcd takes up to 1.5 MiB.
_LONGEST_LINE: Final = 2 * 1024 * 1024
_UNAUTHORISED: Final = 401


class ApiConnection:
    """To one API server; use it as a context manager."""

    def __init__(self, access: ApiAccess) -> None:
        self._access = access
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AT_ONCE, ssl=access.tls),
            read_bufsize=_LONGEST_LINE,
        )
        self._proxy = access.proxy or _proxy_of(access.server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    @asynccontextmanager
    async def asked(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 it is aiohttp's
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer, whatever its status. Raises AccessError, and aiohttp's errors."""
        access = self._access
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if told := await access.credentials.authorization():
            headers["Authorization"] = told
        async with self._session.request(
            method,
            access.server + path,
            params=query,
            headers=headers,
            data=None if body is None else orjson.dumps(body),
            timeout=timeout,
            server_hostname=access.server_name,
            proxy=self._proxy,
        ) as answer:
            if answer.status == _UNAUTHORISED:
                access.credentials.refused()
            yield answer


def _proxy_of(server: str) -> str | None:
    """Return the proxy that the environment names for a server. aiohttp would look there, and for
    a `.netrc`, at each request, each in a thread of its own."""
    url = urlsplit(server)
    return None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)
