"""What was: accounts, statements, runs, charges and the audit; the documents are those of REST.

A verb takes the fields of its request, each stated once: what it writes is all that it adds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

import typer
from coplace.v1.control_pb2 import COMMAND_RESULT_EARLY, COMMAND_RESULT_REFUSED
from coplace.v1.history_service_pb2 import (
    Account,
    AuditRecord,
    Charge,
    ListAccountsRequest,
    ListAccountsResponse,
    ListAuditRequest,
    ListAuditResponse,
    ListChargesRequest,
    ListChargesResponse,
    ListRunsRequest,
    ListRunsResponse,
    Run,
    RunState,
    ShowStatementRequest,
    ShowStatementResponse,
    ShowStoryRequest,
    ShowStoryResponse,
    StatementLine,
    StoryEvent,
)
from coplace.v1.history_service_pb2_grpc import HistoryServiceStub
from google.protobuf.message import Message

from cli.answers import write_page
from cli.asking import asking
from cli.notes import note, utc
from cli.output import Output, OutputName, Row
from cli.progress import progress_of
from cli.times import time_us
from coplace_client.errors import CannotStartError, UnusableError
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(
    no_args_is_help=True, help="Query past runs, charges and changes, or rebuild their database."
)

_WITHIN_S: Final = 30.0
_STATE: Final = "RUN_STATE_"
_STATES: Final = [name.removeprefix(_STATE).lower() for name in RunState.keys()[1:]]
_ADDRESS: Final = "127.0.0.1:50055"
_SHOWN: Final = {COMMAND_RESULT_REFUSED: "refused", COMMAND_RESULT_EARLY: "early"}


def _state(name: str) -> int:
    if name not in _STATES:
        raise typer.BadParameter(f"no run is {name!r}: it is {', '.join(_STATES)}")
    return RunState.Value(_STATE + name.upper())


User = Annotated[str, typer.Option(help="Only of this user.")]
Account_ = Annotated[str, typer.Option(help="Only of this account.")]
Cluster = Annotated[str, typer.Option(help="On this cluster.")]
States = Annotated[
    list[int] | None,
    typer.Option(
        parser=_state, metavar="STATE", help=f"One of {', '.join(_STATES)}; again for more."
    ),
]
Who = Annotated[str, typer.Option(help="Only of this identity.")]
Action = Annotated[str, typer.Option(help="Only of this payload or RPC.")]
Refused = Annotated[bool, typer.Option("--refused", help="Only what a door refused.")]
Subject = Annotated[str, typer.Option(help="Only what changed this, such as `cap cluster alpha`.")]
Begin = Annotated[
    int | None, typer.Option("--from", parser=time_us, metavar="TIME", help="Then or later.")
]
End = Annotated[int | None, typer.Option("--to", parser=time_us, metavar="TIME", help="Before.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")]
Page = Annotated[
    str, typer.Option(metavar="TOKEN", help="Token of the answer before, for the next page.")
]
History = Annotated[
    str, typer.Option(envvar="COPLACE_HISTORY_ADDRESS", help="host:port of the history.")
]
# Of each field of a request the parameter, and what it is if it is not given.
_OPTIONS: Final[Mapping[str, tuple[str, Any, Any]]] = {
    "user": ("user", User, ""),
    "account": ("account", Account_, ""),
    "cluster": ("cluster", Cluster, ""),
    "states": ("state", States, None),
    "who": ("who", Who, ""),
    "action": ("action", Action, ""),
    "refused": ("refused", Refused, False),
    "subject": ("subject", Subject, ""),
    "from_us": ("begin", Begin, None),
    "until_us": ("end", End, None),
    "page_size": ("limit", Limit, 50),
    "page_token": ("page", Page, ""),
}
_COMMON: Final = (("output", OutputName, Output.TABLE), ("history", History, _ADDRESS))


def _verb(
    request: type[Message],
    told: Callable[[Any], str] = lambda _answer: "",
    **arguments: Any,
) -> Callable[[Callable[[Any], Iterable[Row]]], Callable[..., None]]:
    """Make a command of what turns an answer into rows. It asks by `request`, whose fields are
    options but for `arguments`; `told` is said below a table."""
    fields = [field.name for field in request.DESCRIPTOR.fields]
    named = {name: (name, kind, Parameter.empty) for name, kind in arguments.items()}
    given = {name: (named.get(name) or _OPTIONS[name]) for name in fields}
    rpc = request.DESCRIPTOR.name.removesuffix("Request")

    def command(rows_of: Callable[[Any], Iterable[Row]]) -> Callable[..., None]:
        def ask(output: Output, history: str, **values: Any) -> None:
            found = {name: values[of] for name, (of, _, _) in given.items() if values[of]}
            with asking(history) as channel:
                question = getattr(HistoryServiceStub(channel), rpc)
                answer = question(request(**found), timeout=_WITHIN_S)
            write_page(answer, rows_of(answer), output)
            if output is Output.TABLE and told(answer):
                note([told(answer)])

        taken = [*given.values(), *_COMMON]
        ask.__doc__ = rows_of.__doc__
        ask.__annotations__ = {name: kind for name, kind, _ in taken}
        ask.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                for name, kind, default in taken
            ]
        )
        return app.command(rows_of.__name__)(ask)

    return command


@_verb(ListAccountsRequest)
def accounts(answer: ListAccountsResponse) -> Iterable[Row]:
    """List what each account was charged, and may spend."""
    return map(_account_row, answer.accounts)


@_verb(
    ShowStatementRequest,
    lambda answer: (
        f"before {answer.opening_su} SU, {answer.lines_in_period} lines of "
        f"{answer.amount_su} SU, then {answer.closing_su} SU"
    ),
    account=Annotated[str, typer.Argument(help="As its jobs name it.")],
)
def statement(answer: ShowStatementResponse) -> Iterable[Row]:
    """Show what an account owed before a period, each posting in it, and what it owed then."""
    return map(_line_row, answer.lines)


@_verb(ListRunsRequest)
def jobs(answer: ListRunsResponse) -> Iterable[Row]:
    """List runs of jobs by when they were submitted, the newest first."""
    return map(_run_row, answer.runs)


@_verb(
    ShowStoryRequest,
    job_id=Annotated[str, typer.Argument(metavar="JOB", help="As it was submitted.")],
)
def story(answer: ShowStoryResponse) -> Iterator[Row]:
    """Show what happened to a job, what it waited for and who asked what of it."""
    for line in answer.lines:
        yield {
            "time": utc(line.at_us),
            "attempt": line.attempt or "",
            "what": StoryEvent.Name(line.event).removeprefix("STORY_EVENT_").lower(),
            "details": line.details,
        }


@_verb(ListChargesRequest)
def charges(answer: ListChargesResponse) -> Iterable[Row]:
    """List charges with all their revisions, those booked last first."""
    return map(_charge_row, answer.charges)


@_verb(ListAuditRequest)
def audit(answer: ListAuditResponse) -> Iterator[Row]:
    """List who declared, ordered and was refused what, with what it was before and after; the
    newest first."""
    for record in answer.records:
        yield from _audit_rows(record)


@app.command("rebuild")
def rebuild_database(
    database: Annotated[
        str,
        typer.Option(
            envvar="COPLACE_HISTORY_DATABASE",
            metavar="WHERE",
            help="File of the SQLite database, or postgresql://user@host:port/database.",
        ),
    ],
    archive: Annotated[
        str,
        typer.Option(
            envvar="COPLACE_HISTORY_ARCHIVE",
            metavar="WHERE",
            help="Folder or object store of the archive, for what topics have not any more.",
        ),
    ] = "",
) -> None:
    """Rebuild the database from topics and archive. The service must not run meanwhile."""
    from cli.history.rebuilding import rebuild
    from services.history.database import Database
    from services.history.settings import DatabaseSettings

    own = DatabaseSettings(database=database, archive=archive)
    place = Database(own.database, own.database_password_file)
    try:
        with progress_of(None, "records") as on_records:
            found = rebuild(Deployment.from_settings(settings()), place, own.archive, on_records)
    except CannotStartError as error:
        raise UnusableError(str(error)) from None
    note([f"{place} is built anew"])
    if found.left_out:
        note([f"{found.left_out} records cannot be used: `coplace dlq list` has the reasons"])


def _audit_rows(record: AuditRecord) -> Iterator[Row]:
    """Each thing that a command set is a row."""
    for change in record.changes or [None]:
        result = _SHOWN.get(change.result, "allowed") if change else "allowed"
        yield {
            "at": utc(record.at_us),
            "who": record.who,
            "action": record.action,
            "about": change.subject if change else record.about,
            "verdict": "refused" if record.refused else result,
            "reason": (change.reason if change else "") or record.reason,
            "before": change.before if change else "",
            "after": change.after if change else "",
        }


def _account_row(account: Account) -> Row:
    return {
        "account": account.account,
        "charged SU": account.charged_su,
        "allocated SU": account.allocated_su,
        "reserved SU": account.reserved_su,
    }


def _run_row(run: Run) -> Row:
    return {
        "job": f"{run.job_id} ({run.attempt})" if run.attempt > 1 else run.job_id,
        "is": RunState.Name(run.state).removeprefix(_STATE).lower(),
        "user": run.user,
        "account": run.account,
        "cluster": run.cluster,
        "nodes": run.nodes,
        "submitted (UTC)": utc(run.submitted_at_us) if run.submitted_at_us else "",
        "price SU": run.price_su,
    }


def _charge_row(charge: Charge) -> Row:
    return {
        "job": f"{charge.job_id} ({charge.attempt})" if charge.attempt > 1 else charge.job_id,
        "revision": charge.revision,
        "user": charge.user,
        "account": charge.account,
        "booked (UTC)": utc(charge.booked_at_us),
        "price SU": charge.price_su,
    }


def _line_row(line: StatementLine) -> Row:
    name = line.charge.job_id
    if line.co_runner_job_id:
        name = f"{line.co_runner_job_id}, which slowed down {name}"
    return {
        "job": f"{name}, reversed" if line.is_reversal else name,
        "cluster": line.charge.cluster,
        "booked (UTC)": utc(line.booked_at_us),
        "price SU": line.amount_su,
        "in full SU": line.in_full_su,
    }
