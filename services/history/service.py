"""The gRPC service: answers from the tables, behind the table of authority.

Questions run in threads of their own: none waits for what is written meanwhile.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc
from coplace.v1.history_service_pb2 import (
    ListAccountsRequest,
    ListAccountsResponse,
    ListAuditRequest,
    ListAuditResponse,
    ListChargesRequest,
    ListChargesResponse,
    ListRunsRequest,
    ListRunsResponse,
    ShowAccountRequest,
    ShowAccountResponse,
    ShowStatementRequest,
    ShowStatementResponse,
    ShowStoryRequest,
    ShowStoryResponse,
)
from google.protobuf.message import Message
from grpc.aio import ServicerContext

from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from services.history.answers import (
    account_message,
    audit_message,
    charge_message,
    run_message,
    statement_message,
    story,
)
from services.history.meter import HistoryMeter
from services.history.model import RunRow
from services.history.reading import HistoryReader
from shared.authority.binding import SitedCluster
from shared.authority.door import Door
from shared.authority.holding import HeldRun
from shared.authority.rules import About, OwnedJob
from shared.process.grpc_answers import Answering, answering_methods
from shared.process.grpc_errors import RefusalReason, RefusedCallError
from shared.process.pages import PageKey, page_key, page_size, page_token

NAME: Final = "coplace.v1.HistoryService"
_THREADS: Final = 4

_Request = TypeVar("_Request", bound=Message)
_T = TypeVar("_T")
_Row = TypeVar("_Row")
# Kinds of what identifies a row, in the order of its page.
_BY_TIME: Final = (int, str, int)
_BY_BOOKING: Final = (int, str, int, int)
_BY_POSTING: Final = (int, str, int, int, int)


class HistoryService:
    """The RPCs. `crash` ends the process for an exception that is no fault of a caller; without a
    `door` everybody is answered."""

    def __init__(
        self,
        reader: HistoryReader,
        meter: HistoryMeter,
        crash: Callable[[Exception], object],
        door: Door | None = None,
    ) -> None:
        self._reader = reader
        self._meter = meter
        self._crash = crash
        self._door = door
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="question")

    def handlers(self) -> grpc.GenericRpcHandler:
        """Return the RPCs."""
        methods: dict[str, Answering] = {
            "ListRuns": (ListRunsRequest, self.list_runs),
            "ShowStory": (ShowStoryRequest, self.show_story),
            "ListCharges": (ListChargesRequest, self.list_charges),
            "ListAccounts": (ListAccountsRequest, self.list_accounts),
            "ShowAccount": (ShowAccountRequest, self.show_account),
            "ShowStatement": (ShowStatementRequest, self.show_statement),
            "ListAudit": (ListAuditRequest, self.list_audit),
        }
        return answering_methods(NAME, methods, self._crash, self._meter.answered)

    async def list_runs(
        self, asked: ListRunsRequest, context: ServicerContext[Any, Any]
    ) -> ListRunsResponse:
        """Answer with a page of runs."""
        await self._require_list(context, "ListRuns", asked)
        _require_period(asked)
        size, behind = page_size(asked.page_size), page_key(asked.page_token, _BY_TIME)
        rows = await self._ask(self._reader.runs, asked, behind, size + 1)
        shown, token = _page(rows, size, lambda row: (row.submitted_at_us, *row.key))
        return ListRunsResponse(runs=map(run_message, shown), next_page_token=token)

    async def show_story(
        self, asked: ShowStoryRequest, context: ServicerContext[Any, Any]
    ) -> ShowStoryResponse:
        """Answer with what happened to a job."""
        require_text("job_id", asked.job_id)
        runs, sites = await self._ask(self._reader.job, asked.job_id)
        await self._require(context, "ShowStory", About(job=_owned(asked.job_id, runs, sites)))
        if not runs:
            problem = (
                f"{asked.job_id[:80]!r} is not known here: name it as its resource manager "
                "submitted it"
            )
            raise RefusedCallError(grpc.StatusCode.NOT_FOUND, problem, RefusalReason.JOB_UNKNOWN)
        between = await self._ask(self._reader.stories_of, asked.job_id)
        charges = await self._ask(self._reader.charges_of, asked.job_id)
        return ShowStoryResponse(runs=map(run_message, runs), lines=story(runs, between, charges))

    async def list_charges(
        self, asked: ListChargesRequest, context: ServicerContext[Any, Any]
    ) -> ListChargesResponse:
        """Answer with a page of charges."""
        await self._require_list(context, "ListCharges", asked)
        _require_period(asked)
        size, behind = page_size(asked.page_size), page_key(asked.page_token, _BY_BOOKING)
        rows = await self._ask(self._reader.charges, asked, behind, size + 1)
        shown, token = _page(
            rows, size, lambda row: (row.booked_at_us, row.job_id, row.attempt, row.revision)
        )
        charges = (charge_message(row._mapping) for row in shown)
        return ListChargesResponse(charges=charges, next_page_token=token)

    async def list_accounts(
        self, asked: ListAccountsRequest, context: ServicerContext[Any, Any]
    ) -> ListAccountsResponse:
        """Answer with a page of accounts."""
        await self._require(context, "ListAccounts", About(is_region=True))
        size, behind = page_size(asked.page_size), page_key(asked.page_token, (str,))
        rows = await self._ask(self._reader.accounts, behind, size + 1)
        shown, token = _page(rows, size, lambda row: (row.account,))
        return ListAccountsResponse(accounts=map(account_message, shown), next_page_token=token)

    async def show_account(
        self, asked: ShowAccountRequest, context: ServicerContext[Any, Any]
    ) -> ShowAccountResponse:
        """Answer with an account."""
        require_text("account", asked.account)
        await self._require(context, "ShowAccount", About(account=asked.account))
        return ShowAccountResponse(account=account_message(await self._account(asked.account)))

    async def show_statement(
        self, asked: ShowStatementRequest, context: ServicerContext[Any, Any]
    ) -> ShowStatementResponse:
        """Answer with a page of a statement."""
        require_text("account", asked.account)
        about = About(account=asked.account, user=asked.user)
        await self._require(context, "ShowStatement", about)
        _require_period(asked)
        size, behind = page_size(asked.page_size), page_key(asked.page_token, _BY_POSTING)
        await self._account(asked.account)
        rows = await self._ask(self._reader.statement, asked, behind, size + 1)
        shown, token = _page(rows.lines, size, _posting_key)
        found = statement_message(asked.account, rows._replace(lines=shown))
        found.next_page_token = token
        return found

    async def list_audit(
        self, asked: ListAuditRequest, context: ServicerContext[Any, Any]
    ) -> ListAuditResponse:
        """Answer with a page of the audit."""
        await self._require(context, "ListAudit", About(is_region=True))
        _require_period(asked)
        size, behind = page_size(asked.page_size), page_key(asked.page_token, (int, str))
        rows = await self._ask(self._reader.audit, asked, behind, size + 1)
        shown, token = _page(rows, size, lambda row: (row.at_us, row.id))
        changes = await self._ask(self._reader.changes, [row.id for row in shown])
        records = (audit_message(row, changes.get(row.id, ())) for row in shown)
        return ListAuditResponse(records=records, next_page_token=token)

    async def _account(self, account: str) -> Any:
        row = await self._ask(self._reader.account, account)
        if row is None:
            problem = f"nothing was charged or allocated to {account[:80]!r}"
            reason = RefusalReason.ACCOUNT_UNKNOWN
            raise RefusedCallError(grpc.StatusCode.NOT_FOUND, problem, reason)
        return row

    async def _require_list(
        self,
        context: ServicerContext[Any, Any],
        action: str,
        asked: ListRunsRequest | ListChargesRequest,
    ) -> None:
        """Answer a list only who may ask for it by what it is of."""
        clusters: tuple[SitedCluster, ...] = ()
        if asked.cluster and self._door is not None and not self._door.is_open:
            site = await self._ask(self._reader.site, asked.cluster)
            clusters = (SitedCluster(asked.cluster, site),)
        about = About(clusters=clusters, user=asked.user, account=asked.account)
        await self._require(context, action, about)

    async def _require(self, context: ServicerContext[Any, Any], action: str, about: About) -> None:
        """Answer only who may ask."""
        if self._door is not None:
            verdict = await self._door.answer(context, action, about)
            if not verdict.is_allowed:
                code = grpc.StatusCode.PERMISSION_DENIED
                raise RefusedCallError(code, verdict.reason, RefusalReason.NOT_ALLOWED)

    async def _ask(self, question: Callable[..., _T], *of: object) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, question, *of)


def _page(
    rows: Sequence[_Row], size: int, key: Callable[[_Row], PageKey]
) -> tuple[Sequence[_Row], str]:
    """Return the rows of a page, of which one more was read, and the token of the next one."""
    shown = rows[:size]
    return shown, page_token(key(shown[-1])) if len(rows) > size else ""


def _posting_key(row: Any) -> PageKey:
    found = row._mapping
    names = "booked_at_us", "job_id", "attempt", "by_revision", "number"
    return tuple(found[f"postings_{name}"] for name in names)


def _require_period(asked: Any) -> None:
    for field in ("from_us", "until_us"):
        if getattr(asked, field) < 0:
            raise RejectedError(field, "must not be before 1970")
    if asked.until_us and asked.until_us < asked.from_us:
        raise RejectedError("until_us", "must not be before from_us")


def _owned(job_id: str, runs: Sequence[RunRow], sites: dict[str, str]) -> OwnedJob:
    """Return whose a job is: of who submitted it first."""
    owner = next((run for run in runs if run.user), None)
    held = tuple(
        HeldRun(run.attempt, 0, SitedCluster(run.cluster, sites.get(run.cluster, "")))
        for run in runs
        if run.cluster
    )
    return OwnedJob(job_id, owner.user if owner else "", owner.account if owner else "", held)
