"""Deliveries under a clock that a test turns: retries, dead letters, disabling, fairness."""

import asyncio
import itertools
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from coplace.v1.webhook_service_pb2 import WEBHOOK_STATE_DISABLED
from standardwebhooks import Webhook as Verifier

from services.webhooks.delivering import DispatchLimits
from services.webhooks.model import SCHEDULE_US, DeliveryAttempt, DeliveryState
from services.webhooks.signing import secret_text
from services.webhooks.tables import WEBHOOKS
from tests.unit.services.history.made import finished, started, submitted
from tests.unit.services.webhooks.made import DAY_US, KEY, URL, Posted, World

MINUTE_US = 60_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.add("own", user="ada")
    return found


def happen(world: World, number: int = 1) -> None:
    """One job starts."""
    world.tell("jobs.events", submitted(f"j{number}"), started(f"j{number}"))


async def wait_days(world: World, days: float) -> None:
    """Deliver what is due until so many days are over."""
    until = world.now + round(days * DAY_US)
    while True:
        await world.deliver()
        due = world.queue.next_due_us()
        if due is None or due > until:
            break
        world.now = max(due, world.now + 1)
    world.now = until


async def test_a_delivery_is_signed_for_its_webhook_and_made_once(world: World) -> None:
    happen(world)
    await world.deliver()
    await world.deliver()
    [(url, headers, body)] = world.posted.taken
    assert url == URL
    assert world.states() == [DeliveryState.DELIVERED]
    signer = Verifier(secret_text(KEY.of("own", 1)))
    at_s = world.now // 1_000_000
    assert headers["webhook-timestamp"] == str(at_s)
    signature = signer.sign(headers["webhook-id"], datetime.fromtimestamp(at_s, UTC), body.decode())
    assert headers["webhook-signature"] == signature


async def test_retries_follow_the_schedule_with_one_id_and_one_body(world: World) -> None:
    world.posted = Posted(500)
    happen(world)
    began, at = world.now, []
    while world.states() == [DeliveryState.WAITING]:
        before = len(world.posted.taken)
        await world.deliver()
        if len(world.posted.taken) > before:
            at.append(world.now - began)
        world.now = max(world.now + 1, world.queue.next_due_us() or 0)
    waits = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert len(at) == 10
    for wait, planned in zip(waits, SCHEDULE_US, strict=True):
        assert planned <= wait <= planned * 1.1 + 2
    assert len(set(world.posted.ids)) == 1
    assert len({body for _, _, body in world.posted.taken}) == 1
    assert len({headers["webhook-signature"] for _, headers, _ in world.posted.taken}) == 10
    [given_up] = world.queue.failed("own", None, 10)
    assert (given_up.last_status, given_up.attempts) == (500, 10)
    assert given_up.last_error == "it answers 500"


async def test_retries_of_deliveries_that_fail_together_are_spread(world: World) -> None:
    world.posted = Posted(500)
    for number in range(30):
        happen(world, number)
    await wait_days(world, 0.001)
    due = {row.due_at_us for row in world.rows()}
    assert len(due) == 30


async def test_a_receiver_says_how_long_to_wait_up_to_a_day(world: World) -> None:
    world.posted = Posted(503)
    world.posted.retry_after_us = 17 * MINUTE_US
    happen(world)
    await world.deliver()
    assert world.rows()[0].due_at_us == world.now + 17 * MINUTE_US
    world.now += 17 * MINUTE_US
    world.posted.retry_after_us = 10**18
    await world.deliver()
    assert world.rows()[0].due_at_us == world.now + DAY_US


async def test_a_receiver_that_is_gone_is_disabled_at_once(world: World) -> None:
    world.posted = Posted(410)
    happen(world)
    happen(world, 2)
    await world.deliver()
    row = world.registry.find("own")
    assert row
    assert row.state == WEBHOOK_STATE_DISABLED
    assert "410" in row.reason
    assert world.states() == [DeliveryState.FAILED] * 2
    happen(world, 3)
    await world.deliver()
    assert DeliveryState.WAITING not in world.states()


async def test_a_webhook_that_fails_for_days_is_disabled_and_its_owner_sees_why(
    world: World,
) -> None:
    world.posted = Posted(404)
    for number in range(7):
        happen(world, number)
        await wait_days(world, 1)
    [shown] = world.registry.shown(world.registry.every())
    assert shown.state == WEBHOOK_STATE_DISABLED
    assert shown.reason == "nothing was delivered for 5 days: it answers 404"
    assert (shown.last_status, shown.waiting_deliveries, shown.failed_deliveries) == (404, 0, 7)


async def test_one_success_ends_the_count_of_days(world: World) -> None:
    world.posted = Posted(500)
    happen(world)
    await wait_days(world, 4)
    world.posted.statuses = [200]
    happen(world, 2)
    await wait_days(world, 1)
    world.posted.statuses = [500]
    happen(world, 3)
    await wait_days(world, 3)
    row = world.registry.find("own")
    assert row
    assert row.is_active


