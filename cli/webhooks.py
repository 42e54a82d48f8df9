"""What happens, posted to URLs: registered and looked after; the documents are those of REST."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from coplace.v1.webhook_service_pb2 import (
    AddWebhookRequest,
    FailedDelivery,
    ListFailedDeliveriesRequest,
    ListWebhooksRequest,
    RemoveWebhookRequest,
    RetryDeliveriesRequest,
    RotateWebhookSecretRequest,
    TestWebhookRequest,
    Webhook,
    WebhookState,
)
from coplace.v1.webhook_service_pb2_grpc import WebhookServiceStub

from cli.answers import write_page
from cli.asking import asking
from cli.notes import note, utc
from cli.output import Output, OutputName, Row
from coplace_client.errors import CannotStartError, UnusableError
from shared.catalogue.webhook_types import TEST, TYPES

app = typer.Typer(no_args_is_help=True, help="Post signed events to a URL.")

# A test waits for the receiver.
_WITHIN_S: Final = 75.0
_STATE: Final = "WEBHOOK_STATE_"
_ADDRESS: Final = "127.0.0.1:50056"
_TYPES: Final = [name for name in TYPES if name != TEST]

Webhooks = Annotated[
    str, typer.Option(envvar="COPLACE_WEBHOOKS_ADDRESS", help="host:port of webhooks.")
]
Name = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its id, as `list` shows it.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")]
Page = Annotated[
    str, typer.Option(metavar="TOKEN", help="Token of the answer before, for the next page.")
]


@app.command()
def add(
    url: Annotated[str, typer.Argument(help="With https.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help=f"One of {', '.join(_TYPES)}; again for more. All without it."),
    ] = None,
    user: Annotated[str, typer.Option(help="Of jobs of this user; yours without it.")] = "",
    account: Annotated[str, typer.Option(help="Of jobs and the budget of this account.")] = "",
    region: Annotated[
        bool, typer.Option("--region", help="Of all jobs and accounts, and of alerts.")
    ] = False,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    budget_percent: Annotated[
        int,
        typer.Option(
            min=0,
            max=100,
            help="Used share of the budget at which it is posted; 0: the operators' default.",
        ),
    ] = 0,
    output: OutputName = Output.TABLE,
    webhooks: Webhooks = _ADDRESS,
) -> None:
    """Register a URL; its secret is shown now and never again."""
    request = AddWebhookRequest(
        url=url,
        types=types,
        user=user,
        account=account,
        region=region,
        description=description,
        budget_percent=budget_percent,
    )
    answer = _ask(webhooks, lambda stub: stub.AddWebhook(request, timeout=_WITHIN_S))
    shown = {"webhook": answer.webhook.webhook_id, "secret": answer.secret}
    write_page(answer, _pairs(shown), output)


@app.command("list")
def list_webhooks(
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    webhooks: Webhooks = _ADDRESS,
) -> None:
    """List webhooks, and how they are doing."""
    request = ListWebhooksRequest(page_size=limit, page_token=page)
    answer = _ask(webhooks, lambda stub: stub.ListWebhooks(request, timeout=_WITHIN_S))
    write_page(answer, map(_webhook_row, answer.webhooks), output)


@app.command()
def remove(webhook: Name, output: OutputName = Output.TABLE, webhooks: Webhooks = _ADDRESS) -> None:
    """Remove a webhook and its waiting deliveries."""
    request = RemoveWebhookRequest(webhook_id=webhook)
    answer = _ask(webhooks, lambda stub: stub.RemoveWebhook(request, timeout=_WITHIN_S))
    write_page(answer, [{"webhook": webhook, "is": "removed"}], output)


@app.command("test")
def try_webhook(
    webhook: Name, output: OutputName = Output.TABLE, webhooks: Webhooks = _ADDRESS
) -> None:
    """Post a test now; a disabled webhook that takes it is enabled again."""
    request = TestWebhookRequest(webhook_id=webhook)
    answer = _ask(webhooks, lambda stub: stub.TestWebhook(request, timeout=_WITHIN_S))
    row: Row = {
        "delivery": answer.delivery_id,
        "is": "delivered" if answer.delivered else "not delivered",
        "status": answer.status or "",
        "why": answer.error,
    }
    write_page(answer, [row], output)
    if not answer.delivered:
        raise typer.Exit(1)


@app.command()
def failed(
    webhook: Name,
    limit: Limit = 50,
    page: Page = "",
    output: OutputName = Output.TABLE,
    webhooks: Webhooks = _ADDRESS,
) -> None:
    """List deliveries that were given up, the newest first."""
    request = ListFailedDeliveriesRequest(webhook_id=webhook, page_size=limit, page_token=page)
    answer = _ask(webhooks, lambda stub: stub.ListFailedDeliveries(request, timeout=_WITHIN_S))
    write_page(answer, map(_failed_row, answer.deliveries), output)


@app.command()
def retry(
    webhook: Name,
    deliveries: Annotated[
        list[str] | None, typer.Argument(metavar="DELIVERY...", help="Their ids; all without one.")
    ] = None,
    output: OutputName = Output.TABLE,
    webhooks: Webhooks = _ADDRESS,
) -> None:
    """Try deliveries again that were given up."""
    request = RetryDeliveriesRequest(webhook_id=webhook, delivery_ids=deliveries)
    answer = _ask(webhooks, lambda stub: stub.RetryDeliveries(request, timeout=_WITHIN_S))
    write_page(answer, [{"webhook": webhook, "tried again": answer.deliveries}], output)


@app.command("rotate-secret")
def rotate_secret(
    webhook: Name, output: OutputName = Output.TABLE, webhooks: Webhooks = _ADDRESS
) -> None:
    """Make another secret, which is shown now and never again; for some time both sign."""
    request = RotateWebhookSecretRequest(webhook_id=webhook)
    answer = _ask(webhooks, lambda stub: stub.RotateWebhookSecret(request, timeout=_WITHIN_S))
    shown = {"secret": answer.secret, "old one signs until": utc(answer.old_secret_until_us)}
    write_page(answer, _pairs(shown), output)


@app.command("read-anew")
def read_topics_anew(
    database: Annotated[
        Path,
        typer.Option(envvar="COPLACE_WEBHOOKS_DATABASE", help="File of the SQLite database."),
    ],
) -> None:
    """Read topics from the beginning again, after Kafka was restored. The service must not run."""
    from services.webhooks.app import MIGRATIONS
    from services.webhooks.writing import read_anew
    from shared.sql.sqlite import SqliteDatabase, locked

    if not database.is_file():
        raise typer.BadParameter(f"{database} is no file: name the database of webhooks")
    try:
        with locked(database, "COPLACE_WEBHOOKS_DATABASE"):
            opened = SqliteDatabase(database)
            opened.migrate(MIGRATIONS, "restore an older database")
            read_anew(opened)
    except CannotStartError as error:
        raise UnusableError(str(error)) from None
    note(
        [
            f"{database} is read anew when the service starts; webhooks and deliveries stay",
            "what was delivered before the days of COPLACE_WEBHOOKS_DELIVERED_KEPT_DAYS is posted "
            "again, with the same id",
        ]
    )


def _ask(address: str, question: Callable[[Any], Any]) -> Any:
    """Ask the service. Raises UnansweredError."""
    with asking(address) as channel:
        return question(WebhookServiceStub(channel))


def _pairs(shown: Mapping[str, str]) -> Iterable[Row]:
    """Yield a row for each: what is to be copied stays in one line."""
    return ({"what": name, "value": value} for name, value in shown.items())


def _webhook_row(webhook: Webhook) -> Row:
    state = WebhookState.Name(webhook.state).removeprefix(_STATE).lower()
    problem = webhook.reason or webhook.last_error
    scope = webhook.account and f"account {webhook.account}"
    return {
        "webhook": webhook.webhook_id,
        "of": "the region" if webhook.region else scope or f"user {webhook.user}",
        "url": webhook.url,
        "is": f"{state}: {problem}" if problem else state,
        "wait": webhook.waiting_deliveries,
        "failed": webhook.failed_deliveries,
    }


def _failed_row(delivery: FailedDelivery) -> Row:
    return {
        "delivery": delivery.delivery_id,
        "type": delivery.type,
        "happened": utc(delivery.at_us),
        "why": delivery.last_error,
    }
