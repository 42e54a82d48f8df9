"""Which webhooks hear of what, in whatever order topics are read."""

import itertools
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_FAILED
from coplace.v1.placement_pb2 import VERDICT_CANCELLED, VERDICT_REJECTED, PlacementDecided

from coplace_client.errors import RejectedError
from services.webhooks.deliveries import Delivery
from services.webhooks.model import DeliveryAttempt, DeliveryState
from services.webhooks.posting import PostingLimits
from shared.sql.positions import LostRowsError
from tests.unit.services.history.made import (
    T0_US,
    charge,
    decided,
    finished,
    requeued,
    started,
    submitted,
)
from tests.unit.services.webhooks.made import DAY_US, RETENTION, World, allocated, batch

_YEAR_10000_US = 253_402_300_800_000_000
ADAS, BOBS = "north/alpha/1/1767225600", "north/alpha/2/1767225600"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def rejected(job_id: str) -> PlacementDecided:
    reason: dict[str, Any] = {
        "cluster": "",
        "grant": 0,
        "node_indices": [],
        "reason": "it has no gpu",
    }
    return decided(job_id, verdict=VERDICT_REJECTED, **reason)


def test_a_user_hears_of_own_jobs_alone(world: World) -> None:
    world.add("own", user="ada")
    for job_id, user in ((ADAS, "ada"), (BOBS, "bob")):
        world.tell("jobs.events", submitted(job_id, user=user), started(job_id))
        world.tell("jobs.events", finished(job_id, user=user))
    world.tell("jobs.events", submitted("c", user="ada "), finished("c", user="ada "))
    assert world.types() == ["job.ended", "job.started"]
    assert all(b'"user":"ada"' in row.body for row in world.rows())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("is_one_batch", [False, True])
def test_the_owner_of_an_array_hears_of_its_tasks_in_whatever_order_topics_are_read(
    world: World, order: tuple[int, ...], is_one_batch: bool
) -> None:
    world.add("own", user="ada")
    told = (
        ("jobs.events", submitted("a", user="ada", array="0-1")),
        ("placement.decisions", decided("a_1", array_job_id="a")),
        ("jobs.events", started("a_1")),
    )
    for number in order:
        topic, payload = told[number]
        world.log.add(topic, payload)
        if not is_one_batch:
            world.apply()
    world.apply()
    world.tell("jobs.events", started("a_2"), started("a_1", attempt=2))
    assert world.types() == ["job.started", "job.started"]


def test_who_submitted_a_job_has_it_whoever_reports_its_end(world: World) -> None:
    world.add("adas", user="ada")
    world.add("bobs", user="bob", who="bob")
    world.tell("jobs.events", submitted(ADAS, user="ada"), finished(ADAS, user="bob"))
    assert world.types("adas") == ["job.ended"]
    assert world.types("bobs") == []


def test_an_account_and_the_region_hear_of_jobs_of_all_their_users(world: World) -> None:
    world.add("physics", account="physics", who="olga")
    world.add("all", region=True, who="olga")
    world.tell("jobs.events", submitted(ADAS), started(ADAS))
    world.tell("jobs.events", submitted(BOBS, user="bob", account="art"), started(BOBS))
    assert [row.webhook_id for row in world.rows()].count("all") == 2
    assert world.types("physics") == ["job.started"]


def test_a_body_has_the_document_that_rest_gives_of_a_run(world: World) -> None:
    world.add("own", user="ada", types=["job.ended"])
    world.tell(
        "jobs.events", submitted(ADAS), finished(ADAS, outcome=JOB_OUTCOME_FAILED, energy_j=7.5)
    )
    [row] = world.rows()
    found = orjson.loads(row.body)
    assert found["type"] == "job.ended"
    assert found["timestamp"] == "2026-01-01T01:00:00.000000Z"
    assert found["data"]["state"] == "RUN_STATE_FAILED"
    assert found["data"]["jobId"] == ADAS
    assert found["data"]["energyJ"] == 7.5
    assert found["data"]["priceSu"] == ""


def test_a_start_says_what_the_submission_said(world: World) -> None:
    world.add("own", user="ada")
    world.tell("jobs.events", submitted(ADAS), started(ADAS))
    data = orjson.loads(world.rows()[0].body)["data"]
    assert (data["user"], data["account"], data["appId"]) == ("ada", "physics", "hpcg")
    assert (data["nodes"], data["nodeNames"]) == (4, ["n[1-4]"])