async def test_what_was_given_up_is_tried_again_on_demand(world: World) -> None:
    world.posted = Posted(500)
    for number in range(3):
        happen(world, number)
    await wait_days(world, 4)
    failed = world.queue.failed("own", None, 10)
    assert len(failed) == 3
    assert (
        world.queue.failed("own", (failed[0].failed_at_us, failed[0].delivery_id), 10)
        == (failed[1:])
    )
    world.posted = Posted(200)
    assert world.queue.retry("own", [failed[0].delivery_id], world.now) == 1
    assert world.queue.retry("another", [failed[1].delivery_id], world.now) == 0
    await world.deliver()
    assert world.posted.ids == [failed[0].delivery_id]
    assert world.queue.retry("own", [], world.now) == 2
    await world.deliver()
    assert sorted(world.posted.ids) == sorted(each.delivery_id for each in failed)


async def test_who_may_not_any_more_gets_nothing_more(world: World) -> None:
    happen(world)
    world.objections["own"] = "'ada' may not have it posted"
    await world.deliver()
    assert world.posted.taken == []
    row = world.registry.find("own")
    assert row
    assert row.reason == "'ada' may not have it posted"


async def test_a_kill_between_an_answer_and_its_note_repeats_the_same_id(world: World) -> None:
    happen(world)

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    world.queue.attempted = die  # type: ignore[assignment,method-assign]
    deliverer = world.deliverer()
    await deliverer.step()
    with pytest.raises(Killed):
        await deliverer.settled()
    world.open()
    await world.deliver()
    assert len(world.posted.ids) == 2
    assert len(set(world.posted.ids)) == 1


class Hanging(Posted):
    """Some hosts never answer, the others do."""

    def __init__(self) -> None:
        super().__init__(200)
        self.open = 0
        self.most_open = 0

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> DeliveryAttempt:
        if "hang" not in url:
            return await super().__call__(url, body, headers)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await asyncio.sleep(3_600)
        raise AssertionError


async def test_webhooks_that_hang_delay_no_other(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.posted = hanging = Hanging()
    for number in range(20):
        row = world.add(f"hang{number}", region=True, who=f"o{number}")
        with world.database.transaction() as connection:
            connection.execute(
                WEBHOOKS.update()
                .where(WEBHOOKS.c.webhook_id == row.webhook_id)
                .values(url="https://hang.example.org/", failing_since_us=1)
            )
    world.now += 1
    world.add("well", user="ada")
    deliverer = world.deliverer(DispatchLimits(4, 5, 6))
    for number in range(50):
        happen(world, number)
        await deliverer.step()
        await asyncio.sleep(0.005)
    for _ in range(50):
        await deliverer.step()
        await asyncio.sleep(0.005)
    assert len(hanging.taken) == 50
    assert hanging.most_open == 5
    for task in deliverer._tasks:
        task.cancel()


async def test_a_connection_that_is_free_goes_to_each_webhook_in_turn(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add("own", user="ada")
    world.add("bobs", user="bob", who="bob")
    for number in range(5):
        happen(world, number)
    world.now += 1
    for job_id in ("b1", "b2"):
        world.tell("jobs.events", submitted(job_id, user="bob"), started(job_id))
    deliverer = world.deliverer(DispatchLimits(1, 1, 1))
    while await deliverer.step():
        await deliverer.settled()
    users = [each["data"]["user"] for each in world.posted.documents]
    assert users == ["ada", "bob", "ada", "bob", "ada", "ada", "ada"]


async def test_one_webhook_has_few_under_way_at_once(world: World) -> None:
    most = under_way = 0

    async def post(_url: str, _body: bytes, _headers: Mapping[str, str]) -> DeliveryAttempt:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return DeliveryAttempt(200)

    world.posted = post  # type: ignore[assignment]
    for number in range(40):
        happen(world, number)
    await world.deliver()
    assert most == 4
    assert world.states() == [DeliveryState.DELIVERED] * 40


async def test_a_removed_webhook_leaves_nothing(world: World) -> None:
    happen(world)
    world.registry.remove("own")
    await world.deliver()
    assert world.posted.taken == world.rows() == []


async def test_each_event_comes_at_least_once_with_one_id_whatever_fails(tmp_path: Path) -> None:
    rng = random.Random(7)
    world = World(tmp_path)
    world.add("own", user="ada")
    world.posted = Posted(*rng.choices((200, 500, 0, 429), k=300), 200)
    for number in range(60):
        world.log.add("jobs.events", submitted(f"j{number}"), started(f"j{number}"))
        world.log.add(
            "jobs.events", submitted(f"b{number}", user="bob"), finished(f"b{number}", user="bob")
        )
        if rng.random() < 0.5:
            world.apply()
        if rng.random() < 0.3:
            world.open()
        await world.deliver()
        world.now += rng.randrange(20 * MINUTE_US)
    world.apply()
    await wait_days(world, 4)
    found = dict[str, str]()
    for name, document in zip(world.posted.ids, world.posted.documents, strict=True):
        assert found.setdefault(document["data"]["jobId"], name) == name
        assert document["data"]["user"] == "ada"
    assert set(found) == {f"j{number}" for number in range(60)}
