"""What Alertmanager posts, to who hears of alerts."""

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient as Client
from aiohttp.test_utils import TestServer as Server

from coplace_client.errors import RejectedError
from services.webhooks.alerts import AlertInbox, alerts_app, parse_alerts
from tests.unit.services.webhooks.made import LIMITS, World

# As its documentation has it: https://prometheus.io/docs/alerting/latest/configuration/
POSTED: dict[str, Any] = {
    "version": "4",
    "groupKey": '{}:{alertname="CoplaceNotReady"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "coplace",
    "groupLabels": {"alertname": "CoplaceNotReady"},
    "commonLabels": {"severity": "page"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager:9093",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "CoplaceNotReady", "service": "pricing"},
            "annotations": {"summary": "A process of pricing waits for something"},
            "startsAt": "2026-01-01T00:00:00.123Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus:9090/graph",
            "fingerprint": "c6eb5b1f7b2b0a6c",
        }
    ],
}
_TOKEN = {"authorization": "Bearer right"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.add("ops", region=True, who="olga")
    found.add("others", region=True, who="olga", types=["job.ended"])
    found.add("own", user="ada")
    return found


def inbox(world: World) -> AlertInbox:
    return AlertInbox(world.database, LIMITS, world.now_us, lambda _alerts: None)


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client[Any, Any]]:
    async with Client(Server(alerts_app(inbox(world), lambda: "right"))) as found:
        yield found


def resolved() -> dict[str, Any]:
    found = copy.deepcopy(POSTED)
    found["alerts"][0] |= {"status": "resolved", "endsAt": "2026-01-01T00:10:00Z"}
    return found


async def test_an_alert_goes_to_who_hears_of_alerts(world: World, client: Client[Any, Any]) -> None:
    answer = await client.post("/alerts", json=POSTED, headers=_TOKEN)
    assert (answer.status, await answer.json()) == (200, {"alerts": 1})
    [row] = world.rows()
    assert (row.webhook_id, row.type) == ("ops", "alert")
    body = orjson.loads(row.body)
    assert body["timestamp"] == "2026-01-01T00:00:00.123000Z"
    assert body["data"]["labels"] == {"alertname": "CoplaceNotReady", "service": "pricing"}
    assert body["data"]["endsAtUs"] == "0"


async def test_an_alert_is_one_event_however_often_it_is_posted(
    world: World, client: Client[Any, Any]
) -> None:
    for document in (POSTED, POSTED, resolved(), resolved()):
        await client.post("/alerts", json=document, headers=_TOKEN)
    assert [orjson.loads(row.body)["data"]["status"] for row in world.rows()] in (
        ["firing", "resolved"],
        ["resolved", "firing"],
    )


@pytest.mark.parametrize(
    "shown", ["", "Bearer wrong", "Basic right", "right", "Bearer", "Bearer é"]
)
async def test_who_shows_another_token_is_turned_away(
    world: World, client: Client[Any, Any], shown: str
) -> None:
    answer = await client.post("/alerts", json=POSTED, headers={"authorization": shown})
    assert answer.status == 401
    assert "COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE" in await answer.text()
    assert world.rows() == []


@pytest.mark.parametrize("shown", ["Bearer ", "Bearer", ""])
async def test_a_token_file_that_was_emptied_lets_nobody_in(world: World, shown: str) -> None:
    async with Client(Server(alerts_app(inbox(world), lambda: ""))) as client:
        answer = await client.post("/alerts", json=POSTED, headers={"authorization": shown})
    assert answer.status == 401
    assert world.rows() == []


async def test_too_large_a_body_is_not_read(world: World, client: Client[Any, Any]) -> None:
    answer = await client.post("/alerts", data=b"x" * (5 * 2**20), headers=_TOKEN)
    assert answer.status == 413
    assert (await client.get("/alerts", headers=_TOKEN)).status == 405
    assert (await client.post("/other", headers=_TOKEN)).status == 404
    assert world.rows() == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda found: found.pop("alerts"), "alerts: must be a list"),
        (lambda found: found.update(alerts=[1]), r"alerts\[0\]: must be an object"),
        (lambda found: found["alerts"][0].update(status="lit"), r"alerts\[0\].status"),
        (lambda found: found["alerts"][0].update(startsAt="soon"), r"alerts\[0\].startsAt"),
        (lambda found: found["alerts"][0].update(startsAt="0001-01-01T00:00:00Z"), "1970"),
        (lambda found: found["alerts"][0].update(labels={"a": 1}), r"alerts\[0\].labels"),
        (lambda found: found["alerts"][0].update(fingerprint=""), "fingerprint"),
        (lambda found: found["alerts"][0].update(generatorURL=[]), "generatorURL"),
    ],
)
async def test_what_is_no_alert_is_refused_by_its_field(
    client: Client[Any, Any], change: Any, problem: str
) -> None:
    found = copy.deepcopy(POSTED)
    change(found)
    with pytest.raises(RejectedError, match=problem):
        list(parse_alerts(json.dumps(found).encode()))
    answer = await client.post("/alerts", json=found, headers=_TOKEN)
    assert answer.status == 400


def test_a_body_with_one_wrong_alert_is_taken_as_a_whole_or_not(world: World) -> None:
    found = copy.deepcopy(POSTED)
    found["alerts"].append({"status": "lit"})
    with pytest.raises(RejectedError):
        inbox(world).take(json.dumps(found).encode())
    assert world.rows() == []