def test_copies_also_by_other_sources_make_one_delivery(world: World) -> None:
    world.add("own", user="ada")
    world.tell("jobs.events", submitted(ADAS), started(ADAS), started(ADAS), finished(ADAS))
    world.tell("jobs.events", finished(ADAS, energy_j=1))
    assert world.types() == ["job.ended", "job.started"]
    world.tell("jobs.events", requeued(ADAS), started(ADAS, 2))
    assert world.types() == ["job.ended", "job.started", "job.started"]


def test_a_rejection_that_is_read_before_its_submission_is_delivered(world: World) -> None:
    world.add("own", user="ada")
    world.tell("placement.decisions", rejected(ADAS))
    assert world.rows() == []
    world.open()
    world.tell("jobs.events", submitted(ADAS))
    [row] = world.rows()
    assert row.type == "job.rejected"
    data = orjson.loads(row.body)["data"]
    assert (data["reason"], data["state"], data["user"]) == (
        *("it has no gpu", "RUN_STATE_REJECTED"),
        "ada",
    )
    world.tell("jobs.events", submitted(ADAS))
    assert len(world.rows()) == 1


def test_a_job_that_is_cancelled_while_it_waits_has_ended(world: World) -> None:
    world.add("own", user="ada")
    world.tell("jobs.events", submitted(ADAS))
    nowhere: dict[str, Any] = {
        "verdict": VERDICT_CANCELLED,
        "cluster": "",
        "grant": 0,
        "node_indices": [],
    }
    world.tell("placement.decisions", decided(ADAS, **nowhere))
    world.tell("jobs.events", finished(ADAS))
    [row] = world.rows()
    assert orjson.loads(row.body)["data"]["state"] == "RUN_STATE_CANCELLED"


def test_a_cancellation_of_a_running_job_is_not_its_end(world: World) -> None:
    world.add("own", user="ada")
    world.tell("jobs.events", submitted(ADAS), started(ADAS))
    world.tell("placement.decisions", decided(ADAS, verdict=VERDICT_CANCELLED))
    assert world.types() == ["job.started"]


def test_nothing_is_heard_of_what_was_written_before_the_registration(world: World) -> None:
    world.tell("jobs.events", submitted(ADAS))
    world.log.add("jobs.events", started(ADAS))
    world.now += 11_000_000
    world.add("own", user="ada")
    world.apply()
    assert world.rows() == []


def test_an_event_that_no_body_can_have_is_left_out_and_stops_nothing(world: World) -> None:
    world.add("own", user="ada")
    world.add("physicists", account="physics", who="olga", types=["budget.reached"])
    world.add("artists", account="art", who="olga", types=["budget.reached"])
    world.tell("jobs.events", submitted(ADAS), started(ADAS, started_at_us=_YEAR_10000_US))
    world.tell("jobs.events", finished(ADAS))
    world.tell("billing", allocated("physics", "100"), allocated("art", "100"))
    world.tell("billing", allocated("physics", "NaN", T0_US + 1))
    wrong = charge(BOBS, "90", account="physics", charged_at_us=_YEAR_10000_US)
    world.tell("prices.charges", wrong, charge(ADAS, "90", account="art"))
    assert world.types("own") == ["job.ended"]
    assert world.types("physicists") == []
    assert world.types("artists") == ["budget.reached"]
    world.tell("prices.charges", charge("c", "90"))
    assert world.types("physicists") == ["budget.reached"]


def test_a_webhook_that_is_disabled_finds_what_happened_among_the_failed(world: World) -> None:
    world.add("own", user="ada")
    world.registry.disable("own", "it failed", world.now)
    world.tell("jobs.events", submitted(ADAS), started(ADAS))
    [found] = world.queue.failed("own", None, 10)
    assert found.last_error == "the webhook is disabled"


def test_more_than_may_wait_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, limits=PostingLimits(3, 0))
    world.add("own", user="ada")
    for number in range(5):
        world.tell("jobs.events", submitted(f"j{number}"), started(f"j{number}"))
    assert world.states().count(DeliveryState.WAITING) == 3
    assert len(world.queue.failed("own", None, 10)) == 2


