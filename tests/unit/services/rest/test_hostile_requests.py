"""A small form of the attack that `make fuzz-rest` plays at length."""

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from services.rest.openapi import document
from services.rest.routes import routes
from tests.attacks.rest import Attacker, play
from tests.unit.services.rest.served import Region, rest_over


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_request_ends_a_process_or_is_answered_without_words(seed: int) -> None:
    answers, wrong = await play(seed, 300)
    assert wrong == []
    assert sum(answers.values()) == 300
    assert {200, 202, 400, 404, 405} <= answers.keys()


async def test_a_body_that_breaks_http_is_no_bug_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    torn = b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    async with rest_over(Region()) as client:
        with capture_logs() as logs:
            assert (await client.raw(torn, closes=True)).status == 400
            assert (await client.get("/v1/clusters")).status in (200, 503)
    assert [each for each in logs if each["log_level"] == "error"] == []
    assert "Exception in ASGI application" not in caplog.text


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("/v1/jobs", "text/plain", 415),
        ("/v1/jobs", "application/json", 400),
        ("/v1/nothing", "application/json", 404),
        ("/v1/clusters", "application/json", 405),
    ],
)
async def test_a_body_that_was_sent_is_answered_however_it_is_refused(
    path: str, kind: str, status: int
) -> None:
    body = b"[" + b" " * 3_000_000 + b"]"
    async with rest_over(Region(), body_within_s=0.2) as client:
        for _ in range(5):
            # What has arrived while the process was busy has arrived in time.
            asyncio.get_running_loop().call_later(0.002, time.sleep, 0.3)
            answer = await client.send("POST", path, body, Content_Type=kind)
            assert answer.status == status


def test_equal_seeds_draw_equal_requests() -> None:
    described = document(routes())
    first, again, other = (list(Attacker(seed, described).requests(50)) for seed in (1, 1, 2))
    assert first == again != other
