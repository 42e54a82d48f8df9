"""What a process shows of itself: metrics, traces, health and logs."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
import structlog
from coplace.v1.jobs_pb2 import JobRequeued

from coplace_client import health
from coplace_client.health import JointReadiness, Readiness, http_server
from shared.catalogue.event import Event
from shared.catalogue.trace import job_traceparent
from shared.domain.rounds import RoundSource
from shared.process.logging import configure_logging
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry, exposition
from shared.streams.stages.hooks import Tally
from shared.streams.telemetry import hooks_of

EVENT = Event("id", "north", 0, "s/c/1/0", JobRequeued(), job_traceparent("s/c/1/0"))


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """Undo what a test does to the process's logs."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers, root.level = before[0], before[1]
    structlog.reset_defaults()


@asynccontextmanager
async def served(readiness: Readiness) -> AsyncIterator[tuple[int, Telemetry]]:
    """The port of a process's HTTP server."""
    telemetry = Telemetry("pricing", Settings())
    shown = partial(exposition, {"pricing": telemetry})
    async with http_server("127.0.0.1", 0, readiness, shown) as port:
        yield port, telemetry
    telemetry.close()


async def _asked(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and text of a page."""

    def ask() -> tuple[int, str]:
        client = HTTPConnection("127.0.0.1", port, timeout=10.0)
        client.request(method, path)
        answer = client.getresponse()
        return answer.status, answer.read().decode()

    return await asyncio.to_thread(ask)


async def _said(port: int, words: bytes) -> bytes:
    """Everything that is answered until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    heard = await reader.read()
    writer.close()
    return heard


async def test_a_process_is_alive_before_it_is_ready_and_says_what_it_waits_for() -> None:
    readiness = Readiness()
    async with served(readiness) as (port, _):
        assert await _asked(port, "/healthz") == (200, "alive\n")
        readiness.wait_for("topics jobs.events")
        assert await _asked(port, "/readyz") == (503, "waiting for topics jobs.events\n")
        readiness.ready()
        assert await _asked(port, "/readyz?by=hand") == (200, "ready\n")
        readiness.alarm = "the wall clock is off"
        assert await _asked(port, "/readyz") == (200, "ready, but the wall clock is off\n")


async def test_a_head_is_asked_for_alone_and_what_is_no_page_is_reported_so() -> None:
    async with served(Readiness()) as (port, _):
        assert await _asked(port, "/healthz", "HEAD") == (200, "")
        assert (await _asked(port, "/healthz", "POST"))[0] == 501
        assert await _asked(port, "/") == (404, "")


@pytest.mark.parametrize("words", [b"\xff\x00 /healthz\r\n\r\n", b"GET\r\n\r\n"])
async def test_what_is_no_request_is_refused(words: bytes) -> None:
    async with served(Readiness()) as (port, _):
        assert b"400" in await _said(port, words)


async def test_who_says_nothing_is_hung_up_on_while_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "_PATIENCE_S", 0.2)
    async with served(Readiness()) as (port, _):
        silent = asyncio.create_task(_said(port, b"GET /healthz HTTP/1.1\r\n"))
        assert await _asked(port, "/healthz") == (200, "alive\n")
        assert await silent == b""


async def test_a_process_that_stops_does_not_say_that_it_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "_PATIENCE_S", 0.2)
    async with served(Readiness()) as (port, _):
        asked = asyncio.create_task(_asked(port, "/healthz"))
        await asyncio.sleep(0)
        time.sleep(1.0)  # noqa: ASYNC251 it is stuck
        assert await asked == (503, "the process is stuck\n")


async def test_batches_are_counted_by_stage_and_unit() -> None:
    async with served(Readiness()) as (port, telemetry):
        meter = hooks_of(telemetry).meter
        meter.batch("pricing", 3, Tally(records_in=5, dead_letters=2), 0.004)
        meter.batch("pricing", 3, Tally(records_in=1), 0.004)
        _, text = await _asked(port, "/metrics")
    assert 'coplace_records_in_total{stage="pricing",unit="3"} 6.0' in text
    assert 'coplace_dead_letters_total{stage="pricing",unit="3"} 2.0' in text
    assert 'coplace_batch_duration_seconds_bucket{le="0.005",stage="pricing",unit="3"} 2.0' in text


