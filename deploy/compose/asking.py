"""Questions over HTTP to the containers of a run that is over."""

import json
import ssl
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from deploy.compose.podman import PodmanError

_WITHIN_S: Final = 90.0
_EACH_S: Final = 30.0
_POLL_S: Final = 0.5
_PAGE: Final = 200
# A job that fits on every cluster of the demo.
_QUOTED: Final = {
    "jobId": "quote",
    "attempt": 1,
    "user": "ada",
    "account": "physics",
    "appId": "app",
    "nodes": 1,
    "walltimeS": 3600,
}


class Asking:
    """REST at an address; by a certificate of `authority` where there is one."""

    def __init__(self, address: str, authority: Path | None = None) -> None:
        self._address = address
        self._trusted = ssl.create_default_context(cafile=authority) if authority else None

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        """Return the status and the document of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._address}{path}", data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=_EACH_S, context=self._trusted) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())

    def document(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the document of an answer. Raises PodmanError for a refusal."""
        status, found = self.ask(path, body)
        if status != HTTPStatus.OK:
            raise PodmanError(f"{path} is answered by {status}: {found}")
        return found


def require_answers(asking: Asking, jobs: int) -> None:
    """Raise PodmanError unless what the run decided and charged is answered, and what another job
    would cost: as many jobs have a charge as were played."""
    every = _until(lambda: _charged(asking), lambda found: len(found) >= jobs)
    if len(every) != jobs:
        raise PodmanError(f"{len(every)} of {jobs} jobs have a charge in the history")
    clusters = asking.document("/v1/clusters")["clusters"]
    quoted = {
        **_QUOTED,
        "referenceCluster": clusters[0]["name"],
        "submittedAtUs": str(time.time_ns() // 1000),
    }
    answer = asking.document("/v1/quotes", {"job": quoted})
    priced = [one["priceSu"]["expected"] for one in answer["placements"] if one["cluster"]]
    if not priced or not answer["rateSuPerCoreS"]:
        raise PodmanError(f"no price is quoted: {answer}")
    for path, name in (("/v1/accounts", "accounts"), ("/v1/runs", "runs"), ("/v1/jobs", "jobs")):
        if not asking.document(path)[name]:
            raise PodmanError(f"{path} has no {name}")
    if asking.document("/v1/tariffs")["tariffs"]:
        raise PodmanError("a tariff is listed, and none was declared")


def require_names(asking: Asking) -> None:
    """Raise PodmanError unless a caller without a token is refused, and learns where to get one."""
    status, found = asking.ask("/v1/jobs")
    if status != HTTPStatus.UNAUTHORIZED:
        raise PodmanError(f"a caller without a token is answered by {status}: {found}")
    asking.document("/v1/issuer")


def _charged(asking: Asking) -> set[str]:
    """The jobs that have a charge, over all pages."""
    found, token = set[str](), ""
    while True:
        page = asking.document(f"/v1/charges?pageSize={_PAGE}&pageToken={token}")
        found |= {charge["jobId"] for charge in page["charges"]}
        if not (token := page["nextPageToken"]):
            return found


def _until(ask: Callable[[], set[str]], is_whole: Callable[[set[str]], bool]) -> set[str]:
    """What is answered once it is whole, or time is up: the history follows topics."""
    deadline_s = time.monotonic() + _WITHIN_S
    while True:
        try:
            if is_whole(found := ask()) or time.monotonic() > deadline_s:
                return found
        except (PodmanError, URLError):
            if time.monotonic() > deadline_s:
                raise
        time.sleep(_POLL_S)
