"""`coplace accounts`, `coplace statement`: what accounts spent, may spend, and owe for a
period."""

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from io import StringIO
from typing import Annotated, Final

import typer
from coplace.v1.accounts_pb2 import (
    AccountStanding,
    AllocationDeclared,
    PeriodClosed,
    Standing,
    WhenEmpty,
)
from coplace.v1.pricing_pb2 import ChargeMade

from cli import accounts as spending
from cli.asking import Ingest
from cli.kafka_topics import CHARGES, KafkaTopics
from cli.known import require_known
from cli.notes import note
from cli.outcomes import order, show_state, tell
from cli.output import Output, OutputName, write
from cli.speaking import Source
from cli.tariff import BILLING
from cli.times import clock_us, format_utc, time_us
from cli.waiting import WAIT_S, Wait
from coplace_client.errors import UnusableError
from coplace_client.facts import fact
from services.pricing.accounts.focus import (
    FocusRow,
    FocusValue,
    columns,
    focus_rows,
    page,
    unbilled,
)
from services.pricing.accounts.statement import (
    ChargeEntry,
    Statement,
    postings,
    statement_of,
    trial_balance,
)
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.process.settings import settings
from shared.streams.on_kafka.deployment import Deployment

app = typer.Typer(help="What accounts spent, may spend, and owe for a period.")
Account = Annotated[str, typer.Argument(help="As its jobs name it.")]
Reason = Annotated[str, typer.Option(help="Why: it is recorded.")]
STANDINGS: Final = "accounts.standings"
_BALANCES: Final = ("account", "balance SU")


class Format(StrEnum):
    """How a statement is written: CSV and JSON lines in the columns of FOCUS."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    HTML = "html"


class Empty(StrEnum):
    """What happens when an account has nothing left."""

    REFUSE = "refuse"
    WARN = "warn"
    RUN = "run"


@app.callback(invoke_without_command=True)
def accounts(ctx: typer.Context, output: OutputName = Output.TABLE) -> None:
    """Print what each account spent, as Redis has it; `coplace history accounts` where a history
    runs."""
    if ctx.invoked_subcommand is None:
        spent = spending.balances(Deployment.from_settings(settings()))
        write(spending.balance_rows(spent), ("account", "spent SU"), output)


@app.command()
def allocate(
    account: Account,
    service_units: Annotated[str, typer.Argument(help="In all, with what is spent; a decimal.")],
    when_empty: Annotated[
        Empty, typer.Option(help="Refuse its jobs, warn its owner, or do nothing.")
    ] = Empty.REFUSE,
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Declare what an account may spend in all, in place of what was declared before."""
    now_us = clock_us()
    declared = AllocationDeclared(
        account=account,
        allocated_su=service_units,
        when_empty=WhenEmpty.Value(f"WHEN_EMPTY_{when_empty.upper()}"),
        reason=reason,
        declared_at_us=now_us,
    )
    check_contents(declared)
    done = order(ingest, fact(source, declared, f"{account}/{now_us}", now_us), wait)
    typer.echo(f"{account} may spend {service_units} SU in all; when they are spent: {when_empty}")
    tell(done)
    show_state("pricing", lambda: _standing(account))


