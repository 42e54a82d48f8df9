"""Explain over a real channel, beside a processor that the test plays rounds of."""

import asyncio
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from coplace.v1.jobs_pb2 import JobSubmitted, Part
from coplace.v1.placement_service_pb2 import (
    JOB_STANDING_RESERVED,
    ExplainRequest,
    ExplainResponse,
    Forecast,
    ListJobsRequest,
    QuoteRequest,
    QuoteResponse,
)
from coplace.v1.placement_service_pb2_grpc import PlacementServiceStub

from services.placement.app import stages
from services.placement.service import Duty, PlacementService
from shared.domain.eamc_policy import Policy
from shared.placement.processor.placement import Placement
from shared.pricing.terms import PriceTerms
from shared.process.settings import Settings
from tests.unit.services.calls import refusal, served
from tests.unit.shared.placement.region import (
    T0_US,
    end_us,
    finished,
    held,
    placement,
    round_of,
    submitted,
)

if TYPE_CHECKING:
    from coplace.v1.placement_service_pb2_grpc import PlacementServiceAsyncStub

_HOUR_US = 3_600_000_000


def serving(duty: Duty, most_foreseen: int = 100) -> AbstractAsyncContextManager[grpc.aio.Channel]:
    return served(PlacementService(duty, most_foreseen, PriceTerms(Decimal(1))).handlers())


async def ask(channel: grpc.aio.Channel, job_id: str) -> ExplainResponse:
    stub: PlacementServiceAsyncStub = PlacementServiceStub(channel)
    return await stub.Explain(ExplainRequest(job_id=job_id), timeout=10)


def on_duty(processor: Placement) -> Duty:
    duty = Duty()
    duty.begin(processor.queries)
    return duty


@pytest.fixture
def processor() -> Placement:
    """Job a has all four nodes of p1 for an hour; b, c and d wait for them."""
    found = placement(policy=Policy.BASE)
    round_of(found, 0, *(submitted(name, T0_US + n, nodes=4) for n, name in enumerate("abcd")))
    return found


