"""The gRPC service: answers what is asked of jobs, beside the decisions.

An error in an answer does not end the process, as it would elsewhere: a question changes nothing,
so what is decided stays sound, and asking must not stop it.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from coplace.v1.placement_pb2 import CONSTRAINT_KIND_BEGIN, CONSTRAINT_KIND_DEPENDENCY
from coplace.v1.placement_service_pb2 import (
    ExplainRequest,
    ExplainResponse,
    Forecast,
    ListClustersResponse,
    ListJobsRequest,
    ListJobsResponse,
    ListLicencesRequest,
    ListLicencesResponse,
    ListLimitsRequest,
    ListLimitsResponse,
    ListReservationsRequest,
    ListReservationsResponse,
    ListTariffsResponse,
    QuotedPlacement,
    QuoteRequest,
    QuoteResponse,
    ShowNodesRequest,
    ShowNodesResponse,
    ShowPolicyResponse,
    ShowPowerResponse,
)
from google.protobuf.message import DecodeError, Message
from grpc.aio import ServicerContext

from coplace_client.errors import RejectedError
from shared.authority.door import Door
from shared.authority.rules import About
from shared.catalogue.contents.check import check_all_contents
from shared.catalogue.payloads.domain_types import dependencies_of, job_of
from shared.domain.tariff import PriceTariff, RateScope
from shared.placement.explain.queries import Queries
from shared.placement.explain.quoting import QuotedJob, quoted_placement
from shared.placement.explain.start_estimates import StartEstimate, StartEstimates
from shared.pricing.quotation import Quotation
from shared.pricing.terms import PriceTerms, QuoteTerms
from shared.process.grpc_calls import refuses
from shared.process.grpc_errors import RefusalReason, RefusedCallError

NAME: Final = "coplace.v1.PlacementService"
# Questions that wait for forecasts; more are refused for now.
MOST_QUESTIONS: Final = 64
# A question is answered without its forecast when rounds leave no time for one, s.
_PATIENCE_S: Final = 20.0
_GIVES_WAY_S: Final = 0.002
# A time at which a job may start is known.
_TIMED: Final = (CONSTRAINT_KIND_BEGIN, CONSTRAINT_KIND_DEPENDENCY)
# A forecast serves later questions for a while: in an event time of rounds, s.
_FRESH_S: Final = 5.0
_Request = TypeVar("_Request", bound=Message)


class Duty:
    """Which processor decides here, if any: a standby has none."""

    def __init__(self) -> None:
        self.queries: Queries | None = None

    def begin(self, queries: Queries) -> None:
        """Note that this process decides from now on."""
        self.queries = queries

    def end(self, _unit: int = 0) -> None:
        """Note that this process is a standby: another one decides, and questions go there."""
        self.queries = None


class PlacementService:
    """The RPC. Answers are made between rounds, on the loop; forecasts and prices in a thread of
    their own. Without a `door` everybody is answered."""

    def __init__(
        self, duty: Duty, most_foreseen: int, terms: PriceTerms, door: Door | None = None
    ) -> None:
        self._duty = duty
        self._terms = terms
        self._door = door
        self._most_foreseen = most_foreseen
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forecast")
        self._start_estimates: tuple[Queries, StartEstimates] | None = None

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPC on raw bytes, so that a message that is not protobuf is refused with a
        reason."""
        return grpc.method_handlers_generic_handler(
            NAME,
            {
                "Explain": grpc.unary_unary_rpc_method_handler(
                    refuses(self.explain), response_serializer=ExplainResponse.SerializeToString
                ),
                "Quote": grpc.unary_unary_rpc_method_handler(
                    refuses(self.quote), response_serializer=QuoteResponse.SerializeToString
                ),
                "ListReservations": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_reservations),
                    response_serializer=ListReservationsResponse.SerializeToString,
                ),
                "ListLicences": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_licences),
                    response_serializer=ListLicencesResponse.SerializeToString,
                ),
                "ShowNodes": grpc.unary_unary_rpc_method_handler(
                    refuses(self.show_nodes),
                    response_serializer=ShowNodesResponse.SerializeToString,
                ),
                "ShowPower": grpc.unary_unary_rpc_method_handler(
                    refuses(self.show_power),
                    response_serializer=ShowPowerResponse.SerializeToString,
                ),
                "ShowPolicy": grpc.unary_unary_rpc_method_handler(
                    refuses(self.show_policy),
                    response_serializer=ShowPolicyResponse.SerializeToString,
                ),
                "ListJobs": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_jobs), response_serializer=ListJobsResponse.SerializeToString
                ),
                "ListLimits": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_limits),
                    response_serializer=ListLimitsResponse.SerializeToString,
                ),
                "ListClusters": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_clusters),
                    response_serializer=ListClustersResponse.SerializeToString,
                ),
                "ListTariffs": grpc.unary_unary_rpc_method_handler(
                    refuses(self.list_tariffs),
                    response_serializer=ListTariffsResponse.SerializeToString,
                ),
            },
        )

    async def explain(self, data: bytes, context: ServicerContext[Any, Any]) -> ExplainResponse:
        """Answer with the state of a job, and the reasons."""
        job_id = _parsed(ExplainRequest, data).job_id
        queries = self._on_duty()
        await self._require(context, "Explain", About(job=queries.owned(job_id)))
        answer = queries.answer(job_id)
        if answer is None:
            code = grpc.StatusCode.NOT_FOUND
            raise RefusedCallError(code, unknown(job_id), RefusalReason.JOB_UNKNOWN)
        arrival = queries.arrival(job_id)
        if arrival is not None and answer.as_of_us:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    found = await self._forecast(queries, arrival, answer.as_of_us / 1e6)
                    answer.forecast.CopyFrom(found)
        elif answer.as_of_us and (begin_us := _begin_us(answer)):
            forecast = Forecast(made_at_us=answer.as_of_us, start_at_us=begin_us)
            answer.forecast.CopyFrom(forecast)
        return answer

    async def quote(self, data: bytes, context: ServicerContext[Any, Any]) -> QuoteResponse:
        """Answer with what a job that is not submitted would have to expect."""
        request = _read_quote(data)
        job, queries = request.job, self._on_duty()
        job.qos = request.qos = request.qos or job.qos
        clusters = (queries.sited(job.reference_cluster),)
        owned = queries.owned(job.job_id)
        about = About(clusters=clusters, user=job.user, account=job.account, job=owned)
        await self._require(context, "Quote", about)
        if not queries.as_of_us:
            problem = "no round has ended since placement started: ask again when one has"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, problem, RefusalReason.NO_ROUND_YET)
        try:
            terms = self._terms.of_quote(request.tariff)
        except RejectedError as error:
            raise RefusedCallError.invalid(error) from None
        answer = _quote_by(terms, queries.as_of_us)
        # Nodes of a gang have no other jobs.
        for shareable in (False,) if job.parts else (False, True):
            job.shareable = shareable
            quoted = queries.quoted(job_of(job), dependencies_of(job))
            placed = await self._played(queries, quoted)
            await self._put_price(placed, request, answer.as_of_us, terms)
            answer.placements.append(placed)
        answer.past_jobs, answer.alike = quoted.own.jobs, quoted.own.alike
        return answer

    async def _put_price(
        self, placed: QuotedPlacement, request: QuoteRequest, now_us: int, terms: QuoteTerms
    ) -> None:
        """Put in what it would be charged there. Raises RefusedCallError where no run of it can be
        charged."""
        if not placed.cluster:
            return
        scope = RateScope(partition=request.partition, qos=request.qos)
        quotation = Quotation(request.job, placed, now_us, scope, terms)
        loop = asyncio.get_running_loop()
        try:
            price = await loop.run_in_executor(self._thread, quotation.price)
        except RejectedError as error:
            raise RefusedCallError.invalid(error.inside("job")) from None
        placed.price_su.CopyFrom(price.message)

    async def _played(self, queries: Queries, quoted: QuotedJob) -> QuotedPlacement:
        """Where it would start, as early, as expected and as late, as far as there is time."""
        runs = quoted.runs if quoted.arriving.entries else ()
        # All at once: a job that arrives meanwhile has the same arrival number.
        snapshots = [queries.snapshot_with(quoted, each) for each in runs]
        now_s, starts = queries.as_of_us / 1e6, list[StartEstimate | None]()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                for snapshot in snapshots:
                    give_way = partial(_give_way, queries)
                    estimates = StartEstimates(snapshot, self._most_foreseen, give_way)
                    starts.append(await self._look(estimates, quoted.arrival))
        return quoted_placement(quoted, now_s, starts)

    async def show_power(
        self, _data: bytes, context: ServicerContext[Any, Any]
    ) -> ShowPowerResponse:
        """Answer with what may be drawn, and what is."""
        queries = self._on_duty()
        await self._require(context, "ShowPower", About())
        return queries.power()

    async def show_policy(
        self, _data: bytes, context: ServicerContext[Any, Any]
    ) -> ShowPolicyResponse:
        """Answer with the policy in force."""
        queries = self._on_duty()
        await self._require(context, "ShowPolicy", About())
        return queries.policy()

    async def list_jobs(self, data: bytes, context: ServicerContext[Any, Any]) -> ListJobsResponse:
        """Answer with the jobs and their states."""
        request = _parsed(ListJobsRequest, data)
        queries = self._on_duty()
        clusters = (queries.sited(request.cluster),) if request.cluster else ()
        about = About(clusters=clusters, user=request.user, account=request.account)
        await self._require(context, "ListJobs", about)
        try:
            answer = queries.jobs(request)
        except RejectedError as error:
            raise RefusedCallError.invalid(error) from None
        if request.with_forecasts and answer.as_of_us:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._put_forecasts(queries, answer)
        return answer

    async def _put_forecasts(self, queries: Queries, answer: ListJobsResponse) -> None:
        """Put in when jobs that wait are expected to start: they share one forecast."""
        for job in answer.jobs:
            arrival = queries.arrival(job.job_id)
            if arrival is not None:
                found = await self._forecast(queries, arrival, answer.as_of_us / 1e6)
                job.forecast.CopyFrom(found)

    async def list_clusters(
        self, _data: bytes, context: ServicerContext[Any, Any]
    ) -> ListClustersResponse:
        """Answer with the clusters, and what is on them."""
        queries = self._on_duty()
        await self._require(context, "ListClusters", About())
        return queries.clusters()

    async def list_tariffs(
        self, _data: bytes, context: ServicerContext[Any, Any]
    ) -> ListTariffsResponse:
        """Answer with what jobs are charged by."""
        await self._require(context, "ListTariffs", About())
        rate = f"{self._terms.rate_su_per_core_s:f}"
        return ListTariffsResponse(tariffs=self._terms.declared, rate_su_per_core_s=rate)

    async def list_limits(
        self, data: bytes, context: ServicerContext[Any, Any]
    ) -> ListLimitsResponse:
        """Answer with what users and accounts may have, and have."""
        site = _parsed(ListLimitsRequest, data).site
        queries = self._on_duty()
        await self._require(context, "ListLimits", About(is_region=not site, site=site))
        return queries.limits(site)

    async def list_reservations(
        self, data: bytes, context: ServicerContext[Any, Any]
    ) -> ListReservationsResponse:
        """Answer with which nodes are kept for whom."""
        request = _parsed(ListReservationsRequest, data)
        queries = self._on_duty()
        await self._require(context, "ListReservations", _about_places(queries, request.cluster))
        return queries.reservations(request)

    async def list_licences(
        self, data: bytes, context: ServicerContext[Any, Any]
    ) -> ListLicencesResponse:
        """Answer with how many licences there are, of what, and which jobs hold them."""
        request = _parsed(ListLicencesRequest, data)
        queries = self._on_duty()
        await self._require(context, "ListLicences", _about_places(queries, request.cluster))
        return queries.licences(request)

    async def show_nodes(
        self, data: bytes, context: ServicerContext[Any, Any]
    ) -> ShowNodesResponse:
        """Answer with the states of nodes."""
        cluster = _parsed(ShowNodesRequest, data).cluster
        queries = self._on_duty()
        await self._require(context, "ShowNodes", _about_places(queries, cluster))
        answer = queries.nodes(cluster)
        if cluster and not answer.clusters:
            problem = f"{cluster[:80]!r} is not declared (`coplace nodes` shows which are)"
            raise RefusedCallError(
                grpc.StatusCode.NOT_FOUND, problem, RefusalReason.CLUSTER_UNKNOWN
            )
        return answer

    def _on_duty(self) -> Queries:
        queries = self._duty.queries
        if queries is None:
            problem = "this process is a standby, another one of placement decides: ask that one"
            raise RefusedCallError(grpc.StatusCode.UNAVAILABLE, problem, RefusalReason.STANDBY)
        return queries

    async def _require(self, context: ServicerContext[Any, Any], action: str, about: About) -> None:
        """Answer only who may ask."""
        if self._door is not None:
            verdict = await self._door.answer(context, action, about)
            if not verdict.is_allowed:
                code = grpc.StatusCode.PERMISSION_DENIED
                raise RefusedCallError(code, verdict.reason, RefusalReason.NOT_ALLOWED)

    async def _forecast(self, queries: Queries, arrival: int, now_s: float) -> Forecast:
        start_estimates, estimate = self._recent(queries, now_s), None
        if start_estimates is not None:
            estimate = await self._look(start_estimates, arrival)
        if start_estimates is None or estimate is None:
            give_way = partial(_give_way, queries)
            start_estimates = StartEstimates(queries.snapshot(), self._most_foreseen, give_way)
            self._start_estimates = queries, start_estimates
            estimate = await self._look(start_estimates, arrival)
        return forecast_of(estimate, start_estimates.now_s)

    def _recent(self, queries: Queries, now_s: float) -> StartEstimates | None:
        """The last forecast while it is fresh and of the same processor."""
        if self._start_estimates is None or self._start_estimates[0] is not queries:
            return None
        return (
            self._start_estimates[1] if now_s - self._start_estimates[1].now_s <= _FRESH_S else None
        )

    async def _look(self, start_estimates: StartEstimates, arrival: int) -> StartEstimate | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, start_estimates.of, arrival)