def test_every_order_of_topics_and_every_kill_makes_the_same_deliveries(tmp_path: Path) -> None:
    names = set()
    for seed in range(12):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world, rng = World(folder), random.Random(seed)
        world.add("own", user="ada")
        world.add("all", region=True, who="olga")
        world.log.add("billing", allocated("physics", "100"))
        for number in range(6):
            job_id, user = f"north/alpha/{number}", ("ada", "bob")[number % 2]
            world.log.add("jobs.events", submitted(job_id, user=user), started(job_id))
            world.log.add("jobs.events", finished(job_id, user=user))
            world.log.add("placement.decisions", rejected(job_id))
            world.log.add("prices.charges", charge(job_id, "17"))
        left = dict.fromkeys(world.log.records, 0)
        while left:
            place = rng.choice(sorted(left))
            records = world.log.records[place]
            until = rng.randint(left[place] + 1, len(records))
            part = [batch(records[left[place] : until], left[place])]
            if rng.random() < 0.3:
                _killed(world, part)
            world.writer.apply(part)
            left[place] = until
            if until == len(records):
                del left[place]
        names.add(tuple(sorted((row.delivery_id, row.type) for row in world.rows())))
    [found] = names
    assert [kind for _, kind in found].count("budget.reached") == 1
    assert len(found) == 3 * 3 + 6 * 3 + 1


def _killed(world: World, part: list) -> None:  # type: ignore[type-arg]
    """A process that dies in its transaction, and the next one."""

    class KilledError(Exception):
        pass

    def die(*_: object) -> None:
        raise KilledError

    before = world.writer.positions()
    limits = world.writer._limits
    world.writer._now_us = die  # type: ignore[assignment]
    try:
        world.writer.apply(part)
    except KilledError:
        assert world.writer.positions() == before
    assert world.limits == limits
    world.open()


def test_a_database_that_was_replaced_is_noticed(world: World) -> None:
    world.log.add("jobs.events", submitted(ADAS), started(ADAS))
    [(_place, records)] = world.log.records.items()
    with pytest.raises(LostRowsError):
        world.writer.apply([batch(records[1:], 1)])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_budget_is_reached_once_in_any_order_of_revisions(
    world: World, order: tuple[int, ...]
) -> None:
    world.add("money", account="physics", who="olga")
    world.tell("billing", allocated("physics", "100"))
    charges = [
        charge(ADAS, "70"),
        charge(ADAS, "85", revision=2),
        charge(BOBS, "1", surcharges=[("art", "x", "5")]),
    ]
    for number in order:
        world.tell("prices.charges", charges[number])
    found = [orjson.loads(row.body) for row in world.rows()]
    assert [each["data"]["percent"] for each in found] == [80]
    assert found[0]["data"]["account"]["allocatedSu"] == "100.000000"


def test_a_larger_allocation_is_another_budget_and_a_refund_is_none(world: World) -> None:
    world.add("money", account="physics", who="olga", budget_percent=50)
    world.tell("billing", allocated("physics", "100"))
    world.tell("prices.charges", charge(ADAS, "49.999999"))
    assert world.rows() == []
    world.tell("prices.charges", charge(ADAS, "50", revision=2))
    world.tell("prices.charges", charge(ADAS, "10", revision=3), charge(BOBS, "60"))
    assert world.types() == ["budget.reached"]
    world.tell("billing", allocated("physics", "1000", T0_US + 1))
    world.tell("prices.charges", charge("c", "430"))
    assert world.types() == ["budget.reached", "budget.reached"]


def test_what_a_webhook_cannot_hear_of_is_refused_by_field(world: World) -> None:
    for field, asked in (
        ("types[0]", {"user": "ada", "types": ["budget.reached"]}),
        ("types[0]", {"account": "physics", "types": ["alert"]}),
        ("types[1]", {"user": "ada", "types": ["job.ended", "job.endet"]}),
        ("user", {"user": "ada", "account": "physics"}),
        ("account", {"account": "physics", "region": True}),
        ("budget_percent", {"account": "physics", "budget_percent": 101}),
    ):
        with pytest.raises(RejectedError) as error:
            world.add("x", **asked)
        assert error.value.field == field
    with pytest.raises(RejectedError, match="name one of user, account and region"):
        world.add("x", who="")


def test_rows_are_kept_for_some_time_alone(world: World) -> None:
    world.add("own", user="ada")
    world.tell("jobs.events", submitted(ADAS), finished(ADAS))
    world.tell("placement.decisions", rejected("nobody's"))
    [row] = world.rows()
    world.queue.attempted("own", Delivery(row.delivery_id, b"", 0), DeliveryAttempt(200), world.now)
    assert world.queue.remove_old(world.now + DAY_US, RETENTION) == 0
    assert world.queue.remove_old(world.now + 7 * DAY_US + 1, RETENTION) == 3
    assert world.rows() == []
