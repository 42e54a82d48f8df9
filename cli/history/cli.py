"""What was: accounts, statements, runs, charges and the audit; the documents are those of REST."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from coplace.v1.history_service_pb2 import (
    Account,
    Charge,
    ListAccountsRequest,
    ListAuditRequest,
    ListChargesRequest,
    ListRunsRequest,
    Run,
    RunState,
    ShowStatementRequest,
    ShowStoryRequest,
    StatementLine,
    StoryEvent,
)
from coplace.v1.history_service_pb2_grpc import HistoryServiceStub
from google.protobuf.message import Message

from cli.answers import write_answer
from cli.asking import asking
from cli.notes import note, utc
from cli.output import Output, OutputName, Row
from cli.progress import progress_of
from cli.times import time_us
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(no_args_is_help=True, help="Ask what was, and build its database anew.")

_WITHIN_S: Final = 30.0
_STATE: Final = "RUN_STATE_"
_STATES: Final = [name.removeprefix(_STATE).lower() for name in RunState.keys()[1:]]

History = Annotated[
    str, typer.Option(envvar="COPLACE_HISTORY_ADDRESS", help="host:port of the history.")
]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="At most so many.")]
Page = Annotated[
    str, typer.Option(metavar="TOKEN", help="Of the answer before: what comes behind it.")
]
Begin = Annotated[
    int | None, typer.Option("--from", parser=time_us, metavar="TIME", help="Then or later.")
]
End = Annotated[int | None, typer.Option("--to", parser=time_us, metavar="TIME", help="Before.")]
User = Annotated[str, typer.Option(help="Of this user.")]
Account_ = Annotated[str, typer.Option("--account", help="Of this account.")]
Cluster = Annotated[str, typer.Option(help="On this cluster.")]
_ADDRESS: Final = "127.0.0.1:50055"


@app.command()
def accounts(
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """List what each account was charged, and may spend."""
    request = ListAccountsRequest(page_size=limit, page_token=page)
    answer = _ask(history, lambda stub: stub.ListAccounts(request, timeout=_WITHIN_S))
    _write(answer, map(_account_row, answer.accounts), output)


@app.command()
def statement(
    account: Annotated[str, typer.Argument(help="As its jobs name it.")],
    begin: Begin = None,
    end: End = None,
    user: User = "",
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """Show what an account owed before a period, each posting in it, and what it owed then."""
    request = ShowStatementRequest(
        account=account,
        from_us=begin or 0,
        until_us=end or 0,
        user=user,
        page_size=limit,
        page_token=page,
    )
    answer = _ask(history, lambda stub: stub.ShowStatement(request, timeout=_WITHIN_S))
    _write(answer, map(_line_row, answer.lines), output)
    if output is Output.TABLE:
        note(
            [
                f"before {answer.opening_su} SU, {answer.lines_in_period} lines of "
                f"{answer.amount_su} SU, then {answer.closing_su} SU"
            ]
        )


@app.command()
def jobs(
    user: User = "",
    account: Account_ = "",
    cluster: Cluster = "",
    state: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(_STATES)}; again for more.")
    ] = None,
    begin: Begin = None,
    end: End = None,
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """List runs of jobs by when they were submitted, the newest first."""
    if wrong := set(state or ()) - set(_STATES):
        raise typer.BadParameter(f"no run is {min(wrong)!r}: it is {', '.join(_STATES)}")
    request = ListRunsRequest(
        user=user,
        account=account,
        cluster=cluster,
        states=[RunState.Value(_STATE + each.upper()) for each in state or ()],
        from_us=begin or 0,
        until_us=end or 0,
        page_size=limit,
        page_token=page,
    )
    answer = _ask(history, lambda stub: stub.ListRuns(request, timeout=_WITHIN_S))
    _write(answer, map(_run_row, answer.runs), output)


@app.command()
def story(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help="As it was submitted.")],
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """Show what happened to a job, also long after it is over."""
    request = ShowStoryRequest(job_id=job_id)
    answer = _ask(history, lambda stub: stub.ShowStory(request, timeout=_WITHIN_S))
    rows: Iterable[Row] = (
        {
            "time": utc(line.at_us),
            "attempt": line.attempt,
            "what": StoryEvent.Name(line.event).removeprefix("STORY_EVENT_").lower(),
            "details": line.details,
        }
        for line in answer.lines
    )
    _write(answer, rows, output)


@app.command()
def charges(
    user: User = "",
    account: Account_ = "",
    cluster: Cluster = "",
    begin: Begin = None,
    end: End = None,
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """List charges with all their revisions, those booked last first."""
    request = ListChargesRequest(
        user=user,
        account=account,
        cluster=cluster,
        from_us=begin or 0,
        until_us=end or 0,
        page_size=limit,
        page_token=page,
    )
    answer = _ask(history, lambda stub: stub.ListCharges(request, timeout=_WITHIN_S))
    _write(answer, map(_charge_row, answer.charges), output)


@app.command()
def audit(
    who: Annotated[str, typer.Option(help="Only of this identity.")] = "",
    action: Annotated[str, typer.Option(help="Only of this payload or RPC.")] = "",
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    begin: Begin = None,
    end: End = None,
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    history: History = _ADDRESS,
) -> None:
    """List who declared, ordered and was refused what, the newest first."""
    request = ListAuditRequest(
        who=who,
        action=action,
        refused=refused,
        from_us=begin or 0,
        until_us=end or 0,
        page_size=limit,
        page_token=page,
    )
    answer = _ask(history, lambda stub: stub.ListAudit(request, timeout=_WITHIN_S))
    rows: Iterable[Row] = (
        {
            "at": utc(each.at_us),
            "who": each.who,
            "action": each.action,
            "about": each.about,
            "verdict": "refused" if each.refused else "allowed",
            "reason": each.reason,
        }
        for each in answer.records
    )
    _write(answer, rows, output)


@app.command("rebuild")
def rebuild_database(
    database: Annotated[
        Path,
        typer.Option(envvar="COPLACE_HISTORY_DATABASE", help="File of the SQLite database."),
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
    """Build the database anew from topics and archive; the service must not run meanwhile."""
    from cli.history.rebuilding import rebuild

    with progress_of(None, "records") as on_records:
        rebuild(Deployment.from_settings(settings()), database, archive, on_records)
    note([f"{database} is built anew"])


def _ask(address: str, question: Callable[[Any], Any]) -> Any:
    """Ask the history. Raises UnansweredError."""
    with asking(address) as channel:
        return question(HistoryServiceStub(channel))


def _write(answer: Message, rows: Iterable[Row], output: Output) -> None:
    found = list(rows)
    write_answer(answer, found, list(found[0]) if found else (), output)
    token = getattr(answer, "next_page_token", "")
    if token and output is not Output.JSON:
        note([f"there are more: --page {token}"])


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
