"""Composition root of webhooks."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from coplace_client.errors import CannotStartError, RejectedError
from coplace_client.life import pause
from services.webhooks.adapters import read_key
from services.webhooks.addresses import AddressRules
from services.webhooks.alerts import AlertInbox, alerts_served
from services.webhooks.deliveries import DeliveryBacklog, DeliveryQueue, Retention
from services.webhooks.delivering import Deliverer, DispatchLimits
from services.webhooks.facts import TOPICS
from services.webhooks.meter import WebhooksMeter
from services.webhooks.posting import PostingLimits
from services.webhooks.registration import WebhookRow
from services.webhooks.registry import RegistryLimits, WebhookRegistry
from services.webhooks.sending import SystemResolver, WebhookPoster
from services.webhooks.service import WebhookService, objection_of
from services.webhooks.settings import WebhooksSettings
from services.webhooks.signing import Secrets
from services.webhooks.writing import TopicWriter
from shared.authority.bearing import TokenGate
from shared.authority.questions import question_door
from shared.process.clock import now_us
from shared.process.crash import end_process
from shared.process.grpc_server import grpc_server
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.sql.sqlite import SqliteDatabase, locked
from shared.streams.following import TopicFollower
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.followed_topics import FollowedTopics
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.consistency import InconsistentError

NAME: Final = "webhooks"
MIGRATIONS: Final = Path(__file__).parent / "migrations"
_ADVICE: Final = (
    "restore it, or have topics read anew with `coplace webhook read-anew` "
    "(docs/how-to/webhooks.md, 'When it refuses')"
)
_DAY_US: Final = 86_400 * 1_000_000
_COUNTS_EACH_S: Final = 5.0
# Submissions of jobs are known for so long after what was heard of them last.
_ENDED_JOBS_DAYS: Final = 7
_JOBS_DAYS: Final = 400
_EARLY_DAYS: Final = 1


async def serve(process: Process) -> None:
    """Follow topics, deliver and answer until the process shall stop."""
    own = WebhooksSettings()
    with locked(own.database, "COPLACE_WEBHOOKS_DATABASE"):
        database = SqliteDatabase(own.database)
        await asyncio.to_thread(database.migrate, MIGRATIONS, "restore an older database")
        keys = Secrets(read_key(own.key_path))
        limits = RegistryLimits(own.most_of_one_owner, own.most, _days(own.disabled_after_days))
        registry = WebhookRegistry(database, limits)
        await asyncio.to_thread(registry.require_key, keys.check)
        await wait_for_topics(process.settings, TOPICS, process.readiness, process.stop)
        if not process.stop.is_set():
            await _serve(process, own, database, registry, keys)


async def _serve(
    process: Process,
    own: WebhooksSettings,
    database: SqliteDatabase,
    registry: WebhookRegistry,
    keys: Secrets,
) -> None:
    crash = partial(end_process, NAME)
    meter = WebhooksMeter(process.telemetry.meter)
    queue = DeliveryQueue(database, _days(own.disabled_after_days))
    posting = posting_limits(own, process.settings)
    deployment = Deployment.from_settings(process.settings)
    writer = TopicWriter(database, deployment.codec, posting, now_us)
    async with (
        question_door(process, NAME) as door,
        FollowedTopics.connected(deployment) as kafka,
        sender(own) as sending,
    ):
        follower = TopicFollower(NAME, TOPICS, kafka, writer, _ADVICE, meter.applied)
        await process.wait_until_usable("its rows", partial(_problem, follower))
        if process.stop.is_set():
            return

        def objection(row: WebhookRow) -> str:
            return objection_of(door, row, row.owner)

        deliverer = Deliverer(
            *(queue, registry, sending.post, keys, dispatch_limits(own), retention(own), meter),
            objection=objection,
            now_us=now_us,
        )
        service = WebhookService(
            *(registry, queue, deliverer, keys, sending.check, door, crash),
            budget_percent=own.budget_percent,
            old_secret_us=round(own.old_secret_h * 3_600e6),
            now_us=now_us,
        )

        inbox = AlertInbox(database, posting, now_us, meter.alerted)
        counted = _Counted(queue)
        meter.observe(lambda: counted.backlog, follower.lag_s, kafka.behind)
        async with (
            grpc_server(
                *(process, own.host, own.port, service.handlers(), own.most_calls),
                gate=TokenGate(door, crash),
            ),
            alerts_served(inbox, own, process.settings),
        ):
            process.readiness.ready()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follower.run(process.stop))
                tasks.create_task(deliverer.run(process.stop))
                tasks.create_task(counted.run(process.stop))


class _Counted:
    """How much waits, as it was counted last."""

    def __init__(self, queue: DeliveryQueue) -> None:
        self._queue = queue
        self.backlog = DeliveryBacklog()

    async def run(self, stop: asyncio.Event) -> None:
        """Count until `stop` is set."""
        while not stop.is_set():
            self.backlog = await asyncio.to_thread(self._queue.backlog, now_us())
            await pause(stop, _COUNTS_EACH_S)


def sender(own: WebhooksSettings) -> WebhookPoster:
    """Return what posts, as the settings say. Raises CannotStartError."""
    allowed = [each.strip() for each in own.allowed.split(",") if each.strip()]
    try:
        rules = AddressRules(allowed, with_http=own.allow_http)
    except RejectedError as error:
        raise CannotStartError(f"COPLACE_WEBHOOKS_ALLOWED: {error.problem}") from None
    # A lookup may outlive the attempt that it is for.
    resolver = SystemResolver(2 * (own.at_once + own.at_once_failing))
    return WebhookPoster(rules, own.timeout_s, ca_file=own.ca_file, resolver=resolver)


def posting_limits(own: WebhooksSettings, shared: Settings) -> PostingLimits:
    """Return how much may wait."""
    return PostingLimits(own.most_waiting, round(shared.clock_tolerance_s * 1e6))


def dispatch_limits(own: WebhooksSettings) -> DispatchLimits:
    """Return how many deliveries are under way at once."""
    return DispatchLimits(own.at_once_of_one, own.at_once_failing, own.at_once)


def retention(own: WebhooksSettings) -> Retention:
    """Return how long rows are kept."""
    return Retention(
        delivered_us=_days(own.delivered_kept_days),
        failed_us=_days(own.failed_kept_days),
        most_failed=own.most_failed,
        ended_jobs_us=_days(_ENDED_JOBS_DAYS),
        jobs_us=_days(_JOBS_DAYS),
        early_us=_days(_EARLY_DAYS),
    )


def _days(days: float) -> int:
    return round(days * _DAY_US)


async def _problem(follower: TopicFollower) -> str:
    """Return what keeps webhooks from going on, in words; empty where nothing does."""
    wrong = await follower.open()
    return str(InconsistentError(NAME, wrong)) if wrong else ""


def main() -> None:
    """Run the process of webhooks."""
    run_process(NAME, serve)