async def test_a_waiting_job_has_why_and_when_it_is_expected(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        answer = await ask(channel, "b")
    assert (answer.standing, answer.reason) == (JOB_STANDING_RESERVED, "p1: needs 4 nodes, 0 free")
    start_us = end_us(0) + _HOUR_US
    assert answer.forecast == Forecast(
        cluster="p1", start_at_us=start_us, made_at_us=end_us(0), jobs_before=0
    )


async def test_many_who_ask_at_once_are_all_answered(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        answers = await asyncio.gather(*(ask(channel, job_id) for job_id in "bcd" * 10))
    starts_us = [answer.forecast.start_at_us for answer in answers[:3]]
    assert starts_us == [end_us(0) + hours * _HOUR_US for hours in (1, 2, 3)]
    assert [answer.forecast.jobs_before for answer in answers[:3]] == [0, 1, 2]


async def test_a_list_has_when_its_jobs_are_expected_where_that_is_asked_for(
    processor: Placement,
) -> None:
    async with serving(on_duty(processor)) as channel:
        stub: Any = PlacementServiceStub(channel)
        answers = [
            await stub.ListJobs(ListJobsRequest(page_size=3, with_forecasts=each))
            for each in (True, False)
        ]
        first, second = await ask(channel, "b"), await ask(channel, "c")
    [runs, *wait] = answers[0].jobs
    assert (runs.job_id, runs.HasField("forecast")) == ("a", False)
    assert [job.forecast for job in wait] == [first.forecast, second.forecast]
    assert not any(job.HasField("forecast") for job in answers[1].jobs)


async def test_a_start_beyond_what_is_expected_has_a_bound_and_no_cluster(
    processor: Placement,
) -> None:
    async with serving(on_duty(processor), most_foreseen=1) as channel:
        answer = await ask(channel, "d")
    assert (answer.forecast.cluster, answer.forecast.start_at_us) == ("", end_us(0) + _HOUR_US)


async def test_a_job_that_begins_later_is_expected_not_before(processor: Placement) -> None:
    begin_us = end_us(0) + _HOUR_US
    round_of(processor, 1, submitted("later", begin_at_us=begin_us))
    async with serving(on_duty(processor)) as channel:
        answer = await ask(channel, "later")
    assert answer.forecast == Forecast(start_at_us=begin_us, made_at_us=end_us(1))


async def test_a_job_that_came_after_the_last_forecast_gets_one_of_its_own(
    processor: Placement,
) -> None:
    async with serving(on_duty(processor)) as channel:
        await ask(channel, "d")
        late = submitted("e", T0_US + 9, nodes=4)
        processor.handle(late)
        assert not (await ask(channel, "e")).HasField("forecast")
        round_of(processor, 1)
        answer = await ask(channel, "e")
    assert answer.forecast.made_at_us == end_us(1)
    assert answer.forecast.start_at_us == end_us(0) + 4 * _HOUR_US


async def test_a_stale_forecast_is_not_published_again(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        await ask(channel, "d")
        round_of(processor, 1, finished("a", end_us(0)))
        answer = await ask(channel, "d")
    assert answer.forecast.start_at_us == end_us(1) + 2 * _HOUR_US


async def test_what_does_not_wait_in_a_queue_has_no_forecast(processor: Placement) -> None:
    round_of(processor, 1, held("b", end_us(0)))
    async with serving(on_duty(processor)) as channel:
        assert not (await ask(channel, "a")).HasField("forecast")
        assert not (await ask(channel, "b")).HasField("forecast")


async def test_an_unknown_job_is_not_found_and_its_asker_is_answered_what_to_do(
    processor: Placement,
) -> None:
    async with serving(on_duty(processor)) as channel:
        code, why = await refusal(ask(channel, "4711"))
    assert code is grpc.StatusCode.NOT_FOUND
    assert "'4711' is not known" in why
    assert "{site}/{cluster}/{local id}/{submit time}" in why


async def test_a_standby_says_that_it_is_one(processor: Placement) -> None:
    duty = on_duty(processor)
    duty.end()
    async with serving(duty) as channel:
        code, why = await refusal(ask(channel, "b"))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "is a standby" in why


async def test_what_is_no_protobuf_is_refused(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        method = "/coplace.v1.PlacementService/Explain"
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        code, _ = await refusal(call(b"\xff\xff", timeout=10))
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_who_owns_the_unit_is_on_duty_until_it_gives_it_up() -> None:
    duty = Duty()
    _, stage = stages(Settings(), duty=duty)
    assert duty.queries is None
    processor = stage.create(0, {})
    assert isinstance(processor, Placement)
    assert duty.queries is processor.queries
    stage.given_up(0)
    assert duty.queries is None


async def quote(channel: grpc.aio.Channel, **changes: Any) -> QuoteResponse:
    job = submitted("quote", T0_US, **changes).payload
    assert isinstance(job, JobSubmitted)
    stub: PlacementServiceAsyncStub = PlacementServiceStub(channel)
    return await stub.Quote(QuoteRequest(job=job), timeout=10)


async def test_a_job_that_is_not_submitted_is_quoted_and_not_kept(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        answer = await quote(channel, nodes=4)
        exclusive, shared = answer.placements
        assert (answer.as_of_us, answer.past_jobs) == (end_us(0), 0)
        assert not exclusive.shareable
        assert exclusive.wait_s.high == 4 * 3600
        assert shared.shareable
        code, _ = await refusal(ask(channel, "quote"))
    assert code is grpc.StatusCode.NOT_FOUND


async def test_a_gang_is_quoted_nodes_of_its_own(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        answer = await quote(channel, nodes=2, parts=[Part(units=1), Part(units=1)])
    assert [placed.shareable for placed in answer.placements] == [False]


async def test_a_quote_is_refused_what_ingest_would_refuse(processor: Placement) -> None:
    async with serving(on_duty(processor)) as channel:
        code, why = await refusal(quote(channel, walltime_s=-1))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "walltime_s" in why


async def test_nothing_is_quoted_before_a_round_has_ended() -> None:
    async with serving(on_duty(placement())) as channel:
        code, _ = await refusal(quote(channel))
    assert code is grpc.StatusCode.UNAVAILABLE