@app.command()
def close(
    until: Annotated[
        int,
        typer.Argument(
            parser=time_us,
            metavar="TIME",
            help="Such as 2026-11-01: periods that ended before it close.",
        ),
    ],
    reason: Reason = "",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Close the books before a time: later corrections of older runs go into the next period."""
    now_us = clock_us()
    declared = PeriodClosed(until_us=until, reason=reason, closed_at_us=now_us)
    check_contents(declared)
    done = order(ingest, fact(source, declared, f"{declared.until_us}/{now_us}", now_us), wait)
    typer.echo(f"periods are closed until {format_utc(declared.until_us)}")
    tell(done)
    show_state("pricing", _closed)


@app.command()
def statement(
    account: Account,
    begin: Annotated[
        int,
        typer.Option(
            "--from", parser=time_us, metavar="TIME", help="What was booked then or later."
        ),
    ] = "1970-01-01",  # type: ignore[assignment]
    end: Annotated[
        int, typer.Option("--to", parser=time_us, metavar="TIME", help="What was booked before.")
    ] = "now",  # type: ignore[assignment]
    written_as: Annotated[
        Format, typer.Option("--format", "--output", help="How it is written.")
    ] = Format.TABLE,
) -> None:
    """Write what an account was charged, and had reversed, in a period, as Kafka has it; where a
    history runs, `coplace history statement` has it by pages.

    An account that ends with a slash is all below it: `physics/` is all queues of a namespace.
    """
    topics = KafkaTopics(Deployment.from_settings(settings()))
    posted = postings(entries(topics.topic(CHARGES)))
    known = {each.account for each in posted}
    below = {f"{each.partition('/')[0]}/" for each in known if "/" in each}
    require_known("account that was charged", account, known | below)
    found = statement_of(account, posted, begin, end, closed_us(topics.topic(BILLING)))
    if written_as is Format.TABLE:
        write(spending.statement_rows(found), spending.STATEMENT_COLUMNS, Output.TABLE)
        return
    sys.stdout.write(text_of(found, written_as))
    if count := unbilled(found):
        note([f"{count} rows are in service units: their tariffs declare no currency (FOCUS does)"])


@app.command()
def balance(output: OutputName = Output.TABLE) -> None:
    """Print what each account owes by its charges, and the operator's side; the sum is 0."""
    posted = postings(entries(KafkaTopics(Deployment.from_settings(settings())).topic(CHARGES)))
    found = trial_balance(posted)
    if sum(found.values()):
        raise UnusableError(f"the charges do not balance: {sum(found.values())} SU are left")
    rows = [
        {"account": name, "balance SU": f"{amount:f}"} for name, amount in sorted(found.items())
    ]
    write(rows, _BALANCES, output)


def entries(events: Iterable[Event]) -> Iterable[ChargeEntry]:
    """Return the charges among events."""
    for event in events:
        if isinstance(event.payload, ChargeMade):
            yield ChargeEntry.from_charge(event.payload)


def closed_us(events: Iterable[Event]) -> list[int]:
    """Return the ends of the closed periods, in order."""
    told = (event.payload for event in events)
    return sorted({each.until_us for each in told if isinstance(each, PeriodClosed)})


def _standing(account: str) -> str:
    """What pricing published of an account last."""
    topics = KafkaTopics(Deployment.from_settings(settings()))
    told = (event.payload for event in topics.topic(STANDINGS))
    own = [t for t in told if isinstance(t, AccountStanding) and t.account == account]
    if not own:
        return f"nothing of {account} so far"
    now = max(own, key=lambda each: each.number)
    standing = Standing.Name(now.standing).removeprefix("STANDING_").lower()
    return (
        f"{now.allocated_su} SU allocated to {account}, {now.charged_su} SU charged, "
        f"{now.reserved_su} SU reserved for runs: {standing}"
    )


def _closed() -> str:
    """Until when periods are closed: of all that were closed the last end counts."""
    ends_us = closed_us(KafkaTopics(Deployment.from_settings(settings())).topic(BILLING))
    return f"periods closed until {format_utc(ends_us[-1])}" if ends_us else "no period closed"


def text_of(found: Statement, written_as: Format) -> str:
    """Return a statement in a format."""
    rows = list(focus_rows(found))
    match written_as:
        case Format.HTML:
            return page(found)
        case Format.JSON:
            balances = {
                "account": found.account,
                "opening_su": f"{found.opening_su:f}",
                "closing_su": f"{found.closing_su:f}",
            }
            return "".join(f"{json.dumps(row)}\n" for row in [*rows, balances])
        case _:
            return _csv(rows)


def _csv(rows: Sequence[FocusRow]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: FocusValue) -> FocusValue:
    """A list as JSON, nothing where it is empty."""
    return (json.dumps(value) if value else None) if isinstance(value, list) else value
