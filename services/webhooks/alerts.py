"""What Alertmanager posts, to who hears of alerts.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

import asyncio
import hmac
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final

import orjson
import structlog
from aiohttp import web
from coplace.v1.webhook_service_pb2 import Alert

from coplace_client.errors import CannotStartError, RejectedError
from coplace_client.tls import files_problem
from services.webhooks.posting import Outbox, PostingLimits
from services.webhooks.settings import WebhooksSettings
from shared.catalogue.webhook_types import ALERT
from shared.process.settings import Settings
from shared.sql.sqlite import SqliteDatabase

_MOST_BYTES: Final = 4 * 2**20
_MOST_ALERTS: Final = 1_000
_MOST_TEXT: Final = 4_096
_STATES: Final = ("firing", "resolved")
_RENEWED_EACH_S: Final = 5.0
# Alertmanager's way to say that something has not ended.
_NEVER: Final = "0001-01-01T00:00:00Z"

log = structlog.get_logger(__name__)


class AlertInbox:
    """Takes alerts into the database. `on_alerts` hears how many there were."""

    def __init__(
        self,
        database: SqliteDatabase,
        limits: PostingLimits,
        now_us: Callable[[], int],
        on_alerts: Callable[[int], object],
    ) -> None:
        self._database, self._limits, self._now_us = database, limits, now_us
        self._on_alerts = on_alerts

    def take(self, body: bytes) -> int:
        """Take what Alertmanager posted, and return how many alerts it has. One that is posted
        again, since it still fires, is no new one. Raises RejectedError."""
        alerts = list(parse_alerts(body))
        with self._database.transaction() as connection:
            outbox = Outbox(connection, self._limits, self._now_us)
            for alert in alerts:
                hearers = outbox.hearers.of(ALERT, written_us=outbox.now_us)
                is_over = alert.status == "resolved"
                at_us = alert.ends_at_us if is_over and alert.ends_at_us else alert.starts_at_us
                name = f"{ALERT}/{alert.fingerprint}/{alert.starts_at_us}/{alert.status}"
                outbox.post(hearers, name, ALERT, at_us, alert)
            outbox.write()
        self._on_alerts(len(alerts))
        return len(alerts)


def parse_alerts(body: bytes) -> Iterator[Alert]:
    """Yield the alerts of a body. Raises RejectedError."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise RejectedError("", "the body must be the JSON that Alertmanager posts") from None
    rows = found.get("alerts") if isinstance(found, dict) else None
    if not isinstance(rows, list) or len(rows) > _MOST_ALERTS:
        problem = f"must be a list of at most {_MOST_ALERTS}: set max_alerts in Alertmanager"
        raise RejectedError("alerts", problem)
    for number, row in enumerate(rows):
        try:
            yield _alert(row)
        except RejectedError as error:
            raise error.inside(f"alerts[{number}]") from None


def _alert(row: Any) -> Alert:
    if not isinstance(row, dict):
        raise RejectedError("", "must be an object")
    status, fingerprint = _text(row, "status"), _text(row, "fingerprint")
    if status not in _STATES or not fingerprint:
        raise RejectedError("status", "must be firing or resolved, beside a fingerprint")
    ends = _text(row, "endsAt")
    return Alert(
        status=status,
        labels=_texts(row, "labels"),
        annotations=_texts(row, "annotations"),
        starts_at_us=_time_us("startsAt", _text(row, "startsAt")),
        ends_at_us=0 if status == "firing" or ends == _NEVER else _time_us("endsAt", ends),
        generator_url=_text(row, "generatorURL"),
        fingerprint=fingerprint,
    )


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name, "")
    if not isinstance(value, str):
        raise RejectedError(name, "must be a text")
    return value[:_MOST_TEXT]


def _texts(row: Mapping[str, Any], name: str) -> dict[str, str]:
    found = row.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise RejectedError(name, "must be an object of texts")
    return {key[:_MOST_TEXT]: value[:_MOST_TEXT] for key, value in found.items()}


def _time_us(name: str, text: str) -> int:
    try:
        found = round(datetime.fromisoformat(text).timestamp() * 1e6)
    except (ValueError, OverflowError):
        raise RejectedError(name, f"must be a time of RFC 3339, got {text[:40]!r}") from None
    if found < 0:
        raise RejectedError(name, f"must not be before 1970, got {text[:40]!r}")
    return found


def alerts_app(inbox: AlertInbox, token: Callable[[], str]) -> web.Application:
    """Return the HTTP application; the token is read at each request."""

    async def post(request: web.Request) -> web.Response:
        shown = request.headers.get("authorization", "").partition(" ")
        is_bearer = shown[0].lower() == "bearer"
        expected = await asyncio.to_thread(token)
        # A file that was emptied meanwhile lets nobody in.
        is_known = is_bearer and expected != ""
        if not is_known or not hmac.compare_digest(shown[2].strip().encode(), expected.encode()):
            problem = "show the token of COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE as a bearer token\n"
            return web.Response(status=401, text=problem, headers={"www-authenticate": "Bearer"})
        try:
            taken = await asyncio.to_thread(inbox.take, await request.read())
        except RejectedError as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.json_response({"alerts": taken})

    app = web.Application(client_max_size=_MOST_BYTES)
    app.router.add_post("/alerts", post)
    return app


@asynccontextmanager
async def alerts_served(
    inbox: AlertInbox, own: WebhooksSettings, shared: Settings
) -> AsyncIterator[None]:
    """Listen to Alertmanager meanwhile, where its token is set: by https where this process has a
    certificate. Raises CannotStartError."""
    file = own.alerts_token_file
    if file is None:
        yield
        return
    if not file.read_text().strip():
        raise CannotStartError(f"COPLACE_WEBHOOKS_ALERTS_TOKEN_FILE={file} is empty: write a token")
    if problem := files_problem(shared, "grpc"):
        raise CannotStartError(f"HTTP on {own.alerts_host}:{own.alerts_port}: {problem}")
    runner = web.AppRunner(
        alerts_app(inbox, lambda: file.read_text().strip()), access_log=None, handle_signals=False
    )
    await runner.setup()
    tls = _tls(shared)
    try:
        try:
            site = web.TCPSite(runner, own.alerts_host, own.alerts_port, ssl_context=tls)
            await site.start()
        except OSError as error:
            raise CannotStartError(
                f"HTTP cannot listen on {own.alerts_host}:{own.alerts_port}: {error.strerror}: set "
                "COPLACE_WEBHOOKS_ALERTS_HOST and COPLACE_WEBHOOKS_ALERTS_PORT"
            ) from None
        host, port = runner.addresses[0][:2]
        log.info("listening to Alertmanager", host=host, port=port, tls=tls is not None)
        renewing = asyncio.create_task(_renew(tls, shared))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
    finally:
        await runner.cleanup()


def _tls(shared: Settings) -> ssl.SSLContext | None:
    if shared.grpc_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(shared.grpc_cert_file, shared.grpc_key_file)
    return context


async def _renew(context: ssl.SSLContext | None, shared: Settings) -> None:
    """Show connections that begin the certificate as its files have it now."""
    while True:
        await asyncio.sleep(_RENEWED_EACH_S)
        if context is not None and shared.grpc_cert_file is not None:
            with suppress(OSError, ssl.SSLError):
                context.load_cert_chain(shared.grpc_cert_file, shared.grpc_key_file)
