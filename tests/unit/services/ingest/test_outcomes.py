"""Callers ask what came of a command, and may wait for it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_IN_FORCE,
    COMMAND_RESULT_REFUSED,
    CommandOutcome,
    CommandResult,
)
from coplace.v1.ingest_service_pb2 import ShowOutcomeRequest, ShowOutcomeResponse
from coplace.v1.ingest_service_pb2_grpc import IngestServiceStub
from opentelemetry.metrics import NoOpMeter

from services.ingest import service as services
from services.ingest.meter import IngestMeter
from services.ingest.model import Intake
from services.ingest.outcomes import KnownOutcomes
from services.ingest.service import IngestService
from shared.catalogue.event import Event
from shared.catalogue.topics import Topics
from tests.unit.services.calls import refusal, served
from tests.unit.services.ingest.test_service import Broker


def told(command_id: str, result: CommandResult.ValueType, reason: str = "") -> Event:
    outcome = CommandOutcome(
        command_id=command_id, command_source="olga", result=result, reason=reason
    )
    return Event(f"placement/{command_id}/{result}", "placement", 1, command_id, outcome)


@dataclass
class Asked:
    """What the service answers to the questions of callers."""

    known: KnownOutcomes = field(default_factory=KnownOutcomes)

    async def __call__(self, *requests: ShowOutcomeRequest) -> list[ShowOutcomeResponse]:
        broker, meter = Broker(), IngestMeter(NoOpMeter("test"))
        intake = Intake(Topics())
        serving = IngestService(intake, broker, meter, print, outcomes=self.known)
        async with served(serving.handlers()) as channel:
            stub = IngestServiceStub(channel)
            return list(await asyncio.gather(*map(stub.ShowOutcome, requests)))


async def test_what_is_known_is_told_and_of_copies_the_first() -> None:
    asked = Asked()
    asked.known.fold(told("a", COMMAND_RESULT_IN_FORCE))
    asked.known.fold(told("a", COMMAND_RESULT_REFUSED, "overtaken: a copy"))
    asked.known.fold(told("b", COMMAND_RESULT_EARLY, "who is it"))
    requests = [ShowOutcomeRequest(event_id=name) for name in ("a", "b", "c")]
    a, b, c = await asked(*requests)
    assert a.outcome.result == COMMAND_RESULT_IN_FORCE
    assert (b.outcome.result, b.outcome.reason) == (COMMAND_RESULT_EARLY, "who is it")
    assert not c.HasField("outcome")


async def test_who_waits_is_told_when_the_owner_has_spoken() -> None:
    known = KnownOutcomes()
    waiting = asyncio.ensure_future(known.of("a", 30.0))
    known.fold(told("a", COMMAND_RESULT_EARLY))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    known.fold(told("a", COMMAND_RESULT_REFUSED, "no"))
    found = await waiting
    assert found is not None
    assert found.reason == "no"
    assert await known.of("b", 0.01) is None


async def test_neither_outcomes_nor_those_who_wait_for_them_take_all_there_is() -> None:
    known = KnownOutcomes(most=3, most_waiting=1)
    waiting = asyncio.ensure_future(known.of("w", 30.0))
    await asyncio.sleep(0)
    assert await known.of("x", 30.0) is None  # at once
    for number in range(9):
        known.fold(told(f"c{number}", COMMAND_RESULT_IN_FORCE))
    assert await known.of("c5", 0.0) is None
    assert await known.of("c6", 0.0) is not None
    waiting.cancel()
    await asyncio.wait([waiting])
    again = asyncio.ensure_future(known.of("y", 30.0))
    await asyncio.sleep(0)
    known.fold(told("y", COMMAND_RESULT_IN_FORCE))
    assert await again is not None


async def test_nobody_is_told_what_came_of_somebody_elses_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Asked()
    asked.known.fold(told("a", COMMAND_RESULT_IN_FORCE))
    for who, is_told in (("olga", True), ("north", False), ("olg", False)):
        monkeypatch.setattr(services, "callers", lambda _context, who=who: [who])
        [answer] = await asked(ShowOutcomeRequest(event_id="a"))
        assert answer.HasField("outcome") is is_told


async def test_a_wait_that_is_too_long_and_no_message_are_refused() -> None:
    meter = IngestMeter(NoOpMeter("test"))
    serving = IngestService(Intake(Topics()), Broker(), meter, print, outcomes=KnownOutcomes())
    async with served(serving.handlers()) as channel:
        stub = IngestServiceStub(channel)
        for within_s in (-1.0, 61.0, float("nan"), float("inf")):
            asked = ShowOutcomeRequest(event_id="a", within_s=within_s)
            code, why = await refusal(stub.ShowOutcome(asked))
            assert (code, why[:9]) == (grpc.StatusCode.INVALID_ARGUMENT, "within_s:")
        call: Any = channel.unary_unary("/coplace.v1.IngestService/ShowOutcome")
        code, _ = await refusal(call(b"\xff"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
