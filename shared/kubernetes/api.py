"""One API server: objects as JSON."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson

from coplace_client.errors import UnusableError
from shared.kubernetes.access import AccessError
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.packed import PackedObjects, pack

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
Body = Mapping[str, Any]
Trim = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns what is kept of an object: of thousands, whole ones fill a memory."""
_VERSION: Final = "/version"
_MERGE_PATCH: Final = "application/merge-patch+json"
# JSON is YAML.
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_CALL_S: Final = 30.0
_CALL: Final = aiohttp.ClientTimeout(total=_CALL_S)
PAGE: Final = 100
"""How many objects of a list are read at once: whole ones fill a memory."""
_WATCH_S: Final = 300
_QUIET_S: Final = 60.0
_SAID: Final = 400


class ApiError(UnusableError):
    """The API server did not do what was asked."""


class ApiUnavailableError(ApiError):
    """It does not answer, or not now: to be tried again."""


class ApiConflictError(ApiError):
    """The object is another than was seen, or one of its name is there."""


class ApiMissingError(ApiError):
    """The object is not there."""


class ApiRefusedError(ApiError):
    """It never takes this: what was asked is invalid or forbidden."""


class WatchExpiredError(ApiError):
    """What happened since the given version is not known any more: list anew."""


_TRY_AGAIN: Final = (401, 408, 429)
_ERRORS: Final = {404: ApiMissingError, 409: ApiConflictError, 410: WatchExpiredError}


def _error(status: int, said: str) -> ApiError:
    kind: type[ApiError] = ApiRefusedError
    if status >= 500 or status in _TRY_AGAIN:
        kind = ApiUnavailableError
    return _ERRORS.get(status, kind)(said)


class ApiServer:
    """Of one cluster. Every method raises ApiError of the kind that fits; `refused` gets the
    cluster where that is ApiRefusedError."""

    def __init__(
        self, cluster: str, client: ApiConnection, refused: Callable[[str], object] = str
    ) -> None:
        self.cluster, self._client, self._refused = cluster, client, refused

    async def answer(self) -> None:
        """Return once the server has answered."""
        await self._json("GET", _VERSION)

    async def read(self, path: str) -> Mapping[str, Any]:
        """Return an object as it is now."""
        return await self._json("GET", path)

    async def merge(self, path: str, body: Body) -> Mapping[str, Any]:
        """Merge into an object; returns what it is then."""
        return await self._json("PATCH", path, body=body, content_type=_MERGE_PATCH)

    async def add(self, path: str, body: Body) -> Mapping[str, Any]:
        """Create an object from its manifest."""
        return await self._json("POST", path, body=body)

    async def remove(self, path: str, body: Body) -> None:
        """Delete an object; `body` says under which conditions, and what goes with it."""
        await self._json("DELETE", path, body=body)

    async def apply_status(self, path: str, body: Body, manager: str) -> Mapping[str, Any]:
        """Have a field manager own these fields of a status, and no others; returns what the object
        is then."""
        query = {"fieldManager": manager, "force": "true"}
        more = {"query": query, "body": body, "content_type": _APPLY_PATCH}
        return await self._json("PATCH", f"{path}/status", **more)

    async def tell(self, namespace: str, event: Body) -> None:
        """Create an event for readers of the object."""
        await self._json("POST", f"/api/v1/namespaces/{quote(namespace)}/events", body=event)

    async def list(
        self, path: str, selector: str, trim: Trim = dict
    ) -> tuple[Sequence[Mapping[str, Any]], str]:
        """List what is kept of all objects that a selector chooses, and the version from which to
        watch."""
        query = {"labelSelector": selector, "limit": str(PAGE)}
        items = list[bytes]()
        while True:
            page = await self._json("GET", path, query=query)
            items += (pack(trim(each)) for each in page["items"])
            if not (more := page["metadata"].get("continue")):
                return PackedObjects(items), str(page["metadata"]["resourceVersion"])
            query["continue"] = more

    async def watch(
        self, path: str, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
        """Watch them from a version on: yields ADDED, MODIFIED, DELETED and BOOKMARK with the
        object, until the server ends it."""
        query = {
            "labelSelector": selector,
            "resourceVersion": version,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_S),
        }
        patience = aiohttp.ClientTimeout(sock_connect=_CALL_S, sock_read=_WATCH_S + _QUIET_S)
        async with self._asked("GET", path, query=query, timeout=patience) as answer:
            async for line in answer.content:
                told = orjson.loads(line)
                if told["type"] == "ERROR":
                    status = told["object"]
                    raise _error(int(status.get("code", 500)), str(status.get("message")))
                yield told["type"], told["object"]

    async def _json(self, method: str, path: str, **more: Any) -> Mapping[str, Any]:
        async with self._asked(method, path, **more) as answer:
            told = await answer.read()
        try:
            found: Mapping[str, Any] = orjson.loads(told)
        except ValueError as error:
            raise ApiUnavailableError(f"{self.cluster}: answered {told[:_SAID]!r}") from error
        return found

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout = _CALL,  # noqa: ASYNC109 it is aiohttp's
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            asked = self._client.asked(
                method, path, query=query, body=body, content_type=content_type, timeout=timeout
            )
            async with asked as answer:
                if answer.status >= 400:
                    error = _error(answer.status, _said(await answer.read()))
                    if isinstance(error, ApiRefusedError):
                        self._refused(self.cluster)
                    raise error
                yield answer
        except (aiohttp.ClientError, AccessError, TimeoutError, OSError) as failure:
            raise ApiUnavailableError(
                f"{self.cluster}: {str(failure) or type(failure).__name__}"
            ) from failure


def _said(answer: bytes) -> str:
    """The message of a Status, else what came."""
    try:
        return str(orjson.loads(answer)["message"])[:_SAID]
    except (ValueError, KeyError, TypeError):
        return answer[:_SAID].decode(errors="replace")