def test_services_that_share_a_process_have_metrics_by_their_names() -> None:
    services = {name: Telemetry(name, Settings()) for name in ("energy", "pricing")}
    for number, telemetry in enumerate(services.values(), 1):
        hooks_of(telemetry).meter.batch("stage", 0, Tally(records_in=number), 0.004)
    lines = exposition(services).decode().splitlines()
    for telemetry in services.values():
        telemetry.close()
    wanted = 'coplace_records_in_total{service="%s",stage="stage",unit="0"} %s'
    assert {wanted % ("energy", "1.0"), wanted % ("pricing", "2.0")} <= set(lines)
    kinds = [line for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))
    assert sum(line.startswith("process_cpu_seconds_total") for line in lines) == 1


async def test_a_server_that_nobody_connects_to_ends_at_once() -> None:
    began_s = time.monotonic()
    async with served(Readiness()):
        pass
    assert time.monotonic() - began_s < 5.0


async def test_services_that_share_a_process_are_ready_once_all_are() -> None:
    energy, pricing = Readiness(), Readiness()
    pricing.wait_for("topics jobs.events")
    joint = JointReadiness({"energy": energy, "pricing": pricing})
    assert joint.waiting_for == "energy: start-up; pricing: topics jobs.events"
    energy.ready()
    assert joint.waiting_for == "pricing: topics jobs.events"
    pricing.ready()
    assert joint.waiting_for == ""
    pricing.refuse("Kafka was replaced")
    assert joint.waiting_for == "pricing: an operator: Kafka was replaced"


def test_a_span_file_holds_one_trace_from_event_to_event(tmp_path: Path) -> None:
    file = tmp_path / "spans" / "trace.jsonl"
    telemetry = Telemetry("pricing", Settings(trace_file=file))
    stamper = hooks_of(telemetry).stamper
    first = stamper.stamp("ingest", EVENT)
    second = stamper.stamp("pricing", first)
    telemetry.close()
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    trace_id = "0x" + EVENT.traceparent.split("-")[1]
    assert [span["context"]["trace_id"] for span in spans] == [trace_id, trace_id]
    assert [span["name"] for span in spans] == ["ingest publish", "pricing publish"]
    assert spans[1]["parent_id"] == spans[0]["context"]["span_id"]
    assert spans[1]["context"]["span_id"][2:] == second.traceparent.split("-")[2]
    assert spans[0]["resource"]["attributes"]["service.name"] == "pricing"


def spans_of(event: Event, file: Path, rounds: RoundSource) -> Iterator[float]:
    """How long the spans are (s) that this event is published with."""
    telemetry = Telemetry("ingest", Settings(trace_file=file, rounds=rounds))
    hooks_of(telemetry).stamper.stamp("ingest", event)
    telemetry.close()
    for line in file.read_text().splitlines():
        begin, end = (json.loads(line)[name] for name in ("start_time", "end_time"))
        yield (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def test_a_span_is_as_long_as_the_region_did_not_know_what_happened(tmp_path: Path) -> None:
    now_us = time.time_ns() // 1000
    for ago_s, rounds, length_s in (
        (5, RoundSource.CLOCK, 5.0),
        (-60, RoundSource.CLOCK, 0.0),
        (5, RoundSource.BARRIERS, 0.0),
    ):
        event = replace(EVENT, time_us=now_us - ago_s * 1_000_000)
        [found_s] = spans_of(event, tmp_path / f"{ago_s}-{rounds}", rounds)
        assert length_s <= found_s < length_s + 4


def test_without_a_place_for_traces_events_keep_theirs() -> None:
    telemetry = Telemetry("pricing", Settings())
    assert hooks_of(telemetry).stamper.stamp("pricing", EVENT) == EVENT
    telemetry.close()


def test_an_event_without_a_trace_begins_none(tmp_path: Path) -> None:
    telemetry = Telemetry("pricing", Settings(trace_file=tmp_path / "trace.jsonl"))
    untraced = EVENT.traced("")
    assert hooks_of(telemetry).stamper.stamp("pricing", untraced) == untraced
    telemetry.close()


@pytest.mark.usefixtures("logs_as_before")
def test_logs_are_json_lines_with_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("pricing", "info")
    structlog.get_logger("a").info("charged", jobs=3)
    logging.getLogger("library").warning("odd %s", "thing")
    logging.getLogger("aiokafka.consumer").info("chatter")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["service"], line["level"]) for line in lines] == [
        ("charged", "pricing", "info"),
        ("odd thing", "pricing", "warning"),
    ]
    assert lines[0]["jobs"] == 3


@pytest.mark.usefixtures("logs_as_before")
def test_a_logged_error_shows_no_local_variables(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("pricing", "info")
    password = "hunter" + "2"
    try:
        raise ConnectionError("no broker")
    except ConnectionError:
        structlog.get_logger("a").exception("failed")
    said = capsys.readouterr().out
    assert "no broker" in said
    assert password not in said
