"""An API server is asked over HTTP: pages, watches, and what its answers mean."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from shared.kubernetes import reflector
from shared.kubernetes.access import ApiAccess, FixedCredentials, trusting_all
from shared.kubernetes.api import (
    ApiConflictError,
    ApiMissingError,
    ApiRefusedError,
    ApiServer,
    ApiUnavailableError,
    WatchExpiredError,
)
from shared.kubernetes.connection import ApiConnection
from shared.kubernetes.reflector import WatchMeter, reflect

JOBS = "/apis/batch/v1/jobs"
RECORDS = "/apis/coplace.io/v1/jobrecords"
JOB = "/apis/batch/v1/namespaces/physics/jobs/lu"


def to(server: str) -> ApiAccess:
    return ApiAccess(server, trusting_all(), FixedCredentials("Bearer token"))


class PlayedServer:
    """Gives the set answers, and notes what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, list[Mapping[str, Any]]]] = []
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.refused: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        query = dict(request.query)
        self.asked.append((request.method, request.path, query, orjson.loads(body or b"null")))
        if not self.answers:
            await asyncio.sleep(60)
        status, lines = self.answers.pop(0)
        return web.Response(status=status, body=b"\n".join(map(orjson.dumps, lines)) + b"\n")


@pytest.fixture
async def played() -> AsyncIterator[tuple[PlayedServer, ApiServer]]:
    """A server and who asks it."""
    server, app = PlayedServer(), web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(app) as http:
        url = str(http.make_url("")).rstrip("/")
        async with ApiConnection(to(url)) as client:
            yield server, ApiServer("alpha", client, server.refused.append)


def named(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


async def test_a_list_has_all_pages_and_the_version_of_the_last(
    played: tuple[PlayedServer, ApiServer],
) -> None:
    server, api = played
    first = {"items": [named("a", "1")], "metadata": {"resourceVersion": "9", "continue": "more"}}
    last = {"items": [named("b", "2")], "metadata": {"resourceVersion": "9"}}
    server.answers = [(200, [first]), (200, [last])]
    items, version = await api.list(JOBS, "x=y")
    assert [each["metadata"]["name"] for each in items] == ["a", "b"]
    assert version == "9"
    assert server.asked[1][2]["continue"] == "more"
    assert server.asked[1][2]["labelSelector"] == "x=y"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((404, ApiMissingError), (409, ApiConflictError), (422, ApiRefusedError)),
        *((403, ApiRefusedError), (429, ApiUnavailableError), (500, ApiUnavailableError)),
        *((401, ApiUnavailableError), (410, WatchExpiredError)),
    ],
)
async def test_an_answer_says_whether_to_try_again(
    played: tuple[PlayedServer, ApiServer], status: int, error: type[Exception]
) -> None:
    server, api = played
    server.answers = [(status, [{"message": "because"}])]
    with pytest.raises(error, match="because"):
        await api.merge(JOB, {"metadata": {}})
    assert server.refused == (["alpha"] if error is ApiRefusedError else [])
    assert server.asked[0][:2] == ("PATCH", JOB)


async def test_a_status_is_applied_by_its_manager(played: tuple[PlayedServer, ApiServer]) -> None:
    server, api = played
    server.answers = [(200, [{"metadata": {}}])]
    await api.apply_status(JOB, {"status": {}}, "coplace")
    query = {"fieldManager": "coplace", "force": "true"}
    assert server.asked == [("PATCH", f"{JOB}/status", query, {"status": {}})]


async def test_a_server_that_is_removed_is_tried_again() -> None:
    async with ApiConnection(to("http://127.0.0.1:1")) as client:
        with pytest.raises(ApiUnavailableError, match=r"^alpha: "):
            await ApiServer("alpha", client).read(JOB)


class Notes:
    """What a watcher got."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.enough = asyncio.Event()

    def replace(self, cluster: str, found: list[Mapping[str, Any]]) -> None:
        self.told.append(("all", [each["metadata"]["name"] for each in found]))

    def changed(self, cluster: str, found: Mapping[str, Any]) -> None:
        self.told.append(("changed", [found["metadata"]["name"]]))

    def deleted(self, cluster: str, found: Mapping[str, Any]) -> None:
        self.told.append(("deleted", [found["metadata"]["name"]]))
        self.enough.set()


class Counted(WatchMeter):
    """How often an API server was heard, and how often there was a gap."""

    def __init__(self) -> None:
        self.heard_of, self.gaps = 0, 0

    def heard(self, cluster: str, path: str) -> None:
        self.heard_of += 1

    def listed_anew(self, cluster: str, path: str) -> None:
        self.gaps += 1


async def test_a_watch_goes_on_after_a_cut_and_lists_anew_after_a_gap(
    played: tuple[PlayedServer, ApiServer],
) -> None:
    server, api = played
    page = {"items": [named("a", "1")], "metadata": {"resourceVersion": "5"}}
    bookmark = {"type": "BOOKMARK", "object": named("", "8")}
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    again = {"items": [named("b", "9")], "metadata": {"resourceVersion": "10"}}
    server.answers = [
        (200, [page]),
        (200, [{"type": "ADDED", "object": named("b", "7")}, bookmark]),
        (200, [gone]),
        (200, [again]),
        (200, [{"type": "DELETED", "object": named("b", "11")}]),
    ]
    notes, listed, counted = Notes(), asyncio.Event(), Counted()
    following = asyncio.create_task(reflect(api, JOBS, "", notes, listed.set, counted))  # type: ignore[arg-type]
    await asyncio.wait_for(notes.enough.wait(), 10)
    following.cancel()
    assert notes.told == [
        ("all", ["a"]),
        ("changed", ["b"]),
        ("all", ["b"]),
        ("deleted", ["b"]),
    ]
    assert (counted.heard_of, counted.gaps) == (5, 1)
    versions = [query.get("resourceVersion") for _, _, query, _ in server.asked]
    assert versions[:5] == [None, "5", "8", None, "10"]


async def test_a_kind_that_is_not_installed_is_named_and_waited_for(
    played: tuple[PlayedServer, ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "_RETRY_S", 0)
    server, api = played
    empty = {"items": [], "metadata": {"resourceVersion": "9"}}
    server.answers = [(404, [{"message": "no such resource"}]), (200, [empty])]
    listed = asyncio.Event()
    with capture_logs() as logs:
        following = asyncio.create_task(
            reflect(api, RECORDS, "", Notes(), listed.set, if_missing="apply jobrecords.yaml")  # type: ignore[arg-type]
        )
        await asyncio.wait_for(listed.wait(), 5)
    following.cancel()
    [named] = [each for each in logs if each["log_level"] == "error"]
    assert "jobrecords" in named["path"]
    assert named["advice"] == "apply jobrecords.yaml"


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_server_is_reached_by_the_proxy_of_the_environment_unless_that_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, *, is_named: bool
) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"by": request.headers["Host"]})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as proxy:
        monkeypatch.setenv("http_proxy", str(proxy.make_url("")))
        monkeypatch.setenv("no_proxy", "" if is_named else "127.0.0.2")
        async with ApiConnection(to("http://127.0.0.2:1")) as client:
            api = ApiServer("alpha", client)
            if is_named:
                assert await api.read(JOB) == {"by": "127.0.0.2:1"}
            else:
                with pytest.raises(ApiUnavailableError):
                    await api.read(JOB)