def _read_quote(data: bytes) -> QuoteRequest:
    """The question, whose job is validated as ingest validates one that is submitted."""
    request = _parsed(QuoteRequest, data)
    try:
        check_all_contents(request.job)
        job_of(request.job), dependencies_of(request.job)
    except RejectedError as error:
        # The words name the field as ingest does, by its path in the job.
        raise RefusedCallError.invalid(error.inside("job"), str(error)) from None
    try:
        check_all_contents(request)
    except RejectedError as error:
        raise RefusedCallError.invalid(error) from None
    return request


def _quote_by(terms: QuoteTerms, now_us: int) -> QuoteResponse:
    """An answer that says by what it is quoted, and nothing more yet."""
    by = terms.at(now_us)
    if isinstance(by, PriceTariff):
        return QuoteResponse(as_of_us=now_us, tariff=f"{by.name}/{by.version}")
    return QuoteResponse(as_of_us=now_us, rate_su_per_core_s=f"{by:f}")


def _begin_us(answer: ExplainResponse) -> int:
    """Return before when a job does not start, which waits for a time alone; 0 for others."""
    times_us = [each.until_us for each in answer.constraints if each.kind in _TIMED]
    return max(times_us, default=0)


def _about_places(queries: Queries, cluster: str) -> About:
    """Return what a question about one cluster is about; of the region where none is named."""
    clusters = (queries.sited(cluster),) if cluster else ()
    return About(is_region=not cluster, clusters=clusters)


