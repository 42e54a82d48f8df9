"""Makes the deliveries that are due: a webhook that is slow, or answers nothing, delays no other.

Of one webhook few are under way at once, and a connection that is free goes to whom none went to
for longest. Those that failed last share a part of the connections, so
that however many hang, the others have theirs.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import structlog

from services.webhooks.deliveries import Delivery, DeliveryQueue, DueWebhook, Retention
from services.webhooks.model import DeliveryAttempt
from services.webhooks.registration import WebhookRow
from services.webhooks.registry import WebhookRegistry
from services.webhooks.signing import Secrets, signed_headers

# However quiet it is, what others wrote is noticed within this time.
_LOOKS_EACH_S: Final = 1.0
_TIDIES_EACH_S: Final = 600.0
_GRACE_S: Final = 5.0

log = structlog.get_logger(__name__)


# Posts a body with headers to a URL, and returns what came of it.
Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[DeliveryAttempt]]


class AttemptMeter(Protocol):
    """Counts attempts."""

    def attempted(self, attempt: DeliveryAttempt) -> None:
        """Count one."""
        ...


class DispatchLimits(NamedTuple):
    """How many deliveries are under way at once: of one webhook, of those that failed last, and of
    all others."""

    of_one: int
    of_failing: int
    of_others: int


class Deliverer:
    """Looks for what is due, posts it, and notes what came of it. `objection` says why the table of
    authority does not let a webhook hear of anything any more; empty where it does."""

    def __init__(
        self,
        queue: DeliveryQueue,
        registry: WebhookRegistry,
        post: Post,
        secrets: Secrets,
        limits: DispatchLimits,
        retention: Retention,
        meter: AttemptMeter,
        *,
        objection: Callable[[WebhookRow], str],
        now_us: Callable[[], int],
    ) -> None:
        self._queue, self._registry, self._post, self._secrets = queue, registry, post, secrets
        self._limits, self._retention, self._meter = limits, retention, meter
        self._objection, self._now_us = objection, now_us
        self._under_way: dict[str, set[str]] = defaultdict(set)
        # The number of the delivery that each webhook began last.
        self._begun: dict[str, int] = {}
        self._turn = 0
        self._failing = self._others = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look for what is due now."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set. Raises what a delivery raises: that is a bug."""
        tidied_us = 0
        while not stop.is_set():
            self._wake.clear()
            await self.step()
            if self._now_us() - tidied_us >= _TIDIES_EACH_S * 1e6:
                tidied_us = self._now_us()
                await asyncio.to_thread(self._queue.remove_old, tidied_us, self._retention)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOKS_EACH_S):
                    await self._wake.wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def step(self) -> int:
        """Begin what is due, as far as connections are free; return how many these are."""
        for task in [each for each in self._tasks if each.done()]:
            self._tasks.remove(task)
            task.result()
        under_way = {name: tuple(each) for name, each in self._under_way.items()}
        found = await asyncio.to_thread(
            self._queue.due, self._now_us(), under_way, self._limits.of_one
        )
        begun = 0
        for webhook, deliveries in self._by_turns(found, under_way):
            if reason := self._objection(webhook):
                await asyncio.to_thread(
                    self._registry.disable, webhook.webhook_id, reason, self._now_us()
                )
                log.warning("webhook disabled", webhook=webhook.webhook_id, reason=reason)
                continue
            begun += self._begin(webhook, deliveries)
        return begun

    def _by_turns(
        self, found: Sequence[DueWebhook], under_way: Iterable[str]
    ) -> Sequence[DueWebhook]:
        """Return first who began nothing for longest, and forget of others when they did."""
        kept = {*under_way, *(each.webhook.webhook_id for each in found)}
        self._begun = {name: turn for name, turn in self._begun.items() if name in kept}
        return sorted(found, key=lambda each: self._begun.get(each.webhook.webhook_id, 0))

    async def settled(self) -> None:
        """Return when what is under way is noted."""
        while self._tasks:
            await asyncio.wait(self._tasks)
            for task in [each for each in self._tasks if each.done()]:
                self._tasks.remove(task)
                task.result()

    def _begin(self, webhook: WebhookRow, deliveries: Sequence[Delivery]) -> int:
        is_failing = webhook.failing_since_us > 0
        own, limits = self._under_way[webhook.webhook_id], self._limits
        begun = 0
        for delivery in deliveries:
            is_full = (
                self._failing >= limits.of_failing
                if is_failing
                else self._others >= limits.of_others
            )
            # One that failed last shows by one delivery whether it answers again.
            if is_full or (is_failing and own):
                break
            own.add(delivery.delivery_id)
            self._turn += 1
            self._begun[webhook.webhook_id] = self._turn
            self._failing += is_failing
            self._others += not is_failing
            coroutine = self._deliver(webhook, delivery, is_failing=is_failing)
            self._tasks.add(asyncio.create_task(coroutine))
            begun += 1
        return begun

    async def _deliver(self, webhook: WebhookRow, delivery: Delivery, *, is_failing: bool) -> None:
        try:
            attempt = await self.attempt(webhook, delivery.delivery_id, delivery.body)
            await asyncio.to_thread(
                self._queue.attempted, webhook.webhook_id, delivery, attempt, self._now_us()
            )
        finally:
            own = self._under_way[webhook.webhook_id]
            own.discard(delivery.delivery_id)
            if not own:
                del self._under_way[webhook.webhook_id]
            self._failing -= is_failing
            self._others -= not is_failing
            self._wake.set()

    async def attempt(self, webhook: WebhookRow, delivery_id: str, body: bytes) -> DeliveryAttempt:
        """Sign and post once, and return what came of it."""
        now_us = self._now_us()
        numbers = webhook.secret_numbers(now_us)
        secrets = [self._secrets.of(webhook.webhook_id, number) for number in numbers]
        headers = signed_headers(delivery_id, now_us, body, secrets)
        attempt = await self._post(webhook.url, body, headers)
        self._meter.attempted(attempt)
        return attempt
