"""Objects of an API server as they are and as they change, over cuts and gaps."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from shared.kubernetes.api import (
    ApiError,
    ApiMissingError,
    ApiServer,
    Trim,
    WatchExpiredError,
)

_RETRY_S: Final = 1.0
_MOST_RETRY_S: Final = 30.0

log = structlog.get_logger(__name__)


class WatchMeter:
    """Notified of what an API server sends; this one counts nothing."""

    def heard(self, cluster: str, path: str) -> None:
        """Count what was heard of the objects at this path of its API."""

    def listed_anew(self, cluster: str, path: str) -> None:
        """Count that the watch broke off, so that all objects were listed anew."""


_UNCOUNTED: Final = WatchMeter()


class ObjectWatcher(Protocol):
    """Notified of objects."""

    def replace(self, cluster: str, found: Sequence[Mapping[str, Any]]) -> None:
        """Replace what is known by a list of all objects."""

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Take an object that is new, or has changed."""

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        """Forget an object that was deleted."""


async def reflect(
    api: ApiServer,
    path: str,
    selector: str,
    watcher: ObjectWatcher,
    listed: Callable[[], None],
    meter: WatchMeter = _UNCOUNTED,
    if_missing: str = "",
    trim: Trim = dict,
) -> None:
    """Pass on all objects once and each change then, until cancelled; `listed` is called when all
    were passed on for the first time. Where the API server has no such objects the log says
    `if_missing`: what to do. `trim` returns what is kept of an object.

    After a cut the watch goes on from the version that it had. Where that is too old (status 410)
    all objects are listed anew: what was deleted in the gap is missing there.
    """
    version, wait_s = "", _RETRY_S
    while True:
        try:
            if not version:
                found, version = await api.list(path, selector, trim)
                meter.heard(api.cluster, path)
                watcher.replace(api.cluster, found)
                listed()
            async for kind, each in api.watch(path, selector, version):
                version, wait_s = each["metadata"]["resourceVersion"], _RETRY_S
                meter.heard(api.cluster, path)
                if kind == "DELETED":
                    watcher.deleted(api.cluster, trim(each))
                elif kind != "BOOKMARK":
                    watcher.changed(api.cluster, trim(each))
        except WatchExpiredError:
            log.info("listing anew", cluster=api.cluster, path=path)
            meter.listed_anew(api.cluster, path)
            version = ""
        except ApiError as error:
            _warn(api.cluster, path, error, if_missing)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _MOST_RETRY_S)


def _warn(cluster: str, path: str, error: ApiError, if_missing: str) -> None:
    log.warning("watching again", cluster=cluster, path=path, problem=str(error))
    if isinstance(error, ApiMissingError):
        words = "the API server has no such resource"
        log.error(words, cluster=cluster, path=path, advice=if_missing)