def _parsed(kind: type[_Request], data: bytes) -> _Request:
    """Return a request. Raises RefusedCallError."""
    try:
        return kind.FromString(data)
    except DecodeError:
        problem = f"is not a valid {kind.DESCRIPTOR.name}"
        raise RefusedCallError.invalid(RejectedError("request", problem), problem) from None


def _give_way(queries: Queries) -> None:
    """Decisions go first: one interpreter runs one thread at a time."""
    while queries.is_deciding:
        time.sleep(_GIVES_WAY_S)


def unknown(job_id: str) -> str:
    """Return what to do about a job that is not known."""
    return (
        f"{job_id[:80]!r} is not known: name it as its resource manager submitted it, "
        "{site}/{cluster}/{local id}/{submit time} (`coplace tail jobs.events` shows it). "
        "Bad submissions are dead letters (`coplace dlq list`), and jobs that ended long ago are "
        "forgotten"
    )


def forecast_of(estimate: StartEstimate | None, made_s: float) -> Forecast:
    """Return what is expected of a start, as it is answered."""
    found = Forecast(made_at_us=round(made_s * 1e6))
    if estimate is None:
        return found
    found.jobs_before = estimate.jobs_before
    if estimate.expected is not None:
        found.cluster = estimate.expected.cluster
        found.start_at_us = round(estimate.expected.start_s * 1e6)
    elif estimate.not_before_s is not None:
        found.start_at_us = round(estimate.not_before_s * 1e6)
    return found
